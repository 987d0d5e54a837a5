package cli

import (
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type purgeCmd struct {
	Name   string   `arg:"" help:"Name of the queue."`
	State  []string `enum:"waiting,scheduled" placeholder:"STATE"`
	Lane   *string  `help:"Only this lane, of waiting jobs; empty is that of jobs that name none." placeholder:"KEY"`
	DryRun bool     `help:"Only say how many."`
	Yes    bool     `help:"Do not ask." short:"y"`
	output
}

// LongHelp is the help that is too long for the tags.
func (purgeCmd) LongHelp() map[string]string {
	return map[string]string{
		"state": "Which jobs: ${enum}. Both, if left out; with --lane, waiting.",
	}
}

// Help is shown below the flags.
func (purgeCmd) Help() string {
	return `Takes back the jobs that wait or are scheduled, as "penstock job cancel" does one. What is appended
after it began is left alone, and so is what is leased or deferred. The number of jobs is told and the queue's
name asked for, which --yes gives in advance.

Examples:
  penstock queue purge email --dry-run
  penstock queue purge email --lane example.com --yes`
}

func (c *purgeCmd) Run(r *run) error {
	req := wire.PurgeRequest{Lane: c.Lane, DryRun: true}
	for _, name := range c.State {
		var s queue.State
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return usage(fmt.Errorf("--state %s: must be waiting or scheduled", name))
		}
		if req.States = append(req.States, s); c.Lane != nil && s == queue.Scheduled {
			return usage(fmt.Errorf("--lane: only waiting jobs are purged by lane"))
		}
	}
	there, err := c.all(r, req, 0)
	if err != nil {
		return err
	}
	if there == 0 {
		r.sayNearLane(c.Name, c.Lane)
	}
	if c.DryRun {
		return c.tell(r, there, "would be taken back")
	}
	if there > 0 && !c.Yes {
		if err := confirm(r, c.Name, fmt.Sprintf("%s of queue %s will be taken back", plural(there), c.Name)); err != nil {
			return err
		}
	}
	req.DryRun = false
	done, err := c.all(r, req, there)
	if err != nil && done == 0 {
		return err
	}
	if told := c.tell(r, done, "taken back"); told != nil {
		return told
	}
	return err
}

// all follows a purge to its end, and returns how many jobs it came to.
func (c *purgeCmd) all(r *run, req wire.PurgeRequest, total int64) (jobs int64, err error) {
	api, err := r.client()
	if err != nil {
		return 0, err
	}
	s := newSteps(r, "taking back", total)
	if req.DryRun {
		s = newSteps(&run{Streams: Streams{Err: io.Discard}}, "", 0)
	}
	defer s.end()
	for {
		p, err := api.Purge(r.ctx, c.Name, req)
		if err != nil {
			return jobs, err
		}
		jobs += p.Jobs
		s.show(jobs)
		if req.After = p.Next; p.Next == "" {
			return jobs, nil
		}
	}
}

func (c *purgeCmd) tell(r *run, jobs int64, what string) error {
	if c.json() {
		return printJSON(r.Out, wire.Purged{Jobs: jobs})
	}
	_, err := fmt.Fprintf(r.Out, "%s %s\n", plural(jobs), what)
	return err
}
