package queuecmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type purgeCmd struct {
	Name   string   `arg:"" help:"Name of the queue."`
	State  []string `enum:"waiting,scheduled" placeholder:"STATE"`
	Lane   *string  `help:"Only waiting jobs in this lane; empty is the lane of jobs without a key." placeholder:"KEY"`
	DryRun bool     `help:"Only print the number of jobs."`
	command.Confirmation
	command.Output
}

func (purgeCmd) LongHelp() map[string]string {
	return map[string]string{"state": "State of the jobs: ${enum}. Default: both; with --lane, waiting."}
}

func (purgeCmd) Help() string {
	return `Cancels waiting and scheduled jobs, as "penstock job cancel" cancels one. Jobs that are appended later,
leased or deferred are not changed. It asks for confirmation.

Examples:
  penstock queue purge email --dry-run
  penstock queue purge email --lane example.com --yes`
}

func (c *purgeCmd) Run(r *command.Run, api *client.Client) error {
	req := wire.PurgeRequest{Lane: c.Lane, DryRun: true}
	for _, name := range c.State {
		var s queue.State
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return command.Usage(fmt.Errorf("--state %s: must be waiting or scheduled", name))
		}
		if req.States = append(req.States, s); c.Lane != nil && s == queue.Scheduled {
			return command.Usage(errors.New("--lane: only waiting jobs can be purged by lane"))
		}
	}
	total, err := c.purge(r, api, req, command.NewProgress(io.Discard, "", "jobs", 0))
	if err != nil {
		return err
	}
	if total == 0 {
		r.SayNearLane(c.Name, c.Lane)
	}
	if c.DryRun {
		return c.print(r, total, "would be canceled")
	}
	if total > 0 {
		if err := c.Confirm(r, c.Name, fmt.Sprintf("%s of queue %s will be canceled", show.Jobs(total), c.Name)); err != nil {
			return err
		}
	}
	req.DryRun = false
	done, err := c.purge(r, api, req, command.NewProgress(r.Err, "canceling", "jobs", total))
	if err != nil && done == 0 {
		return err
	}
	if printed := c.print(r, done, "canceled"); printed != nil {
		return printed
	}
	return err
}

// purge purges page by page, and returns the number of jobs.
func (c *purgeCmd) purge(
	r *command.Run, api *client.Client, req wire.PurgeRequest, progress *command.Progress,
) (jobs int64, err error) {
	defer progress.End()
	for {
		p, err := api.Purge(r.Ctx, c.Name, req)
		if err != nil {
			return jobs, err
		}
		jobs += p.Jobs
		progress.Show(jobs)
		if req.After = p.Next; p.Next == "" {
			return jobs, nil
		}
	}
}

func (c *purgeCmd) print(r *command.Run, jobs int64, what string) error {
	return c.Printf(r, wire.Purged{Jobs: jobs}, "%s %s\n", show.Jobs(jobs), what)
}
