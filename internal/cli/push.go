package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue"
)

type pushCmd struct {
	connection
	Queue  string `arg:"" help:"Name of the queue."`
	File   string `required:"" short:"f" help:"NDJSON or CSV file; - reads standard input." placeholder:"FILE"`
	Format string `enum:",ndjson,csv" default:"" placeholder:"FORMAT"`
	NoWait bool
	// All of these are for lines that do not say it themselves.
	Lane       string         `help:"The key of the jobs' lane, if they do not say it themselves." placeholder:"KEY"`
	LaneColumn string         `placeholder:"NAME"`
	Priority   int            `placeholder:"N"`
	NotBefore  moment         `placeholder:"WHEN"`
	Overflow   string         `enum:",reject,defer" default:"" placeholder:"WHAT"`
	ExpiresIn  *time.Duration `placeholder:"DURATION"`
	Batch      int            `help:"Jobs in one request." default:"500" placeholder:"N"`
	output
}

// LongHelp is the help that is too long for the tags.
func (pushCmd) LongHelp() map[string]string {
	return map[string]string{
		"format": "ndjson or csv; by default the name tells: .ndjson, .jsonl, .csv; standard input is ndjson.",
		"no-wait": "Report what is refused because the queue is full, instead of coming back with it when the server " +
			"says.",
		"lane-column": "The column of a CSV file that has the jobs' lanes; it is then no part of the payload.",
		"priority": "0 to 9: the jobs leave before those of their lane with a lower one. If they do not say it " +
			"themselves.",
		"not-before": "Until when the jobs are scheduled, if they do not say it themselves: an instant such as tomorrow " +
			"07:00 or 2026-12-24T06:00:00+01:00, or how long from now, such as 2h.",
		"overflow": "What becomes of jobs that find no room, if they do not say it themselves: reject or defer; by " +
			"default what the queue says.",
		"expires-in": "The jobs become worthless so long after the push began, if they do not say it themselves " +
			"(expires_at); by default never.",
	}
}

// Help is shown below the flags.
func (pushCmd) Help() string {
	return `NDJSON: one job a line, as the API takes it, such as
  {"id": "order-7", "payload": {"to": "a@example.com"}}
CSV: the first row names the columns. A column id, if there is one, is the job's
id; a column payload, if there is one, is its payload as JSON; otherwise all
other columns become one, as {"column": "text", ...}. With --lane-column domain the
column domain has the jobs' lanes instead.

A job without an id gets one made of the SHA-256 of its content (the first 16
hexadecimal digits) and its line number, such as 2c26b46b68ffc68f-17. So the same
file can be pushed again, after Ctrl-C say: what is in already answers duplicate.

Examples:
  penstock push email -f messages.ndjson
  penstock push sms -f customers.csv --no-wait
  penstock push email -f campaign.ndjson --overflow defer --expires-in 48h
  penstock push email -f customers.csv --lane-column domain
  penstock push email -f newsletter.ndjson --lane newsletter --not-before 2026-12-24T06:00:00Z
  zcat big.ndjson.gz | penstock push email -f -

Exit codes: 0 every job is in; 3 some were refused or failed (each is named);
4 the ingress cannot be reached; 130 broken off, push again to go on.`
}

// pushReport is what -o json prints.
type pushReport struct {
	Queue     string `json:"queue"`
	Read      int    `json:"read"`
	Accepted  int    `json:"accepted"`
	Deferred  int    `json:"deferred"`
	Duplicate int    `json:"duplicate"`
	Refused   int    `json:"refused"`
	Failed    int    `json:"failed"`
	Undecided int    `json:"undecided"`
	// Refusals is how often there was no room, also for jobs that came in later.
	Refusals int    `json:"refusals"`
	Error    string `json:"error,omitempty"`
}

// maxTold is how many bad lines are told of one by one.
const maxTold = 20

