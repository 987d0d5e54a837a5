package jobcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// HeldCmd is penstock held.
type HeldCmd struct {
	command.Connection
	Ls        heldLsCmd        `cmd:"" help:"List the held jobs of a queue."`
	Release   heldReleaseCmd   `cmd:"" help:"Let held jobs wait again. They may be sent twice."`
	Delivered heldDeliveredCmd `cmd:"" help:"Mark held jobs as delivered."`
	Dead      heldDeadCmd      `cmd:"" help:"Mark held jobs as dead. They can be replayed."`
}

type heldLsCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	filter
	Limit int `help:"Maximum number of jobs; 0 lists all." default:"100"`
	command.Output
}

func (heldLsCmd) Help() string {
	return `A held job may have been sent: the connection or the drainer was lost when the receiver may already
have had the complete job. It keeps its place in the queue until a person decides. The time flags
select jobs by the time when they became held.`
}

func (c *heldLsCmd) Run(r *command.Run, api *client.Client) error {
	w, err := c.choice(r, time.Now())
	if err != nil {
		return err
	}
	return listJobs(
		r, api, c.Queue, client.List{State: "held", Reason: w.Reason, Before: w.Before, Since: w.Since, Payload: c.JSON()},
		c.Limit, c.Output,
	)
}

// decision is a decision about held jobs.
type decision struct {
	selection
	command.Confirmation
	command.Output
}

// decide makes a decision about the selected jobs. done says what happens to them, such as "released".
func (c *decision) decide(
	r *command.Run, api *client.Client, decision, note, done string, count func(wire.Decided) int64,
) error {
	held := func(ctx context.Context, name string) (int64, error) {
		q, err := api.Queue(ctx, name)
		if err != nil {
			return 0, err
		}
		return q.Stats.HeldJobs, nil
	}
	if len(c.IDs) == 0 && !c.DryRun && !c.Yes {
		n, err := held(r.Ctx, c.Queue)
		if err == nil && n > 0 {
			err = c.Confirm(r, c.Queue, fmt.Sprintf(
				"queue %s has %s held, and %s will be %s", c.Queue, show.Jobs(n), c.which(), done,
			))
		}
		if err != nil {
			return err
		}
	}
	sum, err := c.each(r, held, "deciding", func(ctx context.Context, name string, w wire.Choice) (wire.Decided, error) {
		return api.Decide(ctx, name, wire.Decision{Choice: w, Decision: decision, Note: note})
	})
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s", show.Jobs(count(sum)), done)
	if c.DryRun {
		text = fmt.Sprintf("%s would be %s", show.Jobs(sum.Matched), done)
	}
	return c.report(r, c.Output, sum, text, err)
}

type heldReleaseCmd struct{ decision }

func (heldReleaseCmd) Help() string {
	return `A released job waits again at its turn; the attempts it has spent stay spent. If it was sent before, it
is sent twice. Without ids it asks for confirmation.

Examples:
  penstock held release sms otp-4711
  penstock held release sms --newer 10m --dry-run`
}

func (c *heldReleaseCmd) Run(r *command.Run, api *client.Client) error {
	return c.decide(r, api, "release", "", "released", func(d wire.Decided) int64 { return d.Released })
}

type heldDeliveredCmd struct {
	decision
	Note string `help:"Reason to record in place of the present one." placeholder:"TEXT"`
}

func (heldDeliveredCmd) Help() string {
	return `Examples:
  penstock held delivered sms otp-4711 --note "in the provider's log"
  penstock held delivered sms --older 1h --yes`
}

func (c *heldDeliveredCmd) Run(r *command.Run, api *client.Client) error {
	return c.decide(r, api, "delivered", c.Note, "marked delivered", func(d wire.Decided) int64 { return d.Delivered })
}

type heldDeadCmd struct {
	decision
	Note string `help:"Reason to record in place of the present one." placeholder:"TEXT"`
}

func (heldDeadCmd) Help() string {
	return `Examples:
  penstock held dead sms otp-4711 --note "too late for it"
  penstock held dead sms --older 24h --yes`
}

func (c *heldDeadCmd) Run(r *command.Run, api *client.Client) error {
	return c.decide(r, api, "dead", c.Note, "marked dead", func(d wire.Decided) int64 { return d.Dead })
}
