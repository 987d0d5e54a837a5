package cli

import (
	"fmt"

	"github.com/penstock/penstock/internal/wire"
)

type pauseCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Reason string `help:"Why, for whoever looks at the queue." placeholder:"TEXT"`
	output
}

func (c *pauseCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	q, err := api.Pause(r.ctx, c.Name, c.Reason)
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
	q, err := api.Resume(r.ctx, c.Name)
	return c.done(r, &q, err)
}

// done prints a queue after its flow was changed.
func (o output) done(r *run, q *wire.Queue, err error) error {
	if err != nil {
		return err
	}
	if o.json() {
		return printJSON(r.Out, q)
	}
	_, err = fmt.Fprintf(r.Out, "%s is %s; %d of %d held\n", q.Name, stateOf(q), q.Stats.Held(), q.Capacity)
	return err
}
