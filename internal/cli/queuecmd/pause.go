package queuecmd

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type pauseCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Reason string `help:"Reason to show with the queue." placeholder:"TEXT"`
	untilFlags
	command.Output
}

// untilFlags say how long a pause lasts.
type untilFlags struct {
	Until command.Moment `placeholder:"INSTANT" xor:"until"`
	For   time.Duration  `help:"Resume automatically after this time, such as 90m." placeholder:"DURATION" xor:"until"`
}

func (untilFlags) LongHelp() map[string]string {
	return map[string]string{
		"until": "Resume automatically at this instant, such as 07:00, tomorrow 07:00 or 2026-01-02T15:04:05Z.",
	}
}

func (f *untilFlags) until(r *command.Run, now time.Time) (time.Time, error) {
	if f.For < 0 {
		return now, command.Usage(fmt.Errorf("--for: must be positive"))
	}
	if f.For > 0 {
		return now.Add(f.For), nil
	}
	if f.Until == "" {
		return time.Time{}, nil
	}
	return f.Until.Future(r, "--until", now)
}

func (pauseCmd) Help() string {
	return `The queue still accepts jobs, and jobs whose departure is granted still leave. Without --until or
--for it stays paused until "penstock queue resume". Pausing again replaces the present pause.

Examples:
  penstock queue pause email --reason "the provider is down"
  penstock queue pause email --for 90m --reason maintenance
  penstock queue pause email --until "tomorrow 07:00"`
}

func (c *pauseCmd) Run(r *command.Run, api *client.Client) error {
	until, err := c.until(r, time.Now())
	if err != nil {
		return err
	}
	q, err := api.Pause(r.Ctx, c.Name, c.Reason, until)
	return printFlow(r, c.Output, &q, err)
}

type resumeCmd struct {
	Name string `arg:"" help:"Name of the queue."`
	command.Output
}

func (c *resumeCmd) Run(r *command.Run, api *client.Client) error {
	before, err := api.Queue(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	q, err := api.Resume(r.Ctx, c.Name)
	if err := printFlow(r, c.Output, &q, err); err != nil || c.JSON() {
		return err
	}
	for _, was := range []string{pauseText(before.Pause), stopText(&before)} {
		if was != "" {
			_, _ = fmt.Fprintf(r.Out, "it was %s\n", was)
		}
	}
	return nil
}

// printFlow prints the state of a queue after a change of its flow.
func printFlow(r *command.Run, o command.Output, q *wire.Queue, err error) error {
	if err != nil {
		return err
	}
	return o.Printf(r, q, "%s is %s; %d of %d places taken\n", q.Name, State(q), q.Stats.Size(), q.Capacity)
}
