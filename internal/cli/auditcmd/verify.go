package auditcmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/penstock/penstock/internal/cli/chain"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type verifyCmd struct {
	File      string `env:"-" short:"f" placeholder:"FILE"`
	SinceHead string `env:"-" placeholder:"FILE"`
	command.Output
}

func (verifyCmd) LongHelp() map[string]string {
	return map[string]string{
		"file": "Verify a file written by \"penstock audit export\" instead of the server's log; - is standard input.",
		"since-head": "Also check that the log still contains the heads in this file, which -o json printed earlier. Reads " +
			"only the entries since then.",
	}
}

func (verifyCmd) Help() string {
	return `Each entry contains the digest of the previous entry of the same budget. Each app, the operators,
unauthenticated callers and automatic changes have a budget each. So anyone with the log can detect
that an entry was changed, removed or inserted. To detect that the newest entries were removed, or the
whole log rewritten, compare with a head that you keep elsewhere. Exit code 1 means that the log is not intact.

Examples:
  penstock audit verify -o json > head.json       # keep it out of reach of the store's administrators
  penstock audit verify --since-head head.json
  penstock audit export > audit.ndjson
  penstock audit verify -f audit.ndjson`
}

func (c *verifyCmd) Run(r *command.Run) error {
	heads, err := c.heads()
	if err != nil {
		return command.Usage(err)
	}
	v := chain.New(heads)
	var chains []wire.AuditChain
	if c.File != "" {
		err = c.readFile(r, v)
	} else {
		chains, err = readAll(r, client.AuditQuery{Since: oldest(heads)}, v.Add)
	}
	if err == nil {
		err = v.End(chains)
	}
	var broken *chain.Broken
	if errors.As(err, &broken) {
		return command.Fail(command.ExitFailed, err)
	}
	if err != nil {
		return err
	}
	if err := c.report(r, v.Parts()); err != nil {
		return err
	}
	for _, p := range chains {
		if p.Dropped > 0 {
			r.Say("partition %d: %s entries of %s were dropped early, because their budget was full",
				p.Partition, show.Int(p.Dropped), show.Text(string(p.Budget)))
		}
	}
	return nil
}

func (c *verifyCmd) report(r *command.Run, parts []chain.Part) error {
	if c.JSON() {
		heads := make([]chain.Head, len(parts))
		for i := range parts {
			heads[i] = parts[i].Head
		}
		return command.PrintJSON(r.Out, heads)
	}
	t := command.NewTable(">PARTITION", "BUDGET", ">FROM", ">TO", "NEWEST", "DIGEST")
	entries := int64(0)
	for _, p := range parts {
		entries += p.Entries
		t.Row(
			show.Int(int64(p.Head.Partition)), string(p.Head.Budget), show.Int(p.First), show.Int(p.Head.Number),
			p.Head.At.Local().Format(time.DateTime), string(p.Head.Digest),
		)
	}
	if len(parts) > 0 {
		if _, err := fmt.Fprint(r.Out, t.String()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.Out, "intact: %s entries\n", show.Int(entries))
	return err
}

// heads reads the file of --since-head.
func (c *verifyCmd) heads() (all []chain.Head, err error) {
	if c.SinceHead == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.SinceHead)
	if err != nil {
		return nil, fmt.Errorf("--since-head: %w", err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("--since-head %s: %w; use the output of \"penstock audit verify -o json\"", c.SinceHead, err)
	}
	return all, nil
}

// oldest returns the instant from which the log must be read to meet all heads.
func oldest(heads []chain.Head) (at time.Time) {
	for _, h := range heads {
		if at.IsZero() || h.At.Before(at) {
			at = h.At
		}
	}
	return at
}

// readAll reads entries with their digests, which only the operator may see.
func readAll(r *command.Run, q client.AuditQuery, each func(*wire.AuditRecord) error) ([]wire.AuditChain, error) {
	api, err := r.Client()
	if err != nil {
		return nil, err
	}
	q.Oldest = true
	chains, _, err := read(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		if e.Text == "" {
			return false, command.Fail(command.ExitRefused,
				errors.New("only the operator can read the digests (role admin for all names)"))
		}
		return true, each(e)
	})
	return chains, err
}

func (c *verifyCmd) readFile(r *command.Run, v *chain.Verifier) error {
	in := r.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return command.Usage(fmt.Errorf("--file: %w", err))
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
			return command.Usage(fmt.Errorf("--file %s: record %d: %w", c.File, n, err))
		}
		if err := v.Add(&e); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
	}
}

type exportCmd struct{ span }

func (exportCmd) Help() string {
	return `Prints one JSON object per line, the oldest first: the entry, its text as stored, the digest of that
text, and the object before and after the action, with masked secrets. "penstock audit verify -f"
verifies the file.

Examples:
  penstock audit export > audit.ndjson
  penstock audit export --since 'yesterday 00:00' --until '00:00' | gzip > audit.ndjson.gz`
}

func (c *exportCmd) Run(r *command.Run) error {
	var q client.AuditQuery
	if err := c.into(r, &q); err != nil {
		return err
	}
	out := bufio.NewWriter(r.Out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false) // the digest covers the exact bytes
	_, err := readAll(r, q, func(e *wire.AuditRecord) error { return lines.Encode(e) })
	return errors.Join(err, out.Flush())
}
