package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type deadCmd struct {
	connection
	Ls     deadLsCmd     `cmd:"" help:"List the dead jobs of a queue."`
	Replay deadReplayCmd `cmd:"" help:"Put dead jobs back into their queue."`
	Rm     deadRmCmd     `cmd:"" help:"Drop dead jobs for good."`
}

type deadLsCmd struct {
	Queue string `arg:"" optional:"" help:"Name of the queue, also of one that was deleted. Without: how many each has."`
	died
	Limit int `help:"How many at most; 0 is all." default:"100"`
	output
}

func (c *deadLsCmd) Run(r *run) error {
	w, err := c.wire(r, time.Now())
	if err != nil {
		return err
	}
	if c.Queue != "" {
		return listJobs(
			r, c.Queue, client.List{State: "dead", Reason: w.Reason, Before: w.Before, Since: w.Since, Payload: c.json()},
			c.Limit, c.json(),
		)
	}
	if c.any() {
		return usage(fmt.Errorf("name the queue of which to choose"))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	all, err := api.DeadQueues(r.ctx)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, all)
	}
	if len(all) == 0 {
		_, err = fmt.Fprintln(r.Out, "no dead jobs")
		return err
	}
	t := table{header: []string{"QUEUE", "DEAD", "OLDEST", ""}, right: map[int]bool{1: true}}
	for _, d := range all {
		gone := ""
		if d.Gone {
			gone = "deleted"
		}
		t.rows = append(t.rows, []string{plain(d.Queue), num(d.Dead), age(time.Now(), d.Oldest) + " ago", gone})
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

// died chooses among dead jobs.
type died struct {
	Reason string        `help:"Only those whose last reason contains this." placeholder:"TEXT"`
	Before moment        `placeholder:"INSTANT"`
	Older  time.Duration `help:"Only those that have been dead for longer, such as 24h." placeholder:"DURATION"`
	Since  moment        `help:"Only those that died at this instant or later." placeholder:"INSTANT"`
	Newer  time.Duration `help:"Only those that have been dead for so long or shorter." placeholder:"DURATION"`
}

// LongHelp is the help that is too long for the tags.
func (died) LongHelp() map[string]string {
	return map[string]string{
		"before": "Only those that died before this instant, such as 07:00 or 2026-01-02T15:04:05Z.",
	}
}

func (c *died) any() bool {
	return c.Reason != "" || c.Before != "" || c.Older != 0 || c.Since != "" || c.Newer != 0
}

func (c *died) wire(r *run, now time.Time) (wire.Choice, error) {
	w := wire.Choice{Reason: c.Reason}
	if c.Older < 0 || c.Older > 0 && c.Before != "" {
		return w, usage(fmt.Errorf("--older: must be a duration above 0, and not beside --before"))
	}
	if c.Newer < 0 || c.Newer > 0 && c.Since != "" {
		return w, usage(fmt.Errorf("--newer: must be a duration above 0, and not beside --since"))
	}
	at := func(flag string, m moment, ago time.Duration) (*time.Time, error) {
		if ago > 0 {
			t := now.Add(-ago)
			return &t, nil
		}
		if m == "" {
			return nil, nil
		}
		t, err := m.past(r, flag, now)
		return &t, err
	}
	var err error
	if w.Before, err = at("--before", c.Before, c.Older); err == nil {
		w.Since, err = at("--since", c.Since, c.Newer)
	}
	return w, err
}

// choice is which dead jobs a command is about.
type choice struct {
	Queue string   `arg:"" help:"Name of the queue."`
	IDs   []string `arg:"" name:"id" optional:"" help:"Ids of the jobs. Without any: all that the flags choose."`
	died
	DryRun bool `help:"Only say how many."`
}

func (c *choice) wire(r *run, now time.Time) (wire.Choice, error) {
	w, err := c.died.wire(r, now)
	if err == nil && len(c.IDs) > 0 && (c.any() || c.DryRun) {
		err = usage(fmt.Errorf("give either ids, or --reason, --before, --older, --since, --newer and --dry-run"))
	}
	w.DryRun = c.DryRun
	return w, err
}

// all does something to all that are chosen. Those that die again meanwhile are left
// alone: it looks at no more than there were.
func (c *choice) all(
	r *run, api *client.Client, what string, do func(context.Context, string, wire.Choice) (wire.Decided, error),
) (sum wire.Decided, err error) {
	return c.allOf(r, api.Dead, what, do)
}

// allOf is all among as many jobs as count says.
func (c *choice) allOf(
	r *run, count func(context.Context, string) (int64, error), what string,
	do func(context.Context, string, wire.Choice) (wire.Decided, error),
) (sum wire.Decided, err error) {
	w, err := c.wire(r, time.Now())
	if err != nil {
		return sum, err
	}
	total := int64(len(c.IDs))
	if total == 0 {
		if total, err = count(r.ctx, c.Queue); err != nil {
			return sum, err
		}
	}
	s := newSteps(r, what, total)
	defer s.end()
	for ids := c.IDs; ; {
		if len(c.IDs) > 0 {
			w.IDs, ids = ids[:min(len(ids), listPage)], ids[min(len(ids), listPage):]
		}
		d, err := do(r.ctx, c.Queue, w)
		if err != nil {
			return sum, err
		}
		sum.Add(d)
		s.show(sum.LookedAt)
		w.After = d.Next
		if len(c.IDs) > 0 && len(ids) == 0 || len(c.IDs) == 0 && (d.Next == "" || sum.LookedAt >= total) {
			return sum, nil
		}
	}
}

type deadReplayCmd struct {
	choice `embed:""`
	output
}

// Help is shown below the flags.
func (deadReplayCmd) Help() string {
	return `A replayed job waits in its queue as if appended now, with all its attempts before it, and leaves at
the rate. Those for which there is no room stay dead (exit code 3): do it again later.

Examples:
  penstock dead replay email welcome-4711
  penstock dead replay email --reason "421" --dry-run
  penstock dead replay email --before 2026-01-02T15:04:05Z`
}

func (c *deadReplayCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	sum, err := c.all(r, api, "replaying", api.Replay)
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s replayed", plural(sum.Replayed))
	if c.DryRun {
		text = fmt.Sprintf("%s would be replayed", plural(sum.Matched))
	}
	return c.tell(r, c.json(), sum, text, err)
}

// tell prints what was done, also before an error, and says what was not.
func (c *choice) tell(r *run, asJSON bool, sum wire.Decided, text string, err error) error {
	if asJSON {
		if printed := printJSON(r.Out, sum); printed != nil {
			return printed
		}
	} else if _, printed := fmt.Fprintln(r.Out, text); printed != nil {
		return printed
	}
	if err != nil {
		return err
	}
	if sum.NotHeld > 0 {
		return &ended{ExitRefused, fmt.Errorf("%s left alone: not held", plural(sum.NotHeld))}
	}
	if left := sum.NoRoom + sum.NotDead + sum.Broken; left > 0 {
		return &ended{ExitRefused, fmt.Errorf(
			"%s left alone: %d without room, %d not dead, %d that cannot be read", plural(left), sum.NoRoom, sum.NotDead,
			sum.Broken,
		)}
	}
	return nil
}

type deadRmCmd struct {
	choice `embed:""`
	Yes    bool `help:"Do not ask." short:"y"`
	output
}

// Help is shown below the flags.
func (deadRmCmd) Help() string {
	return `What is dropped is not known any more, and its id may be used again. Without ids the number of dead
jobs is told and the queue's name asked for, which --yes gives in advance.

Examples:
  penstock dead rm email welcome-4711
  penstock dead rm email --older 168h --yes
  penstock dead rm email --reason "no such user" --dry-run
  penstock dead rm campaign-17 --yes            # of a queue that was deleted, too`
}

func (c *deadRmCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	if len(c.IDs) == 0 && !c.DryRun && !c.Yes {
		if err := c.ask(r, api); err != nil {
			return err
		}
	}
	sum, err := c.all(r, api, "dropping", api.Forget)
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s dropped", plural(sum.Forgotten))
	if c.DryRun {
		text = fmt.Sprintf("%s would be dropped", plural(sum.Matched))
	}
	return c.tell(r, c.json(), sum, text, err)
}

func (c *deadRmCmd) ask(r *run, api *client.Client) error {
	dead, err := api.Dead(r.ctx, c.Queue)
	if err != nil || dead == 0 {
		return err
	}
	which := "all of them"
	if c.any() {
		which = "those that the flags choose"
	}
	return confirm(r, c.Queue, fmt.Sprintf("queue %s has %s dead, and %s will be lost", c.Queue, plural(dead), which))
}
