package cli

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/ops"
)

// storeName is the flag of commands that open a store by themselves.
type storeName struct {
	Store  string `required:"" placeholder:"URL|DIR"`
	Prefix string `help:"What the keys on Redis begin with." default:"ps" placeholder:"TEXT"`
}

// LongHelp is the help that is too long for the tags.
func (storeName) LongHelp() map[string]string {
	return map[string]string{
		"store": "The store: the URL of a Redis as ingress and drainer take it (redis://HOST:PORT, " +
			"redis+sentinel://..., redis+cluster://...), or the directory of an embedded store.",
	}
}

func (s storeName) open(r *run, o store.Options) (*store.Named, error) {
	o.Flag, o.Prefix, o.Logger = "--store", s.Prefix, logger(r.Err, slog.LevelWarn)
	app.QuietRedis(o.Logger)
	return store.OpenNamed(r.ctx, s.Store, o)
}

type exportCmd struct {
	storeName
	Output          string `placeholder:"FILE"`
	Sign            string `help:"Sign the file with the ed25519 key of this file (PEM)." placeholder:"KEYFILE"`
	Live            bool   `help:"Export a store that is in use, as of about now: see below."`
	WithoutDeferred bool   `help:"Leave jobs behind that are deferred on NATS."`
}

// LongHelp is the help that is too long for the tags.
func (exportCmd) LongHelp() map[string]string {
	return map[string]string{
		"output": "File to write, readable by its owner only. It appears when it is whole; a pipe or device is written " +
			"in place. Default: standard output.",
	}
}

// Help is shown below the flags.
func (exportCmd) Help() string {
	return `Writes all rules, and all queues with all their jobs, waiting, scheduled, dead, and what is remembered of
those that ended, as NDJSON. It opens the store itself and needs no ingress: stop "penstock up"
or every ingress and drainer first. Jobs leased to drainers that are gone are waited for: their
leases must have run out. Jobs deferred on NATS are not in the store: let them come back first.
What was taken from rules is not carried: after an import their keys begin anew.

With --live the store may be in use. Each queue is then as of some instant while it was read: a
job that left meanwhile may be in the file as waiting, and so be delivered again after an import;
one that comes in while the export runs may be missing. It is a backup, and not a way to move.

The file holds everything: payloads, and settings as stored. Keep it like the store itself.

The file ends with a checksum, which finds damage. Whoever may write to the file can write another: with
--sign a signature stands behind it, which import --verify insists on. openssl makes the keys: see below.

Examples:
  penstock export --store ./penstock-data > backup.ndjson
  openssl genpkey -algorithm ed25519 -out sign.pem && openssl pkey -in sign.pem -pubout -out verify.pem
  penstock export --store ./penstock-data --sign sign.pem --output backup.ndjson
  penstock export --store redis://localhost:6379 --output backup.ndjson
  penstock export --store redis://localhost:6379 --live | gzip > backup.ndjson.gz

Exit codes: 0 all is in the file; 1 failed, and the file has no end; 3 refused (the store is in
use, jobs are deferred), or jobs were left out that are not what penstock wrote (each is named).`
}

func (c *exportCmd) Run(r *run) (err error) {
	if _, shown := terminal(r.Out); shown && c.Output == "" {
		return usage(errors.New("standard output is a terminal: say > FILE, or --output FILE"))
	}
	var key ed25519.PrivateKey
	if c.Sign != "" {
		if key, err = archive.ReadSigningKey(c.Sign); err != nil {
			return usage(fmt.Errorf("--sign: %w", err))
		}
	}
	s, err := c.open(r, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	engine, err := moving(s)
	if err != nil {
		return err
	}
	bar := newProgress(r.Err, -1)
	bar.what = "exporting"
	o := archive.ExportOptions{
		Header: archive.Header{Store: s.Kind, Schema: s.Schema, Partitions: s.Partitions(), Version: ops.Version},
		Sign:   key, Live: c.Live, WithoutDeferred: c.WithoutDeferred,
		Progress: func(n int64) { bar.show(push.Count{Read: int(n)}) },
		Broken: func(queue, id string) {
			bar.interrupt()
			r.say("%s: job %s is left out: what the store has of it is not what penstock wrote", queue, plain(id))
		},
	}
	var done archive.Exported
	err = c.write(r, func(w io.Writer) (err error) {
		done, err = archive.Export(r.ctx, engine, w, o)
		return err
	})
	bar.end(push.Count{Read: int(done.Jobs.Sum())})
	if err != nil {
		return err
	}
	r.say("exported %d rules, %d queues, %d jobs: %v", done.Rules, done.Queues, done.Jobs.Sum(), done.Jobs)
	if done.Deferred > 0 {
		r.say("left behind: %d deferred jobs, which are on NATS", done.Deferred)
	}
	if done.Broken > 0 {
		r.say("left out: %d jobs that are not what penstock wrote", done.Broken)
		return told(ExitRefused)
	}
	return nil
}

// moving is the engine of a store as what can be exported and imported.
func moving(s *store.Named) (archive.Store, error) {
	engine, ok := s.Engine.(archive.Store)
	if !ok {
		return nil, fmt.Errorf("a store of kind %s cannot be exported or imported", s.Kind)
	}
	return engine, nil
}

// write has do write to the file, which appears when it is whole, or to standard output.
func (c *exportCmd) write(r *run, do func(io.Writer) error) error {
	if c.Output == "" {
		return do(r.Out)
	}
	if err := outfile.CheckReplace(c.Output); err != nil {
		return usage(fmt.Errorf("--output: %w", err))
	}
	return outfile.Replace(r.ctx, c.Output, outfile.Private, do)
}
