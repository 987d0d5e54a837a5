// Package pushcmd has penstock push.
package pushcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/cli/queuecmd"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue"
)

// Cmd is penstock push.
type Cmd struct {
	command.Connection
	Queue  string `arg:"" help:"Name of the queue."`
	File   string `required:"" short:"f" help:"NDJSON or CSV file; - is standard input." placeholder:"FILE"`
	Format string `enum:",ndjson,csv" default:"" placeholder:"FORMAT"`
	NoWait bool   `help:"Report jobs without room as refused, instead of retrying when the server says."`

	// Defaults for lines without these fields.
	Lane       string         `help:"Default lane of the jobs." placeholder:"KEY"`
	InBatch    string         `help:"Default batch of the jobs, such as a campaign." placeholder:"LABEL"`
	LaneColumn string         `help:"CSV column with the lanes; it is not part of the payload." placeholder:"NAME"`
	Priority   int            `help:"Default priority, 0 to 9. Higher ones leave their lane first." placeholder:"N"`
	NotBefore  command.Moment `placeholder:"WHEN"`
	Overflow   string         `enum:",reject,defer" default:"" placeholder:"WHAT"`
	ExpiresIn  *time.Duration `placeholder:"DURATION"`
	Batch      int            `help:"Jobs per request." default:"500" placeholder:"N"`
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"format": "ndjson or csv. Default: by the name (.ndjson, .jsonl, .csv); ndjson for standard input.",
		"not-before": "Default instant before which the jobs stay scheduled, such as tomorrow 07:00, " +
			"2026-12-24T06:00:00+01:00 or 2h (two hours from now).",
		"overflow":   "Default for jobs without room: reject or defer. Without it the queue decides.",
		"expires-in": "Default lifetime of the jobs from the start of the push. Without it they never expire.",
	}
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `NDJSON has one job per line, with the fields of the API:
  {"id": "order-7", "payload": {"to": "a@example.com"}}
In CSV the first row names the columns. A column id is the job's id, and a column payload its payload
as JSON; without payload, all other columns become the payload: {"column": "text", ...}. With
--lane-column domain, the column domain has the jobs' lanes.

A job without an id gets one from the SHA-256 of its content (16 hexadecimal digits) and its line
number, such as 2c26b46b68ffc68f-17. So it is safe to push a file again, for example after Ctrl-C: jobs
that were accepted before count as duplicates.

Examples:
  penstock push email -f messages.ndjson
  penstock push sms -f customers.csv --no-wait
  penstock push email -f campaign.ndjson --overflow defer --expires-in 48h
  penstock push email -f customers.csv --lane-column domain
  penstock push email -f newsletter.ndjson --lane newsletter --not-before 2026-12-24T06:00:00Z
  zcat big.ndjson.gz | penstock push email -f -

Exit codes: 0 all jobs were accepted; 3 some were refused or failed (each is named); 4 the server cannot be
reached; 130 interrupted, push again to continue.`
}

// Report is what -o json prints.
type Report struct {
	Queue     string `json:"queue"`
	Read      int    `json:"read"`
	Accepted  int    `json:"accepted"`
	Deferred  int    `json:"deferred"`
	Duplicate int    `json:"duplicate"`
	Refused   int    `json:"refused"`
	Failed    int    `json:"failed"`
	Undecided int    `json:"undecided"`
	// Refusals is how often a job was refused for lack of room, including jobs that were accepted later.
	Refusals int    `json:"refusals"`
	Error    string `json:"error,omitempty"`
}

// maxProblems is the maximum number of invalid lines that are named.
const maxProblems = 20

// Run runs the command.
func (c *Cmd) Run(r *command.Run, api *client.Client) error {
	defaults, err := c.check(r)
	if err != nil {
		return command.Usage(err)
	}
	in, total, err := c.open(r)
	if err != nil {
		return command.Usage(err)
	}
	defer func() { _ = in.Close() }()
	from, err := c.source(in)
	if err != nil {
		return command.Usage(fmt.Errorf("%s: %w", c.File, err))
	}
	bar := newProgress(r.Err, int64(total), func() string { return c.queueState(r, api) })
	problems := 0
	count, err := push.Push(r.Ctx, api, c.Queue, defaults.Of(from), push.Options{
		NoWait:   c.NoWait,
		Batch:    c.Batch,
		Progress: bar.show,
		Problem: func(line push.Line, why string) {
			if problems++; problems <= maxProblems {
				bar.Interrupt()
				r.Say("%s:%d: %s", c.File, line.Number, show.Text(why))
			}
		},
	})
	bar.End()
	if problems > maxProblems {
		r.Say("%s: and %d more lines", c.File, problems-maxProblems)
	}
	if printErr := c.print(r, count, err); printErr != nil {
		return printErr
	}
	switch {
	case r.Ctx.Err() != nil:
		r.Say("interrupted; push the same file again to continue, jobs that are in count as duplicates")
		return command.Quiet(command.ExitInterrupted)
	case err != nil:
		return err
	case count.Refused+count.Failed > 0:
		return command.Quiet(command.ExitRefused)
	}
	return nil
}

