package queuecmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type lanesCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Limit  int    `help:"Maximum number of lanes to list, up to 250 (default ${default})." default:"50" placeholder:"N"`
	Offset int    `help:"Number of lanes to skip." placeholder:"N"`
	command.Watched
}

func (lanesCmd) Help() string {
	return `Lists the lanes with waiting jobs, the slowest first: how many jobs wait, how many leave per second on average,
how many can leave at least while all these lanes have jobs, when the lane will be empty, and how much of its limits in
other units is in use. Assumes that no jobs are added and that deliveries succeed.

Examples:
  penstock queue lanes email
  penstock queue lanes email -o json | jq -r '.lanes[] | select(.finish_at == null) | .lane'`
}

func (c *lanesCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, func(ctx context.Context) (wire.Lanes, error) {
		return api.Lanes(ctx, c.Name, c.Offset, c.Limit)
	}, laneListText)
}

// laneListText returns a table of lanes and a summary. Times are relative to the clock of the store.
func laneListText(v wire.Lanes, _ time.Time) string {
	if v.Total == 0 {
		return "no jobs are waiting\n"
	}
	columns := []string{"LANE", ">WEIGHT", ">WAITING", ">PER SECOND", ">AT LEAST", ">LIMIT", ">EMPTY IN", "AT"}
	budgets := slices.ContainsFunc(v.Lanes, func(ln wire.Lane) bool { return len(ln.Budgets) > 0 })
	if budgets {
		columns = append(columns, "BUDGETS")
	}
	t := command.NewTable(columns...)
	for n := range v.Lanes {
		ln := &v.Lanes[n]
		perSecond, in, at := "-", "never", ""
		if ln.PerSecond > 0 {
			perSecond = strconv.FormatFloat(ln.PerSecond, 'f', 2, 64)
		}
		if ln.FinishAt != nil {
			in, at = show.Duration(ln.FinishAt.Sub(v.Now)), show.Instant(ln.FinishAt)
		}
		atLeast := ""
		if ln.Guaranteed > 0 {
			atLeast = perSecondText(ln.Guaranteed)
		}
		weight := strconv.FormatInt(max(1, ln.Weight), 10)
		row := []string{ln.Lane, weight, strconv.FormatInt(ln.Waiting, 10), perSecond, atLeast, ln.Limit, in, at}
		if budgets {
			row = append(row, budgetsText(ln.Budgets, v.Now))
		}
		t.Row(row...)
	}
	text := t.String() + fmt.Sprintf("%d of %d lanes, %d jobs waiting", len(v.Lanes), v.Total, v.Waiting)
	if v.Estimated {
		text += ", an estimate"
	}
	if v.Why != nil && v.Never > 0 {
		text += fmt.Sprintf("; %d never empty: their jobs wait for %s", v.Never, cause.Cause(v.Why.Why).Text())
	}
	return text + "\n"
}
