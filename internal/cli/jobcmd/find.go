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

type findCmd struct {
	ID     string `arg:"" optional:"" help:"Id of the job."`
	Prefix bool   `help:"Find jobs whose ids begin with ID."`
	Lane   string `help:"Only jobs in this lane." placeholder:"KEY"`
	Limit  int    `help:"Maximum number of jobs; 0 finds all." default:"100"`
	command.Output
}

func (findCmd) Help() string {
	return `Jobs of all queues and in all states are found, while the store remembers them. Deferred jobs are found
only by their whole id. Delivered, cancelled and expired jobs have no known lane.

Examples:
  penstock job find welcome-4711
  penstock job find --prefix welcome-
  penstock job find --lane example.com --limit 0`
}

func (c *findCmd) Run(r *command.Run, api *client.Client) error {
	switch {
	case c.Limit < 0:
		return command.Usage(fmt.Errorf("--limit %d: must be 0 or more", c.Limit))
	case c.ID == "" && c.Prefix:
		return command.Usage(errors.New("--prefix needs the beginning of an id"))
	case c.ID == "" && c.Lane == "":
		return command.Usage(errors.New("give the id of a job or --lane"))
	}
	f := client.Find{ID: c.ID, Lane: c.Lane, Limit: pageSize}
	if c.Prefix {
		f.ID, f.Prefix = "", c.ID
	}
	jobs, more := []wire.Job{}, false
	for !more {
		page, err := api.Find(r.Ctx, f)
		if err != nil {
			return err
		}
		jobs = append(jobs, page.Jobs...)
		if f.After = page.Next; c.Limit > 0 && (len(jobs) > c.Limit || len(jobs) == c.Limit && f.After != "") {
			jobs, more = jobs[:c.Limit], true
		}
		if f.After == "" {
			break
		}
	}
	now := time.Now()
	err := command.List(r, c.Output, jobs, "no matching jobs\n",
		command.NewTable("QUEUE", "ID", "STATE", "LANE", "BATCH", ">ATTEMPTS", ">AGE", "REASON"), func(j *wire.Job) []string {
			return []string{
				j.Queue, j.ID, j.State.String(), j.Lane, j.Batch, show.Int(int64(j.Attempts)), show.Age(now, j.AppendedAt),
				j.Reason,
			}
		})
	if err == nil && more && !c.JSON() {
		r.Say("there may be more; find all with --limit 0")
	}
	return err
}
