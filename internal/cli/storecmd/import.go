package storecmd

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/memory"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/move"
)

// ImportCmd is penstock import.
type ImportCmd struct {
	storeFlags
	File       string `short:"f" help:"File written by export; - is standard input." default:"-" placeholder:"FILE"`
	Init       bool   `help:"Create the store if it does not exist."`
	Partitions int    `help:"Partitions of a store on Redis that --init creates; 0 is 16." default:"0" placeholder:"N"`
	Verify     string `help:"Require a signature that this public key (PEM) verifies." placeholder:"PUBKEYFILE"`
	DryRun     bool   `help:"Only verify the file and compare it with the store."`
	command.Output
}

// Help implements kong.HelpProvider.
func (ImportCmd) Help() string {
	return `Imports a file into a store of either kind: rules first, then every job with its state and turn. The
counts of rules are not in the file: their keys start afresh. The whole file is checked against its
checksum first; a damaged file changes nothing. Use --verify to require a signature: a checksum does
not prove who wrote the file.

An existing queue of the same name must be empty and have the same settings, and an existing rule must
be the same; otherwise the import is refused. Each queue is paused while it is filled; at the end all
queues resume as they were.

Repeat an interrupted import with the same file: it continues. Repeating a complete import changes
nothing. Drainers may run; stop ingresses until it is done.

Examples:
  penstock import --store redis://localhost:6379 --init --partitions 4 < backup.ndjson
  penstock import --store ./penstock-data --init -f backup.ndjson
  penstock import --store redis://localhost:6379 --dry-run < backup.ndjson
  penstock import --store ./penstock-data --init --verify verify.pem -f backup.ndjson

Exit codes: 0 complete; 2 the file is damaged, lacks the signature, or has a newer format; 3 refused, or
jobs were left out because their ids are taken (each is named); 4 the store cannot be reached: repeat
the import.`
}

// Run runs the command.
func (c *ImportCmd) Run(r *command.Run) (err error) {
	if c.Partitions < 0 {
		return command.Usage(fmt.Errorf("--partitions %d: must not be negative", c.Partitions))
	}
	var key ed25519.PublicKey
	if c.Verify != "" {
		if key, err = archive.ReadPublicKey(c.Verify); err != nil {
			return command.Usage(fmt.Errorf("--verify: %w", err))
		}
	}
	in, done, err := c.input(r)
	if err != nil {
		return err
	}
	defer done()
	r.Say("verifying the file")
	f, err := archive.Verify(r.Ctx, in, key)
	if err != nil {
		return err
	}
	s, err := c.open(r, store.Options{Init: c.Init && !c.DryRun, Partitions: c.Partitions})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	engine, err := movable(s)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.compare(r, f, engine)
	}
	bar := command.NewProgress(r.Err, "importing", "jobs", f.Trailer.Jobs.Sum())
	together := 0
	if s.Kind == "embedded" {
		together = 4096
	}
	collectRarely(&f.Trailer, os.DirFS("/"))
	n, err := f.Import(r.Ctx, engine, archive.ImportOptions{
		Together: together,
		Progress: bar.Show,
		Left: func(name, id string, o move.Outcome) {
			bar.Interrupt()
			if o == move.Clashes {
				r.Say("%s: job %s left out: another job has its id", name, show.Text(id))
			} else {
				r.Say("%s: job %s left out: a foreign value has its key in the store", name, show.Text(id))
			}
		},
	})
	bar.End()
	if err != nil {
		if r.Ctx.Err() != nil {
			r.Say("interrupted: repeat it with the same file to continue; until then unfinished queues stay paused")
			return command.Quiet(command.ExitInterrupted)
		}
		return err
	}
	if err := c.report(r, f, n); err != nil {
		return err
	}
	if !n.Whole() {
		return command.Quiet(command.ExitRefused)
	}
	return nil
}

func (c *ImportCmd) report(r *command.Run, f *archive.File, n archive.Imported) error {
	if c.JSON() {
		return command.PrintJSON(r.Out, n)
	}
	_, err := fmt.Fprintf(r.Out, "file: %d rules, %d queues, %d jobs: %v\nimported: %d placed, %d already present, %d "+
		"expired, %d clashes, %d failed\n",
		f.Trailer.Rules, f.Trailer.Queues, f.Trailer.Jobs.Sum(), f.Trailer.Jobs, n.Placed, n.There, n.Forgotten, n.Clashes,
		n.Failed)
	return err
}

// compare prints the differences between the file and the store.
func (c *ImportCmd) compare(r *command.Run, f *archive.File, s archive.Store) error {
	rules, queues := []archive.Standing{}, []archive.Standing{}
	bars := false
	err := f.Compare(r.Ctx, s, func(st archive.Standing) {
		if bars = bars || st.Bars; st.Rule != "" {
			rules = append(rules, st)
		} else {
			queues = append(queues, st)
		}
	})
	if err != nil {
		return err
	}
	if c.JSON() {
		err = command.PrintJSON(r.Out, struct {
			Header  archive.Header     `json:"header"`
			Trailer archive.Trailer    `json:"trailer"`
			Rules   []archive.Standing `json:"rules"`
			Queues  []archive.Standing `json:"queues"`
		}{f.Header, f.Trailer, rules, queues})
	} else {
		t := command.NewTable("NAME", ">JOBS", ">PRESENT", "IN THE STORE")
		for _, st := range rules {
			t.Row(st.Name(), "", "", st.Is)
		}
		for _, st := range queues {
			t.Row(st.Name(), strconv.FormatInt(st.Jobs, 10), strconv.FormatInt(st.Present, 10), st.Is)
		}
		_, err = fmt.Fprintf(r.Out, "the file is complete: %d rules, %d queues, %d jobs: %v; exported %s from a store of "+
			"kind %s\n%s",
			f.Trailer.Rules, f.Trailer.Queues, f.Trailer.Jobs.Sum(), f.Trailer.Jobs,
			f.Header.At.Format("2006-01-02 15:04:05Z07:00"), show.Text(f.Header.Store), t.String())
	}
	if err == nil && bars {
		return command.Quiet(command.ExitRefused)
	}
	return err
}

// input returns the file, readable twice. It copies a pipe to a temporary file, and also a file whose signature is
// required, because nobody else can write to the copy.
func (c *ImportCmd) input(r *command.Run) (in io.ReadSeeker, done func(), err error) {
	from := r.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, nil, command.Usage(err)
		}
		from = f
	}
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && c.Verify == "" {
			return f, func() { _ = f.Close() }, nil
		}
	}
	if c.File != "-" {
		if f, ok := from.(*os.File); ok {
			defer func() { _ = f.Close() }()
		}
	}
	spool, err := os.CreateTemp("", "penstock-import-*") // with mode 0600
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }
	if err := archive.Spool(r.Ctx, spool, from); err != nil {
		done()
		return nil, nil, err
	}
	return spool, done, nil
}

// maxGarbage is roughly the maximum of garbage that an import accumulates, in bytes, unless the live heap is larger.
const maxGarbage = 512 << 20

// collectRarely makes garbage collections rare while the heap is small, which saves an import of many queues a fifth of
// its time. Near the limit of the control group they become frequent; see memory.CollectBefore. GOGC and GOMEMLIMIT in
// the environment override both.
func collectRarely(t *archive.Trailer, system fs.FS) {
	live := 16<<20 + 1536*t.Queues + 512*t.Jobs.Sum()
	percent := int(min(400, max(100, 100*maxGarbage/live)))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	memory.CollectBefore(memory.Cgroup(system))
}
