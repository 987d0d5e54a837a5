package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simProducer appends jobs, and repeats a call of which it does not know the outcome.
type simProducer struct {
	*simulation
	jobs []*simJob
	once bool // it appends no others
}

func (p *simProducer) append() {
	if p.jobs == nil {
		if p.ending || p.once {
			return
		}
		for range p.IntN(8) + 1 {
			p.jobs = append(p.jobs, p.newJob())
		}
		// as the machine decides them
		slices.SortStableFunc(p.jobs, func(a, b *simJob) int { return a.of.number - b.of.number })
	}
	p.operations += len(p.jobs)
	c := &simAppend{of: p, jobs: p.jobs}
	jobs := make([]queue.Job, len(p.jobs))
	for i, j := range p.jobs {
		jobs[i] = j.Job
		c.open = append(c.open, i)
	}
	c.Appending = NewAppending(jobs, true)
	p.do(c)
}

// simAppend is one call of Append.
type simAppend struct {
	*Appending
	of      *simProducer
	jobs    []*simJob
	decided bool
	open    []int      // those that are to be decided
	took    []*simTake // from rules
}

func (c *simAppend) decide(now leaky.Instant) (uint64, error) {
	if c.decided {
		c.Again()
	}
	c.decided = true
	wait, done := c.of.store.Append(now, c.Appending)
	if !done {
		c.of.fail("%d jobs make a commit too large", len(c.jobs))
	}
	open := c.open
	c.open, c.took = nil, nil
	for _, i := range open {
		j, a := c.jobs[i], &c.Answers[i]
		if a.Rules != nil {
			c.took = append(c.took, c.of.ruled(j, a, now)...)
		}
		switch a.Outcome {
		case queue.Accepted:
			c.of.decisions++
			j.ordinal = c.of.decisions
			c.open = append(c.open, i)
		case queue.SetAside:
			c.of.decisions++
			j.asideAt = c.of.decisions
			c.open = append(c.open, i)
		}
	}
	return wait, nil
}

func (c *simAppend) holds(bool) {
	c.of.settleTakes(c.took, simHolds)
	for i, j := range c.jobs {
		c.of.appended(j, &c.Answers[i])
	}
}

func (c *simAppend) undone() { c.of.settleTakes(c.took, simLost) }

func (c *simAppend) answered(err error) {
	p := c.of
	if p.chance(100) {
		p.note("the reply to an append is lost")
		p.later(p.upTo(time.Second), p.append)
		return
	}
	if err != nil {
		c.Fail(err)
	}
	p.jobs = nil
	for i, j := range c.jobs {
		if p.traced {
			p.note("append %s: %v %v", j, c.Answers[i].Outcome, c.Answers[i].Err)
		}
		switch a := &c.Answers[i]; {
		case a.Outcome == queue.SetAside:
			p.putAside(j, a.Ticket, a.At, false)
		case a.Outcome == queue.Duplicate && a.State == queue.Deferred:
			p.putAside(j, a.Ticket, a.At, true)
		case a.Outcome == queue.Failed && j.of.overflow != nil && p.chance(2): // past the store, by a clock of its own
			p.putAside(j, "", (p.at + p.jumped).Time(), true)
		case a.Outcome == queue.Failed:
			p.jobs = append(p.jobs, j)
		}
	}
	p.later(p.upTo(500*time.Millisecond), p.append)
}
