package jobcmd

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type lsCmd struct {
	Queue string  `arg:"" help:"Name of the queue."`
	State string  `enum:"waiting,scheduled,leased,held,dead,delivered,cancelled,expired" default:"waiting"`
	Lane  *string `help:"Only waiting jobs in this lane; empty is the lane of jobs without a key." placeholder:"KEY"`
	Limit int     `help:"Maximum number of jobs; 0 lists all." default:"100"`

	Payload bool `help:"With -o json, include payloads. dead ls and held ls always do."`
	command.Output
}

func (lsCmd) LongHelp() map[string]string {
	return map[string]string{"state": "State of the jobs: ${enum}."}
}

func (lsCmd) Help() string {
	return `Waiting jobs are listed lane by lane, in the order in which they would leave; scheduled jobs by due
time; held and dead jobs by the time when they became held or dead; delivered, cancelled and expired
jobs by their end, the last one first; leased jobs in no order.

Examples:
  penstock job ls email
  penstock job ls email --lane example.com --limit 0
  penstock job ls email --state scheduled -o json | jq -r '.[].id'`
}

func (c *lsCmd) Run(r *command.Run, api *client.Client) error {
	if c.Lane != nil && c.State != "waiting" {
		return command.Usage(errors.New("--lane: only waiting jobs can be listed by lane"))
	}
	if c.Payload && !c.JSON() {
		return command.Usage(errors.New("--payload needs -o json; for one job, see \"penstock job get\""))
	}
	return listJobs(r, api, c.Queue, client.List{State: c.State, Lane: c.Lane, Payload: c.Payload}, c.Limit, c.Output)
}

func listJobs(
	r *command.Run, api *client.Client, queueName string, l client.List, limit int, o command.Output,
) error {
	if limit < 0 {
		return command.Usage(fmt.Errorf("--limit %d: must be 0 or more", limit))
	}
	jobs, more, err := List(r.Ctx, api, queueName, l, limit)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		r.SayNearLane(queueName, l.Lane)
	}
	err = o.Print(r, jobs, func() string { return jobTable(jobs, l.State, time.Now()) })
	if err == nil && more && !o.JSON() {
		r.Say("there are more; list all with --limit 0")
	}
	return err
}

func jobTable(jobs []wire.Job, state string, now time.Time) string {
	if len(jobs) == 0 {
		return "no matching jobs\n"
	}
	t := command.NewTable("ID", "LANE", ">PRIORITY", ">COST", ">ATTEMPTS", "APPENDED")
	last := map[string]string{
		"scheduled": "DUE", "leased": "DEPARTS", "held": "HELD", "dead": "DIED",
		"delivered": "ENDED", "cancelled": "ENDED", "expired": "ENDED",
	}[state]
	if last != "" {
		t.Column(last)
	}
	expires := slices.ContainsFunc(jobs, func(j wire.Job) bool { return j.ExpiresAt != nil })
	if expires {
		t.Column("EXPIRES")
	}
	batches := slices.ContainsFunc(jobs, func(j wire.Job) bool { return j.Batch != "" })
	if batches {
		t.Column("BATCH")
	}
	t.Column("REASON")
	for i := range jobs {
		j := &jobs[i]
		row := []string{
			j.ID, j.Lane, show.Int(int64(j.Priority)), show.Int(j.Cost), show.Int(int64(j.Attempts)), show.Instant(j.AppendedAt),
		}
		switch last {
		case "":
		case "DIED", "ENDED":
			row = append(row, show.Age(now, j.EndedAt)+" ago")
		case "HELD":
			row = append(row, "for "+show.Age(now, j.HeldAt))
		default:
			row = append(row, show.Instant(j.DueAt))
		}
		if expires {
			row = append(row, show.Instant(j.ExpiresAt))
		}
		if batches {
			row = append(row, j.Batch)
		}
		t.Row(append(row, j.Reason)...)
	}
	return t.String()
}
