package queuetest

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// list compares the jobs of a queue in one state, listed to the end in pages of one size.
func (p *pair) list() {
	req := queue.ListRequest{
		Queue: p.queueName(), Limit: rapid.SampledFrom([]int{1, 3, queue.MaxPage}).Draw(p.T, "page"),
	}
	req.State = rapid.SampledFrom([]queue.State{
		queue.Waiting, queue.Scheduled, queue.Leased, queue.Held, queue.Dead,
	}).Draw(p.T, "state")
	p.both(fmt.Sprintf("list of %v in %s", req.State, req.Queue), func(_ int, e queue.Engine) string {
		var lines []string
		for r := req; ; {
			l, err := e.ListJobs(p.ctx, r)
			if err != nil {
				return kind(err)
			}
			for _, j := range l.Jobs {
				lines = append(lines, fmt.Sprintf("%s %q %d cost %d attempts %d appended %s until %s due %s held %s "+
					"ended %s %q", j.ID, j.Lane, j.Priority, j.Cost, j.Attempts,
					micro(j.AppendedAt), micro(j.ExpiresAt), micro(j.DueAt), micro(j.HeldAt), micro(j.EndedAt),
					j.Reason)+timelineText(j.Timeline))
			}
			if r.After = l.Next; l.Next == "" {
				break
			}
		}
		if req.State == queue.Leased {
			slices.Sort(lines)
		}
		return strings.Join(lines, "\n  ")
	})
}

// compareDeadQueues compares the queues with dead jobs, listed in pages of one size.
func (p *pair) compareDeadQueues() {
	limit := rapid.SampledFrom([]int{1, 2, 100}).Draw(p.T, "page")
	p.both("queues with dead jobs", func(_ int, e queue.Engine) string {
		text := ""
		for after := ""; ; {
			list, err := e.DeadQueues(p.ctx, after, limit)
			if err != nil {
				return kind(err)
			}
			for _, d := range list {
				text += fmt.Sprintf("\n  %s has %d since %s, gone %v", d.Queue, d.Dead, micro(d.Oldest), d.Gone)
			}
			if len(list) < limit {
				return text
			}
			after = list[len(list)-1].Queue
		}
	})
}

// purge purges waiting or scheduled jobs.
func (p *pair) purge() {
	req := queue.PurgeRequest{
		Queue: p.queueName(), Limit: rapid.SampledFrom([]int{1, 3, queue.MaxPage}).Draw(p.T, "page"),
	}
	req.State = rapid.SampledFrom([]queue.State{queue.Waiting, queue.Scheduled}).Draw(p.T, "state")
	p.both(fmt.Sprintf("purge of %v in %s", req.State, req.Queue), func(_ int, e queue.Engine) string {
		jobs := int64(0)
		for r := req; ; {
			done, err := e.Purge(p.ctx, r)
			if err != nil {
				return kind(err)
			}
			jobs += done.Jobs
			if r.After = done.Next; done.Next == "" {
				return fmt.Sprint(jobs)
			}
		}
	})
}

// revive replays some jobs, which may be dead.
func (p *pair) revive() {
	name, ids := p.queueName(), p.someIDs()
	var outcomes []queue.ReplayOutcome
	p.both(fmt.Sprintf("replay %v of %s", ids, name), func(_ int, e queue.Engine) string {
		out, err := e.Replay(p.ctx, name, ids)
		outcomes = out
		return fmt.Sprint(out, kind(err))
	})
	for _, o := range outcomes {
		if o == queue.Replayed {
			p.counts[name].replayed++
		}
	}
}

// forget forgets some jobs, which may be dead.
func (p *pair) forget() {
	name, ids := p.queueName(), p.someIDs()
	p.both(fmt.Sprintf("forget %v of %s", ids, name), func(_ int, e queue.Engine) string {
		out, err := e.Forget(p.ctx, name, ids)
		return fmt.Sprint(out, kind(err))
	})
}

// decide decides about some jobs, which may be held.
func (p *pair) decide() {
	name, ids := p.queueName(), p.someIDs()
	v := rapid.SampledFrom([]queue.Verdict{queue.Deliver, queue.Bury, queue.Release}).Draw(p.T, "decision")
	reason := rapid.SampledFrom([]string{"", "a person knows"}).Draw(p.T, "reason")
	p.decideBoth(name, ids, v, reason)
}

func (p *pair) decideBoth(name string, ids []string, v queue.Verdict, reason string) {
	p.both(fmt.Sprintf("decide %v of %v of %s, %q", v, ids, name, reason), func(_ int, e queue.Engine) string {
		states, err := e.Decide(p.ctx, name, ids, v, reason)
		return fmt.Sprint(states, kind(err))
	})
}

// decideAll releases all held jobs.
func (p *pair) decideAll() {
	var all []string
	for id := range 31 {
		all = append(all, fmt.Sprint("j", id))
	}
	for _, name := range pairQueues {
		p.decideBoth(name, all, queue.Release, "")
	}
}

func (p *pair) someIDs() (ids []string) {
	for range rapid.IntRange(1, 12).Draw(p.T, "ids") {
		ids = append(ids, p.id())
	}
	return ids
}
