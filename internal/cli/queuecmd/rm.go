package queuecmd

import (
	"fmt"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type rmCmd struct {
	Name  string `arg:"" help:"Name of the queue."`
	Force bool   `help:"Delete it with its jobs. All but the dead are lost; see \"penstock dead\"."`
	command.Confirmation
}

func (rmCmd) Help() string {
	return `An empty queue is deleted at once. A queue that holds or has deferred jobs is not deleted (exit code
3) without --force, which asks for confirmation.

Examples:
  penstock queue rm old
  penstock queue rm old --force --yes`
}

func (c *rmCmd) Run(r *command.Run, api *client.Client) error {
	q, err := api.Queue(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	if c.Force && q.Stats.Size()+q.Stats.Deferred > 0 {
		if err := c.Confirm(r, c.Name, fmt.Sprintf("queue %s %s, which will be lost", c.Name, holdsText(&q))); err != nil {
			return err
		}
	}
	// Delete the revision that was seen: another queue of the same name may have been created since.
	err = api.Delete(r.Ctx, c.Name, q.Revision, c.Force)
	if command.Refused(err, "not_empty") {
		return command.Fail(command.ExitRefused, fmt.Errorf(
			"queue %s %s and was not deleted; --force deletes it with its jobs", c.Name, holdsText(&q),
		))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s deleted\n", c.Name)
	return err
}

// holdsText describes the jobs of a queue.
func holdsText(q *wire.Queue) string {
	if q.Stats.Deferred == 0 {
		return fmt.Sprintf("holds %d jobs", q.Stats.Size())
	}
	return fmt.Sprintf("holds %d jobs, has %d deferred", q.Stats.Size(), q.Stats.Deferred)
}
