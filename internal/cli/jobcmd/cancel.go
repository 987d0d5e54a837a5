package jobcmd

import (
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
)

type cancelCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	ID    string `arg:"" help:"Id of the job."`
	command.Output
}

func (cancelCmd) Help() string {
	return `Cancels a job that is waiting, scheduled or deferred. Its id stays taken for the queue's retention. A
job that is leased or has ended is not changed (exit code 3). Canceling twice is safe.

Example:
  penstock job cancel email welcome-4711`
}

func (c *cancelCmd) Run(r *command.Run, api *client.Client) error {
	j, err := api.Cancel(r.Ctx, c.Queue, c.ID)
	if err != nil {
		return err
	}
	return c.Printf(r, j, "%s is %s\n", show.Text(j.ID), j.State)
}
