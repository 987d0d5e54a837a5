package jobcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// DeadCmd is penstock dead.
type DeadCmd struct {
	command.Connection
	Ls     deadLsCmd     `cmd:"" help:"List the dead jobs of a queue."`
	Replay deadReplayCmd `cmd:"" help:"Append dead jobs to their queue again."`
	Rm     deadRmCmd     `cmd:"" help:"Delete dead jobs."`
}

type deadLsCmd struct {
	Queue string `arg:"" optional:"" help:"Name of the queue, which may be deleted. Default: the number per queue."`
	filter
	Limit int `help:"Maximum number of jobs; 0 lists all." default:"100"`
	command.Output
}

func (c *deadLsCmd) Run(r *command.Run, api *client.Client) error {
	w, err := c.choice(r, time.Now())
	if err != nil {
		return err
	}
	if c.Queue != "" {
		return listJobs(
			r, api, c.Queue, client.List{State: "dead", Reason: w.Reason, Before: w.Before, Since: w.Since, Payload: c.JSON()},
			c.Limit, c.Output,
		)
	}
	if c.any() {
		return command.Usage(errors.New("these flags need the name of a queue"))
	}
	all, err := api.DeadQueues(r.Ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	return command.List(r, c.Output, all, "no dead jobs\n", command.NewTable("QUEUE", ">DEAD", "OLDEST", ""),
		func(d *wire.DeadQueue) []string {
			deleted := ""
			if d.Gone {
				deleted = "deleted"
			}
			return []string{d.Queue, show.Int(d.Dead), show.Age(now, d.Oldest) + " ago", deleted}
		})
}

type deadReplayCmd struct {
	selection
	command.Output
}

func (deadReplayCmd) Help() string {
	return `A replayed job waits in its queue as if appended now, keeps its earlier attempts, and leaves at the
rate. Jobs for which there is no room stay dead (exit code 3): replay them later.

Examples:
  penstock dead replay email welcome-4711
  penstock dead replay email --reason "421" --dry-run
  penstock dead replay email --before 2026-01-02T15:04:05Z`
}

func (c *deadReplayCmd) Run(r *command.Run, api *client.Client) error {
	sum, err := c.each(r, api.Dead, "replaying", api.Replay)
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s replayed", show.Jobs(sum.Replayed))
	if c.DryRun {
		text = fmt.Sprintf("%s would be replayed", show.Jobs(sum.Matched))
	}
	return c.report(r, c.Output, sum, text, err)
}

type deadRmCmd struct {
	selection
	command.Confirmation
	command.Output
}

func (deadRmCmd) Help() string {
	return `Deleted jobs are forgotten, and their ids may be used again. Without ids it asks for confirmation.

Examples:
  penstock dead rm email welcome-4711
  penstock dead rm email --older 168h --yes
  penstock dead rm email --reason "no such user" --dry-run
  penstock dead rm campaign-17 --yes            # works for deleted queues too`
}

func (c *deadRmCmd) Run(r *command.Run, api *client.Client) error {
	if len(c.IDs) == 0 && !c.DryRun && !c.Yes {
		dead, err := api.Dead(r.Ctx, c.Queue)
		if err == nil && dead > 0 {
			err = c.Confirm(r, c.Queue, fmt.Sprintf(
				"queue %s has %s dead, and %s will be deleted", c.Queue, show.Jobs(dead), c.which(),
			))
		}
		if err != nil {
			return err
		}
	}
	sum, err := c.each(r, api.Dead, "deleting", api.Forget)
	if sum.Matched == 0 && err != nil {
		return err
	}
	text := fmt.Sprintf("%s deleted", show.Jobs(sum.Forgotten))
	if c.DryRun {
		text = fmt.Sprintf("%s would be deleted", show.Jobs(sum.Matched))
	}
	return c.report(r, c.Output, sum, text, err)
}
