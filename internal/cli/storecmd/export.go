package storecmd

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/ops"
)

// ExportCmd is penstock export.
type ExportCmd struct {
	storeFlags
	Output          string `placeholder:"FILE"`
	Sign            string `help:"Sign the export with the ed25519 key in this PEM file." placeholder:"KEYFILE"`
	Live            bool   `help:"Export a store that is in use; see below."`
	WithoutDeferred bool   `help:"Leave out jobs that are deferred on NATS."`
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (ExportCmd) LongHelp() map[string]string {
	return map[string]string{
		"output": "File to write, readable only by its owner. It appears when it is complete; a pipe or device is " +
			"written in place. Default: standard output.",
	}
}

// Help implements kong.HelpProvider.
func (ExportCmd) Help() string {
	return `Writes all rules, and all queues with their waiting, scheduled, dead and remembered jobs, as NDJSON. It
opens the store itself: stop "penstock up", or all ingresses and drainers, first. While jobs are leased,
it refuses: the leases of a killed drainer end after the queue's lease. Jobs deferred on NATS are not
in the store: let them return first. The counts of rules are not exported: after an import, rules start
from zero.

With --live the store may be in use. The file then shows each queue at some instant during the export.
A job that left meanwhile may be in the file as waiting, and be delivered again after an import. A job
that arrived meanwhile may be missing. Use --live for backups, not to move a store.

The file contains all payloads, and settings as stored. Protect it like the store itself.

The file ends with a checksum, which detects damage but not tampering. With --sign it also ends with a
signature, which import --verify requires. Create the keys with openssl, as below.

Examples:
  penstock export --store ./penstock-data > backup.ndjson
  openssl genpkey -algorithm ed25519 -out sign.pem && openssl pkey -in sign.pem -pubout -out verify.pem
  penstock export --store ./penstock-data --sign sign.pem --output backup.ndjson
  penstock export --store redis://localhost:6379 --output backup.ndjson
  penstock export --store redis://localhost:6379 --live | gzip > backup.ndjson.gz

Exit codes: 0 complete; 1 failed, and the file is incomplete; 3 refused (the store is in use, or jobs
are deferred), or unreadable jobs were left out (each is named).`
}

// Run runs the command.
func (c *ExportCmd) Run(r *command.Run) (err error) {
	if _, shown := command.Width(r.Out); shown && c.Output == "" {
		return command.Usage(errors.New("standard output is a terminal: use > FILE or --output FILE"))
	}
	var key ed25519.PrivateKey
	if c.Sign != "" {
		if key, err = archive.ReadSigningKey(c.Sign); err != nil {
			return command.Usage(fmt.Errorf("--sign: %w", err))
		}
	}
	s, err := c.open(r, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	engine, err := movable(s)
	if err != nil {
		return err
	}
	bar := command.NewProgress(r.Err, "exporting", "jobs", -1)
	o := archive.ExportOptions{
		Header: archive.Header{Store: s.Kind, Schema: s.Schema, Partitions: s.Partitions(), Version: ops.Version},
		Sign:   key, Live: c.Live, WithoutDeferred: c.WithoutDeferred,
		Progress: bar.Show,
		Broken: func(queue, id string) {
			bar.Interrupt()
			r.Say("%s: job %s left out: its record in the store is not what penstock wrote", queue, show.Text(id))
		},
	}
	var done archive.Exported
	err = c.write(r, func(w io.Writer) (err error) {
		done, err = archive.Export(r.Ctx, engine, w, o)
		return err
	})
	bar.End()
	if err != nil {
		return err
	}
	r.Say("exported %d rules, %d queues, %d jobs: %v", done.Rules, done.Queues, done.Jobs.Sum(), done.Jobs)
	if done.Deferred > 0 {
		r.Say("left out: %d deferred jobs, which are on NATS", done.Deferred)
	}
	if done.Broken > 0 {
		r.Say("left out: %d unreadable jobs", done.Broken)
		return command.Quiet(command.ExitRefused)
	}
	return nil
}

// write calls do with the file, which appears when it is complete, or with standard output.
func (c *ExportCmd) write(r *command.Run, do func(io.Writer) error) error {
	if c.Output == "" {
		return do(r.Out)
	}
	if err := outfile.CheckReplace(c.Output); err != nil {
		return command.Usage(fmt.Errorf("--output: %w", err))
	}
	return outfile.Replace(r.Ctx, c.Output, outfile.Private, do)
}
