package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type jobLsCmd struct {
	Queue string  `arg:"" help:"Name of the queue."`
	State string  `enum:"waiting,scheduled,leased,held,dead" default:"waiting" placeholder:"STATE"`
	Lane  *string `help:"Only this lane, of waiting jobs; empty is that of jobs that name none." placeholder:"KEY"`
	Limit int     `help:"How many at most; 0 is all." default:"100"`

	Payload bool `help:"With -o json, tell what the jobs carry; dead ls and held ls always do."`
	output
}

// LongHelp is the help that is too long for the tags.
func (jobLsCmd) LongHelp() map[string]string {
	return map[string]string{
		"state": "Which jobs: ${enum}.",
	}
}

// Help is shown below the flags.
func (jobLsCmd) Help() string {
	return `Waiting jobs are listed lane by lane in the order in which they would leave it, scheduled ones by when
they are due, held ones by since when they are, dead ones by when they died, leased ones in no order.

Examples:
  penstock job ls email
  penstock job ls email --lane example.com --limit 0
  penstock job ls email --state scheduled -o json | jq -r '.[].id'`
}

func (c *jobLsCmd) Run(r *run) error {
	if c.Lane != nil && c.State != "waiting" {
		return usage(fmt.Errorf("--lane: only waiting jobs are listed by lane"))
	}
	if c.Payload && !c.json() {
		return usage(fmt.Errorf("--payload: a table has no room for it; give -o json as well, or see job get"))
	}
	return listJobs(r, c.Queue, client.List{State: c.State, Lane: c.Lane, Payload: c.Payload}, c.Limit, c.json())
}

func listJobs(r *run, queueName string, l client.List, limit int, asJSON bool) error {
	if limit < 0 {
		return usage(fmt.Errorf("--limit %d: must be 0 or more", limit))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	jobs, more, err := listed(r, api, queueName, l, limit)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		r.sayNearLane(queueName, l.Lane)
	}
	if asJSON {
		return printJSON(r.Out, jobs)
	}
	if _, err = fmt.Fprint(r.Out, jobTable(jobs, l.State, time.Now())); err == nil && more {
		r.say("there are more; --limit 0 lists all")
	}
	return err
}

func jobTable(jobs []wire.Job, state string, now time.Time) string {
	if len(jobs) == 0 {
		return "no such jobs\n"
	}
	t := table{
		header: []string{"ID", "LANE", "PRIORITY", "COST", "ATTEMPTS", "APPENDED"},
		right:  map[int]bool{2: true, 3: true, 4: true},
	}
	last := map[string]string{"scheduled": "DUE", "leased": "DEPARTS", "held": "HELD", "dead": "DIED"}[state]
	if last != "" {
		t.header = append(t.header, last)
	}
	expires := slices.ContainsFunc(jobs, func(j wire.Job) bool { return j.ExpiresAt != nil })
	if expires {
		t.header = append(t.header, "EXPIRES")
	}
	t.header = append(t.header, "REASON")
	for i := range jobs {
		j := &jobs[i]
		row := []string{
			plain(j.ID), plain(j.Lane), num(int64(j.Priority)), num(j.Cost), num(int64(j.Attempts)), instant(j.AppendedAt),
		}
		switch last {
		case "":
		case "DIED":
			row = append(row, age(now, j.EndedAt)+" ago")
		case "HELD":
			row = append(row, "for "+age(now, j.HeldAt))
		default:
			row = append(row, instant(j.DueAt))
		}
		if expires {
			row = append(row, instant(j.ExpiresAt))
		}
		t.add(append(row, plain(j.Reason))...)
	}
	return t.String()
}
