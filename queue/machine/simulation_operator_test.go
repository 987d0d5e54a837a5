package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// simAct is a call made of functions, by an operator or by a client that defers jobs.
type simAct struct {
	of   *simulation
	what string
	do   func(now leaky.Instant) (wait uint64, err error)
	held func()      // once it holds; may be nil
	lost func()      // when it is undone
	told func(error) // the answer
	then func()      // behind that
}

func (c *simAct) decide(now leaky.Instant) (uint64, error) { return c.do(now) }

func (c *simAct) holds(bool) {
	if c.held != nil {
		c.held()
	}
}

func (c *simAct) undone() {
	if c.lost != nil {
		c.lost()
	}
}

func (c *simAct) answered(err error) {
	c.of.note("%s: %v", c.what, err)
	if c.told != nil {
		c.told(err)
	}
	if c.then != nil {
		c.then()
	}
}

// simActs are the operator's actions, each equally likely; next continues when it is answered.
var simActs = []func(s *simulation, q *simQueue, next func()){
	(*simulation).retune, (*simulation).pause, (*simulation).resume, (*simulation).resume, (*simulation).cancel,
	(*simulation).decideHeld, (*simulation).purge, (*simulation).replay, (*simulation).forget, (*simulation).remake,
	(*simulation).look, (*simulation).look, (*simulation).sweep, (*simulation).changeRule,
}

// operate performs an action, and continues when it is answered.
func (s *simulation) operate() {
	act := simActs[s.IntN(len(simActs))]
	if s.ending {
		act = (*simulation).decideHeld
	}
	act(s, s.queues[s.IntN(len(s.queues))], func() { s.later(s.upTo(300*time.Millisecond), s.operate) })
}

// retune gives a queue another rate and capacity.
func (s *simulation) retune(q *simQueue, next func()) {
	spec := q.spec
	spec.Rate, spec.Capacity = simRates[s.IntN(len(simRates))], s.Int64N(60)+1
	s.put(q, spec, next)
}

// put makes a queue, or gives it another spec.
func (s *simulation) put(q *simQueue, spec queue.Spec, next func()) {
	text, err := NewSpecText(spec)
	if err != nil {
		s.fail("%v", err)
		return
	}
	s.do(&simAct{
		of: s, what: "put " + spec.Name + " at " + spec.Rate.String(), then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			if spec.Rate != q.spec.Rate {
				s.newSegments(false)
			}
			_, wait, err = s.store.Put(now, audit.Actor{}, text, queue.AnyRevision)
			return wait, err
		},
		held: func() {
			if spec.Rate != q.spec.Rate {
				s.newSegments(false)
			}
			q.spec = spec
		},
	})
}

func (s *simulation) pause(q *simQueue, next func()) {
	s.do(&simAct{of: s, what: "pause " + q.spec.Name, then: next, do: func(now leaky.Instant) (uint64, error) {
		return s.store.Pause(now, audit.Actor{}, q.spec.Name, queue.Pause{Reason: "by the operator"})
	}})
}

func (s *simulation) resume(q *simQueue, next func()) {
	s.do(&simAct{of: s, what: "resume " + q.spec.Name, then: next, do: func(now leaky.Instant) (uint64, error) {
		return s.store.Resume(now, audit.Actor{}, q.spec.Name)
	}})
}

// remake deletes a queue and creates it again with the same spec and pace.
func (s *simulation) remake(q *simQueue, next func()) {
	if q.isParent || s.IntN(3) > 0 {
		next()
		return
	}
	s.do(&simAct{
		of: s, what: "delete " + q.spec.Name,
		do: func(now leaky.Instant) (wait uint64, err error) {
			return s.store.Delete(now, audit.Actor{}, q.spec.Name, queue.AnyRevision, true)
		},
		held: func() { s.deleted(q) },
		then: func() { s.make(q, next) },
	})
}

// make creates a queue, repeating the call until it exists.
func (s *simulation) make(q *simQueue, next func()) {
	s.put(q, q.spec, func() {
		if s.own(q) == nil {
			s.later(s.upTo(500*time.Millisecond), func() { s.make(q, next) })
		} else if next != nil {
			next()
		}
	})
}

// sweep frees what deleted queues left behind.
func (s *simulation) sweep(_ *simQueue, next func()) {
	s.do(&simAct{of: s, what: "sweep", then: next, do: func(now leaky.Instant) (uint64, error) {
		return s.store.Sweep(now), nil
	}})
}

// simProducer appends jobs, and repeats calls with unknown outcomes.
type simProducer struct {
	*simulation
	jobs []*simJob
	once bool // it appends no other jobs
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
	open    []int      // jobs still to be decided
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
		case a.Outcome == queue.Failed && j.of.overflow != nil && p.chance(2): // bypassing the store, by its own clock
			p.putAside(j, "", (p.at + p.jumped).Time(), true)
		case a.Outcome == queue.Failed:
			p.jobs = append(p.jobs, j)
		}
	}
	p.later(p.upTo(500*time.Millisecond), p.append)
}
