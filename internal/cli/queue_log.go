package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type logCmd struct {
	Name  string `arg:"" help:"Name of the queue, also of one that was removed."`
	Limit int    `help:"At most so many." default:"100"`
	output
}

// Help is shown below the flags.
func (logCmd) Help() string {
	return `The latest 100 changes are kept, newest first, and for 30 days after the queue was
removed. BY is who the one who did it says to be. Secrets are not shown: "deliver: *** -> ***"
says that one changed.

Examples:
  penstock queue log email
  penstock queue log email -o json`
}

func (c *logCmd) Run(r *run) error {
	if c.Limit < 1 || c.Limit > queue.MaxChanges {
		return usage(fmt.Errorf("--limit %d: must be from 1 to %d", c.Limit, queue.MaxChanges))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	list, err := api.Changes(r.ctx, c.Name, c.Limit)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, list)
	}
	t := table{header: []string{"WHEN", "BY", "WHAT", "REVISION", "CHANGES"}}
	for i := range list {
		text, err := changed(&list[i])
		if err != nil {
			return err
		}
		t.add(list[i].At.Local().Format(time.DateTime), plain(list[i].By), plain(string(list[i].What)), num(list[i].Revision), text)
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

// changed says in one line what a change did.
func changed(c *wire.Change) (string, error) {
	var parts []string
	if c.Before != nil && c.After != nil {
		fields, err := fieldsBetween(c.Before, c.After)
		if err != nil {
			return "", err
		}
		for _, f := range withUnseen(fields, true) {
			parts = append(parts, fmt.Sprintf("%s: %s -> %s", f.Field, orNone(f.From), orNone(f.To)))
		}
	} else if c.After != nil {
		parts = append(parts, "rate: "+c.After.Rate.String())
	}
	if c.Until != nil {
		parts = append(parts, "until "+c.Until.Local().Format(time.DateTime))
	}
	if c.Reason != "" {
		parts = append(parts, plain(c.Reason))
	}
	return strings.Join(parts, "; "), nil
}

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
	To     int64  `help:"The revision whose spec is to come again; by default the one before the last change." placeholder:"REVISION"`
	DryRun bool   `help:"Only show what would change."`
	output
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
