package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type heldCmd struct {
	connection
	Ls        heldLsCmd        `cmd:"" help:"List the held jobs of a queue."`
	Release   heldReleaseCmd   `cmd:"" help:"Let held jobs wait again: they may be sent twice."`
	Delivered heldDeliveredCmd `cmd:"" help:"Say that held jobs were sent."`
	Dead      heldDeadCmd      `cmd:"" help:"Give held jobs up: they are dead, and can be replayed."`
}

type heldLsCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	died
	Limit int `help:"How many at most; 0 is all." default:"100"`
	output
}

// Help is shown below the flags.
func (heldLsCmd) Help() string {
	return `A held job may have been sent, and nobody can know: its connection, or its drainer, was lost when the
receiver may have had all of it. It keeps its place until a person decides. The flags choose by since when it
is held.`
}

func (c *heldLsCmd) Run(r *run) error {
	w, err := c.wire(r, time.Now())
	if err != nil {
		return err
	}
	return listJobs(
		r, c.Queue, client.List{State: "held", Reason: w.Reason, Before: w.Before, Since: w.Since, Payload: c.json()},
		c.Limit, c.json(),
	)
}

// ruling is what is decided about held jobs.
type ruling struct {
	choice `embed:""`
	Yes    bool `help:"Do not ask." short:"y"`
	output
}

func (c *ruling) decide(r *run, decision, note, done string, count func(wire.Decided) int64) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	held := func(ctx context.Context, name string) (int64, error) {
		q, err := api.Queue(ctx, name)
		if err != nil {
			return 0, err
		}
		return q.Stats.HeldJobs, nil
	}
	if len(c.IDs) == 0 && !c.DryRun && !c.Yes {
		n, err := held(r.ctx, c.Queue)
		if err != nil {
			return err
		}
		which := "all of them"
		if c.any() {
			which = "those that the flags choose"
		}
		if n > 0 {
			if err := confirm(r, c.Queue, fmt.Sprintf(
				"queue %s has %s held, and %s will be %s", c.Queue, plural(n), which, done,
			)); err != nil {
				return err
			}
		}
	}
	sum, err := c.allOf(r, held, "deciding", func(ctx context.Context, name string, w wire.Choice) (wire.Decided, error) {
		return api.Decide(ctx, name, wire.Decision{Choice: w, Decision: decision, Note: note})
	})
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s", plural(count(sum)), done)
	if c.DryRun {
		text = fmt.Sprintf("%s would be %s", plural(sum.Matched), done)
	}
	return c.tell(r, c.json(), sum, text, err)
}

type heldReleaseCmd struct {
	ruling `embed:""`
}

// Help is shown below the flags.
func (heldReleaseCmd) Help() string {
	return `A released job waits again at its turn; what was spent of its attempts stays spent. If it was sent,
it is sent twice. Without ids the number of held jobs is told and the queue's name asked for, which --yes
gives in advance.

Examples:
  penstock held release sms otp-4711
  penstock held release sms --newer 10m --dry-run`
}

func (c *heldReleaseCmd) Run(r *run) error {
	return c.decide(r, "release", "", "released", func(d wire.Decided) int64 { return d.Released })
}

type heldDeliveredCmd struct {
	ruling `embed:""`
	Note   string `help:"Why, in place of the reason that they have." placeholder:"TEXT"`
}

// Help is shown below the flags.
func (heldDeliveredCmd) Help() string {
	return `Examples:
  penstock held delivered sms otp-4711 --note "in the provider's log"
  penstock held delivered sms --older 1h --yes`
}

func (c *heldDeliveredCmd) Run(r *run) error {
	return c.decide(r, "delivered", c.Note, "marked delivered", func(d wire.Decided) int64 { return d.Delivered })
}

type heldDeadCmd struct {
	ruling `embed:""`
	Note   string `help:"Why, in place of the reason that they have." placeholder:"TEXT"`
}

// Help is shown below the flags.
func (heldDeadCmd) Help() string {
	return `Examples:
  penstock held dead sms otp-4711 --note "too late for it"
  penstock held dead sms --older 24h --yes`
}

func (c *heldDeadCmd) Run(r *run) error {
	return c.decide(r, "dead", c.Note, "marked dead", func(d wire.Decided) int64 { return d.Dead })
}