// check validates the flags, completes the format, and returns the defaults for the lines.
func (c *Cmd) check(r *command.Run) (d push.Defaults, err error) {
	if c.Batch < 1 || c.Batch > 10_000 {
		return d, fmt.Errorf("--batch %d: must be from 1 to 10000", c.Batch)
	}
	if c.Format == "" {
		if c.Format, err = push.FormatOf(c.File); err != nil {
			return d, err
		}
	}
	if c.LaneColumn != "" && c.Format != push.CSV {
		return d, fmt.Errorf("--lane-column %s: needs a CSV file; lines of NDJSON have a field lane", c.LaneColumn)
	}
	return c.defaults(r, time.Now())
}

// queueState describes what the queue does and why. It delays the push only briefly.
func (c *Cmd) queueState(r *command.Run, api *client.Client) string {
	ctx, cancel := context.WithTimeout(r.Ctx, 2*time.Second)
	defer cancel()
	q, err := api.Queue(ctx, c.Queue)
	if err != nil {
		return ""
	}
	return queuecmd.State(&q) + ", at " + queuecmd.Rate(&q)
}

// defaults returns the defaults for lines without these fields.
func (c *Cmd) defaults(r *command.Run, now time.Time) (d push.Defaults, err error) {
	d = push.Defaults{Lane: c.Lane, Batch: c.InBatch, Priority: c.Priority, Overflow: c.Overflow}
	if err := queue.ValidateLane(c.Lane); err != nil {
		return d, fmt.Errorf("--%w", err)
	}
	if c.InBatch != "" {
		if err := queue.ValidateBatch(c.InBatch); err != nil {
			return d, fmt.Errorf("--in-%w", err)
		}
	}
	if c.Priority < 0 || c.Priority > queue.MaxPriority {
		return d, fmt.Errorf("--priority %d: must be from 0 to %d", c.Priority, queue.MaxPriority)
	}
	if c.NotBefore != "" {
		if d.NotBefore, err = c.NotBefore.Future(r, "--not-before", now); err != nil {
			return d, err
		}
	}
	if c.ExpiresIn != nil {
		if *c.ExpiresIn <= 0 {
			return d, fmt.Errorf("--expires-in %v: must be positive", *c.ExpiresIn)
		}
		d.ExpiresAt = now.Add(*c.ExpiresIn)
	}
	if !d.ExpiresAt.IsZero() && !d.NotBefore.Before(d.ExpiresAt) {
		return d, fmt.Errorf(
			"--expires-in %v: the jobs would expire before they may leave (--not-before %s)", *c.ExpiresIn, c.NotBefore,
		)
	}
	return d, nil
}

func (c *Cmd) print(r *command.Run, n push.Count, err error) error {
	if c.JSON() {
		v := Report{
			Queue: c.Queue, Read: n.Read, Accepted: n.Accepted, Deferred: n.Deferred, Duplicate: n.Duplicate,
			Refused: n.Refused, Failed: n.Failed, Undecided: n.Undecided, Refusals: n.Refusals,
		}
		if err != nil {
			v.Error = err.Error()
		}
		return command.PrintJSON(r.Out, v)
	}
	deferred := ""
	if n.Deferred > 0 {
		deferred = fmt.Sprintf(" %d deferred,", n.Deferred)
	}
	_, printErr := fmt.Fprintf(
		r.Out, "%d read: %d accepted,%s %d duplicate, %d refused, %d failed", n.Read, n.Accepted, deferred, n.Duplicate,
		n.Refused, n.Failed,
	)
	if n.Undecided > 0 {
		_, _ = fmt.Fprintf(r.Out, ", %d undecided", n.Undecided)
	}
	if n.Refusals > n.Refused {
		_, _ = fmt.Fprintf(r.Out, " (%d times there was no room at first)", n.Refusals-n.Refused)
	}
	_, _ = fmt.Fprintln(r.Out)
	return printErr
}

// source returns a reader of the file's jobs.
func (c *Cmd) source(in io.Reader) (push.Source, error) {
	if c.Format == push.CSV {
		return push.OpenCSV(in, c.LaneColumn)
	}
	return push.Open(in, c.Format)
}

// open returns the file and its number of jobs, -1 if that is not known in advance.
func (c *Cmd) open(r *command.Run) (io.ReadCloser, int, error) {
	if c.File == "-" {
		return io.NopCloser(r.In), -1, nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, 0, err
	}
	total, err := count(f, c.Format)
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("read %s: %w", c.File, err)
	}
	return f, total, nil
}

// count reads a regular file once, so that the progress can estimate its end, and rewinds it.
func count(f *os.File, format string) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, errors.New("it is a directory")
	}
	if !info.Mode().IsRegular() {
		return -1, nil
	}
	n, err := push.CountLines(f, format)
	if err != nil {
		return 0, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return n, err
}
