package queuecmd

import (
	"fmt"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type rollbackCmd struct {
	Name   string `arg:"" help:"Name of the queue, which may be deleted."`
	To     int64  `help:"Revision to restore. Default: the one before the last change." placeholder:"REVISION"`
	DryRun bool   `help:"Only show what would change."`
	command.Output
}

func (rollbackCmd) Help() string {
	return `"penstock queue log" lists the revisions. The server has the earlier spec, with its secrets. A deleted
queue is created again, without its jobs. The change fails if someone else changed the queue
meanwhile.

Examples:
  penstock queue rollback email --dry-run
  penstock queue rollback email --to 7`
}

func (c *rollbackCmd) Run(r *command.Run, api *client.Client) error {
	if c.To < 0 {
		return command.Usage(fmt.Errorf("--to %d: must be a revision", c.To))
	}
	var present *queue.Spec
	revision := int64(client.Absent)
	q, err := api.Queue(r.Ctx, c.Name)
	if err == nil {
		present, revision = &q.Spec, q.Revision
	} else if !command.Refused(err, "unknown_queue") {
		return err
	}
	after, err := api.Rollback(r.Ctx, c.Name, wire.RollbackRequest{Revision: c.To, DryRun: c.DryRun}, revision)
	if err != nil {
		return fmt.Errorf("queue %s: %w", c.Name, err)
	}
	applycmd.SayWarnings(r, &after)
	if c.JSON() {
		return command.PrintJSON(r.Out, after)
	}
	fields, err := changes.Between(present, &after.Spec)
	if err != nil {
		return err
	}
	switch {
	case c.DryRun && present == nil:
		_, err = fmt.Fprintf(r.Out, "%s would be created again\n", c.Name)
	case c.DryRun:
		_, _ = fmt.Fprintf(r.Out, "%s would be changed\n", c.Name)
		return changes.PrintFields(r.Out, changes.WithSecret(fields, true))
	case present == nil:
		_, err = fmt.Fprintf(r.Out, "%s created again, revision %d\n", c.Name, after.Revision)
	default:
		return changes.Print(r.Out, c.Name, after.Revision, changes.WithSecret(fields, after.Revision != revision))
	}
	return err
}
