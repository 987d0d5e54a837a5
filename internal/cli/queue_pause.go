package cli

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type pauseCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Reason string `help:"Why, for whoever looks at the queue." placeholder:"TEXT"`
	untilFlags
	output
}

// untilFlags say how long.
type untilFlags struct {
	Until moment        `placeholder:"INSTANT" xor:"until"`
	For   time.Duration `help:"Go on by itself after this long, such as 90m." placeholder:"DURATION" xor:"until"`
}

// LongHelp is the help that is too long for the tags.
func (untilFlags) LongHelp() map[string]string {
	return map[string]string{
		"until": "Go on by itself at this instant, such as 07:00, tomorrow 07:00 or 2026-01-02T15:04:05Z.",
	}
}

func (f *untilFlags) until(r *run, now time.Time) (time.Time, error) {
	if f.For < 0 {
		return now, usage(fmt.Errorf("--for: must be a duration above 0"))
	}
	if f.For > 0 {
		return now.Add(f.For), nil
	}
	if f.Until == "" {
		return time.Time{}, nil
	}
	return f.Until.future(r, "--until", now)
}

// Help is shown below the flags.
func (pauseCmd) Help() string {
	return `Jobs still come in, and those already granted leave. Without --until and --for the
queue is paused until "penstock queue resume". A pause of a paused queue replaces the other.

Examples:
  penstock queue pause email --reason "the provider is down"
  penstock queue pause email --for 90m --reason maintenance
  penstock queue pause email --until "tomorrow 07:00"`
}

func (c *pauseCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	until, err := c.until(r, time.Now())
	if err != nil {
		return err
	}
	q, err := api.Pause(r.ctx, c.Name, c.Reason, until)
	return c.done(r, &q, err)
}

type resumeCmd struct {
	Name string `arg:"" help:"Name of the queue."`
	output
}

func (c *resumeCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	before, err := api.Queue(r.ctx, c.Name)
	if err != nil {
		return err
	}
	q, err := api.Resume(r.ctx, c.Name)
	if err := c.done(r, &q, err); err != nil || c.json() {
		return err
	}
	for _, was := range []string{pauseWas(before.Pause), heldUp(&before)} {
		if was != "" {
			_, _ = fmt.Fprintf(r.Out, "it was %s\n", was)
		}
	}
	return nil
}

// pauseWas says what a pause was; nothing if there was none.
func pauseWas(p *queue.Pause) string {
	if p == nil {
		return ""
	}
	return pausedOf(p)
}

// done prints a queue after its flow was changed.
func (o output) done(r *run, q *wire.Queue, err error) error {
	if err != nil {
		return err
	}
	if o.json() {
		return printJSON(r.Out, q)
	}
	_, err = fmt.Fprintf(r.Out, "%s is %s; %d of %d places taken\n", q.Name, stateOf(q), q.Stats.Size(), q.Capacity)
	return err
}
