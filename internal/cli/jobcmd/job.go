// Package jobcmd has the commands about jobs: in any state, dead ones and held ones.
package jobcmd

import (
	"context"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// Cmd is penstock job.
type Cmd struct {
	command.Connection
	Ls     lsCmd     `cmd:"" help:"List the jobs in one state."`
	Find   findCmd   `cmd:"" help:"Find jobs in all queues by id or lane."`
	Get    getCmd    `cmd:"" help:"Show a job."`
	Cancel cancelCmd `cmd:"" help:"Cancel a job that has not left."`
}

// pageSize is the number of jobs in one request.
const pageSize = 500

// List returns the jobs of a queue, up to a limit; 0 is no limit. A job that moved between pages is listed once.
func List(
	ctx context.Context, api *client.Client, queueName string, l client.List, limit int,
) (jobs []wire.Job, more bool, err error) {
	seen := map[string]bool{}
	jobs = []wire.Job{}
	for {
		l.Limit = pageSize
		page, err := api.Jobs(ctx, queueName, l)
		if err != nil {
			return nil, false, err
		}
		for _, j := range page.Jobs {
			if seen[j.ID] {
				continue
			}
			if limit > 0 && len(jobs) == limit {
				return jobs, true, nil
			}
			seen[j.ID] = true
			jobs = append(jobs, j)
		}
		if page.Next == "" {
			return jobs, false, nil
		}
		l.After = page.Next
	}
}