func (c *pushCmd) Run(r *run) error {
	to, err := r.client()
	if err != nil {
		return err
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		return usage(fmt.Errorf("--batch %d: must be from 1 to 10000", c.Batch))
	}
	if c.Format == "" {
		if c.Format, err = push.FormatOf(c.File); err != nil {
			return usage(err)
		}
	}
	if c.LaneColumn != "" && c.Format != push.CSV {
		return usage(fmt.Errorf("--lane-column %s: only CSV has columns; a line of NDJSON has its own lane", c.LaneColumn))
	}
	defaults, err := c.defaults(r, time.Now())
	if err != nil {
		return usage(err)
	}
	in, total, err := c.open(r)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = in.Close() }()
	from, err := c.source(in)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", c.File, err))
	}

	bar := newProgress(r.Err, total)
	bar.state = func() string { return c.state(r, to) }
	toldOf := 0
	count, err := push.Push(r.ctx, to, c.Queue, defaults.Of(from), push.Options{
		NoWait:   c.NoWait,
		Batch:    c.Batch,
		Progress: bar.show,
		Problem: func(line push.Line, why string) {
			if toldOf++; toldOf <= maxTold {
				bar.interrupt()
				r.say("%s:%d: %s", c.File, line.Number, plain(why))
			}
		},
	})
	bar.end(count)
	if toldOf > maxTold {
		r.say("%s: and %d lines more", c.File, toldOf-maxTold)
	}
	if printErr := c.report(r, count, err); printErr != nil {
		return printErr
	}
	switch {
	case r.ctx.Err() != nil:
		r.say("broken off: push the same file again to go on, what is in answers duplicate")
		return told(ExitBrokenOff)
	case err != nil:
		return err
	case count.Refused+count.Failed > 0:
		return told(ExitRefused)
	}
	return nil
}

// state is what the server says that the queue does, and why. It holds the push up for a moment only.
func (c *pushCmd) state(r *run, to *client.Client) string {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
	defer cancel()
	q, err := to.Queue(ctx, c.Queue)
	if err != nil {
		return ""
	}
	return stateOf(&q) + ", at " + rateOf(&q)
}

// defaults are what the flags say for lines that do not say it themselves.
func (c *pushCmd) defaults(r *run, now time.Time) (d push.Defaults, err error) {
	d = push.Defaults{Lane: c.Lane, Priority: c.Priority, Overflow: c.Overflow}
	if err := queue.ValidateLane(c.Lane); err != nil {
		return d, fmt.Errorf("--%w", err)
	}
	if c.Priority < 0 || c.Priority > queue.MaxPriority {
		return d, fmt.Errorf("--priority %d: must be from 0 to %d", c.Priority, queue.MaxPriority)
	}
	if c.NotBefore != "" {
		if d.NotBefore, err = c.NotBefore.future(r, "--not-before", now); err != nil {
			return d, err
		}
	}
	if c.ExpiresIn != nil {
		if *c.ExpiresIn <= 0 {
			return d, fmt.Errorf("--expires-in %v: must be above zero", *c.ExpiresIn)
		}
		d.ExpiresAt = now.Add(*c.ExpiresIn)
	}
	if !d.ExpiresAt.IsZero() && !d.NotBefore.Before(d.ExpiresAt) {
		return d, fmt.Errorf(
			"--expires-in %v: the jobs would expire before they may leave, see --not-before %s", *c.ExpiresIn, c.NotBefore,
		)
	}
	return d, nil
}

func (c *pushCmd) report(r *run, n push.Count, err error) error {
	if c.json() {
		report := pushReport{
			Queue: c.Queue, Read: n.Read, Accepted: n.Accepted, Deferred: n.Deferred, Duplicate: n.Duplicate,
			Refused: n.Refused, Failed: n.Failed, Undecided: n.Undecided, Refusals: n.Refusals,
		}
		if err != nil {
			report.Error = err.Error()
		}
		return printJSON(r.Out, report)
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

// source reads the file's lines.
func (c *pushCmd) source(in io.Reader) (push.Source, error) {
	if c.Format == push.CSV {
		return push.OpenCSV(in, c.LaneColumn)
	}
	return push.Open(in, c.Format)
}

// open returns the file and how many jobs are in it, -1 if that cannot be known
// without reading it up.
func (c *pushCmd) open(r *run) (io.ReadCloser, int, error) {
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

// count reads a regular file through once, so that the progress can tell when
// it will be done, and goes back to its beginning.
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
