package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simLease is a lease that was answered.
type simLease struct {
	fence    fence
	deadline leaky.Instant
	process  *simStore
	queue    uint64 // the number of the job's
	over     bool   // it was settled
}

// simSettled is how a settlement held.
type simSettled struct {
	state   queue.State // 0 if it has not yet
	process *simStore
	moved   int // as the job's
}

// simLane is what the world knows of the jobs of a lane.
type simLane struct {
	out    [2][]simDeparture // the latest that left for the first time, by priority
	holder *simJob           // whose lease is the last, where they keep their order
}

// simDeparture is that of a job: the number of the decision that granted it, and of that which let the job in.
type simDeparture struct{ granted, ordinal int }

// leaves notes a departure, and reports whether those decided before and behind it are of jobs that came in before and
// behind. Departures are told when they hold, in another order than they were decided in.
func (l *simLane) leaves(priority int, d simDeparture) (inOrder bool) {
	out := append(l.out[priority], d)
	i := len(out) - 1
	for ; i > 0 && out[i-1].granted > d.granted; i-- {
		out[i] = out[i-1]
	}
	out[i] = d
	inOrder = (i == 0 || out[i-1].ordinal < d.ordinal) && (i == len(out)-1 || out[i+1].ordinal > d.ordinal)
	if len(out) > 64 {
		out = out[:copy(out, out[32:])]
	}
	l.out[priority] = out
	return inOrder
}

// leased reports whether a lease that was answered should be valid.
func (s *simulation) leased(j *simJob, now leaky.Instant) bool {
	q := s.own(j.of)
	return !j.lease.over && j.lease.process == s.store && now < j.lease.deadline && q != nil && q.number == j.lease.queue
}

// granted is told of a departure, and when it was decided, once it can be answered; the store tells it again to a
// drainer that repeats its request.
func (s *simulation) granted(g *granted, decision int, now leaky.Instant) {
	j := s.job(g.job.id)
	if of, known := s.fences[g.fence]; known {
		if of != j {
			s.fail("%s and %s have one fence", j, of)
		}
		return
	}
	s.fences[g.fence] = j
	if s.traced {
		s.note("granted %s, at %v, fence %v", j, g.departs.Sub(noon), g.fence.number)
	}
	switch {
	case !j.entered:
		s.fail("%s leaves, and is not in", j)
	case j.end != 0:
		s.fail("%s leaves, and has ended: %v", j, j.end)
	case s.leased(j, now):
		s.fail("%s leaves while its lease holds until %v", j, j.lease.deadline.Sub(noon))
	}
	if !j.left && j.NotBefore.IsZero() {
		if !j.lane.leaves(j.Priority, simDeparture{decision, j.ordinal}) {
			s.fail("%s leaves behind one that came in later", j)
		}
	}
	if h := j.lane.holder; j.of.spec.Ordered {
		if h != nil && h != j && s.leased(h, now) {
			s.fail("%s leaves while %s of its lane is away", j, h)
		}
		j.lane.holder = j
	}
	j.moved++
	j.left, j.lease = true, simLease{
		fence: g.fence, deadline: g.departs.Add(simLeaseFor), process: s.store, queue: g.job.lane.queue.number,
	}
}

// settled is told the answer to a settlement, once it holds.
func (s *simulation) settled(c *simSettle) {
	j, state, first := c.job, c.answer.State, c.first
	again := first.state != 0
	switch {
	case c.answer.Err != nil:
		s.fail("%s is settled: %v", j, c.answer.Err)
	case c.answer.Stale && c.valid:
		s.fail("%s has lost its lease", j)
	case c.answer.Stale:
		if again && first.process == s.store && first.moved == j.moved && !s.forgotten(j) {
			s.fail("%s was settled as %v, and now the lease is stale", j, first.state)
		}
	case c.own && j.lease.process != s.store:
		s.fail("%s is settled by a lease of another process", j)
	case c.own:
		j.lease.over, c.first = true, simSettled{state, s.store, j.moved}
		s.sees(j, state)
	case !again:
		s.fail("%s is settled by a lease that is not its own: %v", j, state)
	case first.state != state:
		s.fail("%s was settled as %v, and now as %v", j, first.state, state)
	}
}
