package queuecmd

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type lsCmd struct{ command.Watched }

func (lsCmd) Help() string {
	return `Columns: SIZE is waiting + scheduled + leased + held jobs, and the capacity; LANES the number of lanes
with waiting jobs; DEFERRED the jobs on the overflow, which are not in SIZE; OUT/S the departures per
second over the last 10 to 20 s; OLDEST the age of the first job; STATE what the queue does and why,
such as "quota until 21:00 CET" or "no drainer".

Examples:
  penstock queue ls
  penstock queue ls --watch
  penstock queue ls -o json | jq '.[] | select(.stats.dead > 0) | .name'

With --watch -o json it prints one list per line.`
}

func (c *lsCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, api.Queues, queueTable)
}

// noQueues is shown in place of an empty table.
const noQueues = `no queues; create one with "penstock queue set NAME rate=10/s"`

func queueTable(queues []wire.Queue, now time.Time) string {
	if len(queues) == 0 {
		return noQueues + "\n"
	}
	t := command.NewTable(
		"NAME", ">RATE", ">SIZE", ">WAITING", ">LANES", ">SCHEDULED", ">LEASED", ">HELD", ">DEFERRED", ">DEAD", ">OUT/S",
		">OLDEST", "STATE",
	)
	for i := range queues {
		q := &queues[i]
		s := &q.Stats
		state := State(q)
		if q.Pull {
			state += ", pull"
		}
		t.Row(
			q.Name, Rate(q), fmt.Sprintf("%d/%d", s.Size(), q.Capacity), show.Int(s.Waiting), show.Int(s.Lanes),
			show.Int(s.Scheduled), show.Int(s.Leased), show.Int(s.HeldJobs), show.Int(s.Deferred), show.Int(s.Dead),
			fmt.Sprintf("%.1f", s.Outflow), show.Age(now, s.OldestWaiting), state,
		)
	}
	return t.String()
}
