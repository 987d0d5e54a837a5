package cli

import (
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// fieldsBetween lists in what two specs differ; nil is none.
func fieldsBetween(before, after *queue.Spec) ([]change, error) {
	trees := [2]map[string]any{}
	for i, s := range []*queue.Spec{before, after} {
		if s == nil {
			continue
		}
		var err error
		if trees[i], err = tree(s); err != nil {
			return nil, err
		}
	}
	return changes(trees[0], trees[1]), nil
}

type rollbackCmd struct {
	Name   string `arg:"" help:"Name of the queue, also of one that was removed."`
	To     int64  `placeholder:"REVISION"`
	DryRun bool   `help:"Only show what would change."`
	output
}

// LongHelp is the help that is too long for the tags.
func (rollbackCmd) LongHelp() map[string]string {
	return map[string]string{
		"to": "The revision whose spec is to come again; by default the one before the last change.",
	}
}

// Help is shown below the flags.
func (rollbackCmd) Help() string {
	return `"penstock queue log" shows the revisions. The spec comes from the server's record, with
its secrets. A queue that was removed is made again, without its jobs. The change is made
only if nobody else changed the queue meanwhile.

Examples:
  penstock queue rollback email --dry-run
  penstock queue rollback email --to 7`
}

func (c *rollbackCmd) Run(r *run) error {
	if c.To < 0 {
		return usage(fmt.Errorf("--to %d: must be a revision", c.To))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	var present *queue.Spec
	revision := int64(client.Absent)
	q, err := api.Queue(r.ctx, c.Name)
	var refused *client.Problem
	if err == nil {
		present, revision = &q.Spec, q.Revision
	} else if !errors.As(err, &refused) || refused.Reason != "unknown_queue" {
		return err
	}
	after, err := api.Rollback(r.ctx, c.Name, wire.RollbackRequest{Revision: c.To, DryRun: c.DryRun}, revision)
	if err != nil {
		return fmt.Errorf("queue %s: %w", c.Name, err)
	}
	warn(r, &after)
	if c.json() {
		return printJSON(r.Out, after)
	}
	fields, err := fieldsBetween(present, &after.Spec)
	if err != nil {
		return err
	}
	switch {
	case c.DryRun && present == nil:
		_, err = fmt.Fprintf(r.Out, "%s would be made again\n", c.Name)
	case c.DryRun:
		_, _ = fmt.Fprintf(r.Out, "%s would be changed\n", c.Name)
		return printFields(r.Out, withUnseen(fields, true))
	case present == nil:
		_, err = fmt.Fprintf(r.Out, "%s made again, revision %d\n", c.Name, after.Revision)
	default:
		return printChanges(r.Out, c.Name, after.Revision, withUnseen(fields, after.Revision != revision))
	}
	return err
}
