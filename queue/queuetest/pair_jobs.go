package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// list compares the jobs of a queue in one state, listed to the end in pages of one size.
func (p *pair) list() {
	req := queue.ListRequest{
		Queue: p.queueName(), Limit: rapid.SampledFrom([]int{1, 3, queue.MaxPage}).Draw(p.T, "page"),
	}
	req.State = rapid.SampledFrom([]queue.State{
		queue.Waiting, queue.Scheduled, queue.Leased, queue.Held, queue.Dead, queue.Delivered, queue.Cancelled,
		queue.Expired,
	}).Draw(p.T, "state")
	p.both(fmt.Sprintf("list of %v in %s", req.State, req.Queue), func(_ int, e queue.Engine) string {
		var lines []string
		for r := req; ; {
			l, err := e.ListJobs(p.ctx, r)
			if err != nil {
				return kind(err)
			}
			for _, j := range l.Jobs {
				lines = append(lines, listedText(&j))
			}
			if r.After = l.Next; l.Next == "" {
				break
			}
		}
		if req.State == queue.Leased || req.State.Ended() && req.State != queue.Dead { // ties have no order
			slices.Sort(lines)
		}
		return strings.Join(lines, "\n  ")
	})
}

func listedText(j *queue.JobInfo) string {
	return fmt.Sprintf("%s %q %q %d cost %d attempts %d appended %s until %s due %s held %s ended %s %q", j.ID, j.Lane,
		j.Batch,
		j.Priority, j.Cost, j.Attempts, micro(j.AppendedAt), micro(j.ExpiresAt), micro(j.DueAt), micro(j.HeldAt),
		micro(j.EndedAt), j.Reason) + timelineText(j.Timeline)
}

// find compares a search to the end in pages of one size.
func (p *pair) find() {
	req := queue.FindRequest{
		ID: p.id(), Prefix: rapid.Bool().Draw(p.T, "prefix"),
		Limit: rapid.SampledFrom([]int{1, 3, queue.MaxPage}).Draw(p.T, "page"),
	}
	if rapid.Bool().Draw(p.T, "bounded") {
		req.From, req.To = p.queueName(), p.queueName()
	}
	if rapid.Bool().Draw(p.T, "by lane") {
		j := job(p.queueName(), "j")
		p.inSomeLane(&j)
		req.Lane = j.Lane
	}
	p.both(fmt.Sprintf("find %+v", req), func(_ int, e queue.Engine) string {
		var lines []string
		for r := req; ; {
			found, err := e.FindJobs(p.ctx, r)
			if err != nil {
				return kind(err)
			}
			for _, j := range found.Jobs {
				lines = append(lines, fmt.Sprintf("%s %v ", j.Queue, j.State)+listedText(&j))
			}
			if r.After = found.Next; found.Next == "" {
				break
			}
		}
		slices.Sort(lines)
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

// someJobs draws jobs, including an odd one now and then.
func (p *pair) someJobs() []queue.Job {
	var list []queue.Job
	for range rapid.IntRange(1, 6).Draw(p.T, "jobs") {
		j := job(p.queueName(), p.id())
		// The same for the same id.
		j.Payload = append(j.Payload, make([]byte, len(j.ID)%3*int(j.ID[len(j.ID)-1]-'0')*80)...)
		j.Cost = rapid.Int64Range(0, 3).Draw(p.T, "cost")
		switch rapid.IntRange(0, 30).Draw(p.T, "oddity") {
		case 30:
			j.Payload = []byte("another")
		case 29:
			j.ContentType = "text/plain"
		case 28:
			j.ID = "not valid"
		case 27:
			j.Queue = "g.nobody"
		case 26:
			j.Cost = -1
		}
		j.Overflow = rapid.SampledFrom([]string{"", queue.Defer, queue.Reject}).Draw(p.T, "overflow")
		j.Limited = rapid.SampledFrom([]time.Duration{
			0, 0, 0, 0, 0, 0, 0, 0, time.Nanosecond, 20 * time.Second,
		}).Draw(p.T, "limited")
		if in := rapid.SampledFrom([]int{
			-1, -1, -1, -1, 0, 50, 100, 300, 1000, 3000, 10_000, 60_000,
		}).Draw(p.T, "expires in ms"); in >= 0 {
			j.ExpiresAt = p.clock.Now().Time().Add(time.Duration(in) * time.Millisecond)
		}
		p.inSomeLane(&j)
		j.Costs = p.costs("costs")
		j.Batch = rapid.SampledFrom(pairBatches).Draw(p.T, "batch")
		if p.ruled && rapid.Bool().Draw(p.T, "header") {
			j.Headers = map[string]string{"X": rapid.SampledFrom([]string{"a", "x", ""}).Draw(p.T, "x")}
		}
		list = append(list, j)
	}
	if p.ruled { // the others see what one takes from a rule of the group
		list = slices.DeleteFunc(list, func(j queue.Job) bool { return j.Queue != list[0].Queue })
	}
	// The contract leaves open in which order jobs of several queues are decided.
	slices.SortStableFunc(list, func(a, b queue.Job) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}

func (p *pair) append() {
	list := p.someJobs()
	p.appendBoth("append", list, func(e queue.Engine) ([]queue.Appended, error) { return e.Append(p.ctx, list) })
}

// appendBoth appends jobs to both engines and keeps the books.
func (p *pair) appendBoth(
	what string, list []queue.Job, do func(e queue.Engine) ([]queue.Appended, error),
) (answers [2][]queue.Appended) {
	var text []string
	for _, j := range list {
		text = append(
			text,
			fmt.Sprintf(
				"%s/%s cost %d %v %s limited %v until %s %s", j.Queue, j.ID, j.Cost, j.Costs, j.Overflow, j.Limited,
				micro(j.ExpiresAt), place(j),
			),
		)
	}
	p.both(what+" "+strings.Join(text, ", "), func(side int, e queue.Engine) string {
		out, err := do(e)
		answers[side] = out
		if err != nil && kind(err)[0] != 'f' { // an engine may return the only job's error
			return kind(err)
		}
		var b strings.Builder
		for _, a := range out {
			fmt.Fprintf(&b, "\n  %s %v %v at %d eta %s %v retry %v %+v ticket %v as of %s %s", a.ID, a.Outcome, a.State,
				a.Position, estimate(a.ETA.At), a.ETA.Exact, retryOf(&a), a.Bytes,
				a.Ticket != "", micro(a.At), ruledText(a.Rules))
			if a.Outcome == queue.Invalid {
				b.WriteString(" " + kind(a.Err))
			}
		}
		return b.String()
	})
	for i, a := range answers[0] {
		switch a.Outcome {
		case queue.Accepted:
			p.counts[list[i].Queue].entered++
		case queue.SetAside:
			p.counts[list[i].Queue].aside++
		}
	}
	return answers
}
