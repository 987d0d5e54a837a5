package cli

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
	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/move"
)

type importCmd struct {
	storeName
	File       string `short:"f" help:"File that export wrote; - reads standard input." default:"-" placeholder:"FILE"`
	Init       bool   `help:"Make the store if there is none: of an empty Redis, or in the directory."`
	Partitions int    `help:"Of a store on Redis that --init makes; 0 is 16." default:"0" placeholder:"N"`
	Verify     string `placeholder:"PUBKEYFILE"`
	DryRun     bool   `help:"Verify the file and compare it with what is in the store. Change nothing."`
	output
}

// LongHelp is the help that is too long for the tags.
func (importCmd) LongHelp() map[string]string {
	return map[string]string{
		"verify": "Insist that the file is signed with the key that goes with the public one of this file (PEM).",
	}
}

// Help is shown below the flags.
func (importCmd) Help() string {
	return `Puts a file that export wrote into a store of either kind: the rules, then every job in its state,
at its turn. What was taken from a rule is not in the file: its keys begin anew.
First the whole file is checked against its checksum; one that was cut or damaged changes nothing. With
--verify it must be signed with that key too, or changes nothing: without it nothing says who wrote the file.
A queue of which there is one of the same name already is in the way, unless that holds nothing and has
the same settings; so is a rule that is another. Each queue is paused while it is filled; when all is in, all
go on as they were.

An import that was broken off is repeated with the same file, and ends the same. A repeated one
that was finished changes nothing. Drainers may run; stop ingresses until it is done.

Examples:
  penstock import --store redis://localhost:6379 --init --partitions 4 < backup.ndjson
  penstock import --store ./penstock-data --init -f backup.ndjson
  penstock import --store redis://localhost:6379 --dry-run < backup.ndjson
  penstock import --store ./penstock-data --init --verify verify.pem -f backup.ndjson

Exit codes: 0 all is in; 2 the file is not whole, not signed as --verify asks, or of a newer format; 3
refused, or jobs were left out because others have their ids (each is named); 4 the store cannot be reached:
repeat it.`
}

func (c *importCmd) Run(r *run) (err error) {
	if c.Partitions < 0 {
		return usage(fmt.Errorf("--partitions %d: must not be negative", c.Partitions))
	}
	var key ed25519.PublicKey
	if c.Verify != "" {
		if key, err = archive.ReadPublicKey(c.Verify); err != nil {
			return usage(fmt.Errorf("--verify: %w", err))
		}
	}
	in, done, err := c.input(r)
	if err != nil {
		return err
	}
	defer done()
	r.say("verifying the file")
	f, err := archive.Verify(r.ctx, in, key)
	if err != nil {
		return err
	}
	s, err := c.open(r, store.Options{Init: c.Init && !c.DryRun, Partitions: c.Partitions})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	engine, err := moving(s)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.compare(r, f, engine)
	}
	bar := newProgress(r.Err, int(f.Trailer.Jobs.Sum()))
	bar.what = "importing"
	together := 0
	if s.Kind == "embedded" {
		together = 4096
	}
	collectSeldom(&f.Trailer, os.DirFS("/"))
	n, err := f.Import(r.ctx, engine, archive.ImportOptions{
		Together: together,
		Progress: func(n int64) { bar.show(push.Count{Read: int(n)}) },
		Left: func(name, id string, o move.Outcome) {
			bar.interrupt()
			if o == move.Clashes {
				r.say("%s: job %s is left out: another job has its id", name, plain(id))
			} else {
				r.say("%s: job %s is left out: what has its key in the store is not penstock's", name, plain(id))
			}
		},
	})
	bar.end(push.Count{Read: int(n.Placed + n.There + n.Forgotten + n.Clashes + n.Failed)})
	if err != nil {
		if r.ctx.Err() != nil {
			r.say("broken off: repeat it with the same file to go on; until then the queues that were begun stay paused")
			return told(ExitBrokenOff)
		}
		return err
	}
	if err := c.report(r, f, n); err != nil {
		return err
	}
	if !n.Whole() {
		return told(ExitRefused)
	}
	return nil
}

func (c *importCmd) report(r *run, f *archive.File, n archive.Imported) error {
	if c.json() {
		return printJSON(r.Out, n)
	}
	_, err := fmt.Fprintf(r.Out, "the file: %d rules, %d queues, %d jobs: %v\nimported: %d placed, %d there already, %d "+
		"forgotten by now, %d clash, %d failed\n",
		f.Trailer.Rules, f.Trailer.Queues, f.Trailer.Jobs.Sum(), f.Trailer.Jobs, n.Placed, n.There, n.Forgotten, n.Clashes,
		n.Failed)
	return err
}

// compare prints what an import would find.
func (c *importCmd) compare(r *run, f *archive.File, s archive.Store) error {
	rules, queues := []archive.Standing{}, []archive.Standing{}
	bars := false
	err := f.Compare(r.ctx, s, func(st archive.Standing) {
		if bars = bars || st.Bars; st.Rule != "" {
			rules = append(rules, st)
		} else {
			queues = append(queues, st)
		}
	})
	if err != nil {
		return err
	}
	if c.json() {
		err = printJSON(r.Out, struct {
			Header  archive.Header     `json:"header"`
			Trailer archive.Trailer    `json:"trailer"`
			Rules   []archive.Standing `json:"rules"`
			Queues  []archive.Standing `json:"queues"`
		}{f.Header, f.Trailer, rules, queues})
	} else {
		t := table{header: []string{"NAME", "JOBS", "PRESENT", "IN THE STORE"}, right: map[int]bool{1: true, 2: true}}
		for _, st := range rules {
			t.add(st.Name(), "", "", st.Is)
		}
		for _, st := range queues {
			t.add(st.Name(), strconv.FormatInt(st.Jobs, 10), strconv.FormatInt(st.Present, 10), st.Is)
		}
		_, err = fmt.Fprintf(r.Out, "the file is whole: %d rules, %d queues, %d jobs: %v; exported %s from a store of kind "+
			"%s\n%s",
			f.Trailer.Rules, f.Trailer.Queues, f.Trailer.Jobs.Sum(), f.Trailer.Jobs,
			f.Header.At.Format("2006-01-02 15:04:05Z07:00"), plain(f.Header.Store), t.String())
	}
	if err == nil && bars {
		return told(ExitRefused)
	}
	return err
}

// input returns the file as one that can be read again from its beginning. What is none is put into a temporary one,
// and so is one whose signature matters: nobody else can write to that while it is imported.
func (c *importCmd) input(r *run) (in io.ReadSeeker, done func(), err error) {
	from := r.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, nil, usage(err)
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
	spool, err := os.CreateTemp("", "penstock-import-*") // of mode 0600
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }
	if err := archive.Spool(r.ctx, spool, from); err != nil {
		done()
		return nil, nil, err
	}
	return spool, done, nil
}

// maxGarbage is about how many bytes of garbage an import lets gather, unless the store itself takes as many.
const maxGarbage = 512 << 20

// collectSeldom has garbage collected seldom while memory is small: that saves an import of many queues a fifth of its
// time. In a control group, which the runtime does not look at, it is collected more often towards three quarters of
// what that may take. GOGC and GOMEMLIMIT of the environment go before either.
func collectSeldom(t *archive.Trailer, system fs.FS) {
	live := 16<<20 + 1536*t.Queues + 512*t.Jobs.Sum()
	percent := int(min(400, max(100, 100*maxGarbage/live)))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	collectBefore(cgroupMemory(system))
}
