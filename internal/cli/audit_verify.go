package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/penstock/penstock/internal/cli/chain"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type auditVerifyCmd struct {
	File      string `env:"-" short:"f" placeholder:"FILE"`
	SinceHead string `env:"-" placeholder:"FILE"`
	output
}

// LongHelp is the help that is too long for the tags.
func (auditVerifyCmd) LongHelp() map[string]string {
	return map[string]string{
		"file": "Verify this file, which export wrote, in place of the server's log; - is standard input.",
		"since-head": "Also look whether the log still has the heads in this file, which -o json printed once; only what " +
			"came later is read.",
	}
}

// Help is shown below the flags.
func (auditVerifyCmd) Help() string {
	return `Every entry has the digest of the one before it in its budget (of an app, operators, anonymous
callers or nobody), so that an entry that was changed, removed or put
in between is found by whoever has the log. That its newest entries were removed, or all of it
written anew, shows only beside a head that was kept elsewhere. Exit code 1 says that it does
not hold.

Examples:
  penstock audit verify -o json > head.json       # keep it where the store's keepers cannot change it
  penstock audit verify --since-head head.json
  penstock audit export > audit.ndjson
  penstock audit verify -f audit.ndjson`
}

func (c *auditVerifyCmd) Run(r *run) error {
	heads, err := c.heads()
	if err != nil {
		return usage(err)
	}
	v := chain.New(heads)
	var chains []wire.AuditChain
	if c.File != "" {
		err = c.readFile(r, v)
	} else {
		chains, err = readWhole(r, client.AuditQuery{Since: oldest(heads)}, v.Add)
	}
	if err == nil {
		err = v.End(chains)
	}
	var broken *chain.Broken
	if errors.As(err, &broken) {
		return &ended{ExitFailed, err}
	}
	if err != nil {
		return err
	}
	if err := c.report(r, v.Parts()); err != nil {
		return err
	}
	for _, p := range chains {
		if p.Dropped > 0 {
			r.say("partition %d: %s entries of %s were dropped before their time, because its budget was used up",
				p.Partition, num(p.Dropped), plain(string(p.Budget)))
		}
	}
	return nil
}

func (c *auditVerifyCmd) report(r *run, parts []chain.Part) error {
	if c.json() {
		heads := make([]chain.Head, len(parts))
		for i := range parts {
			heads[i] = parts[i].Head
		}
		return printJSON(r.Out, heads)
	}
	t := table{
		header: []string{"PARTITION", "BUDGET", "FROM", "TO", "NEWEST", "DIGEST"},
		right:  map[int]bool{0: true, 2: true, 3: true},
	}
	entries := int64(0)
	for _, p := range parts {
		entries += p.Entries
		newest := p.Head.At.Local().Format(time.DateTime)
		t.add(
			num(int64(p.Head.Partition)), plain(string(p.Head.Budget)), num(p.First), num(p.Head.Number), newest,
			string(p.Head.Digest),
		)
	}
	if len(parts) > 0 {
		if _, err := fmt.Fprint(r.Out, t.String()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.Out, "held: %s entries\n", num(entries))
	return err
}

// heads are those of --since-head.
func (c *auditVerifyCmd) heads() (all []chain.Head, err error) {
	if c.SinceHead == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.SinceHead)
	if err != nil {
		return nil, fmt.Errorf("--since-head: %w", err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("--since-head %s: %w; it is what penstock audit verify -o json prints", c.SinceHead, err)
	}
	return all, nil
}

// oldest is when the log must be read from to meet all heads.
func oldest(heads []chain.Head) (at time.Time) {
	for _, h := range heads {
		if at.IsZero() || h.At.Before(at) {
			at = h.At
		}
	}
	return at
}

// readWhole reads entries as they are kept, which only who may see all of them is shown.
func readWhole(
	r *run, q client.AuditQuery, each func(*wire.AuditRecord) error,
) ([]wire.AuditChain, error) {
	api, err := r.client()
	if err != nil {
		return nil, err
	}
	q.Oldest = true
	chains, _, err := readAudit(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		if e.Text == "" {
			return false, &ended{
				ExitRefused, errors.New("the digests are shown to the operator alone (the role admin for everything)"),
			}
		}
		return true, each(e)
	})
	return chains, err
}

func (c *auditVerifyCmd) readFile(r *run, v *chain.Verifier) error {
	in := r.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return usage(fmt.Errorf("--file: %w", err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	lines := json.NewDecoder(bufio.NewReader(in))
	for n := 1; ; n++ {
		var e wire.AuditRecord
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return usage(fmt.Errorf("--file %s: record %d: %w", c.File, n, err))
		}
		if err := v.Add(&e); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
	}
}

type auditExportCmd struct{ spanFlags }

// Help is shown below the flags.
func (auditExportCmd) Help() string {
	return `One JSON object a line, the oldest first, of all partitions by time: the entry, its text byte by byte
as it is kept, the digest of that, and what was there before and after with secrets masked.
"penstock audit verify -f" verifies the file.

Examples:
  penstock audit export > audit.ndjson
  penstock audit export --since 'yesterday 00:00' --until '00:00' | gzip > audit.ndjson.gz`
}

func (c *auditExportCmd) Run(r *run) error {
	var q client.AuditQuery
	if err := c.into(r, &q); err != nil {
		return err
	}
	out := bufio.NewWriter(r.Out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false) // every byte that a digest is of stays as it is
	_, err := readWhole(r, q, func(e *wire.AuditRecord) error { return lines.Encode(e) })
	return errors.Join(err, out.Flush())
}
