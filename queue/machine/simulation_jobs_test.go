package machine

import (
	"strconv"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simJob is what the world knows of a job: what its clients were told, and what is on disk in any case. It must hold
// that
//
//   - a job that is in stays until it has ended, and comes in once
//   - a job that has ended does not come back, and the same settlement gets the same answer
//   - the jobs of a lane and priority leave in the order in which they came in
//   - a lease belongs to one drainer until it is settled or runs out, whatever commits fail; a job has one lease at a
//     time, and so has an ordered lane
type simJob struct {
	queue.Job
	of        *simQueue
	lane      *simLane
	ordinal   int         // the order in which jobs of a lane leave: of the decision that let it in
	in        bool        // the store or the overflow has it: it must not be lost
	entered   bool        // the store has it or had it
	aside     bool        // it was deferred, or is about to be
	asideAt   int         // of the decision that deferred it
	end       queue.State // how it ended, as far as known; else 0
	ended     int64       // how many jobs of its queue had ended by then
	lost      bool        // it is unknown whether the store remembers it
	left      bool        // it was granted once, possibly by a failed commit
	lease     simLease
	estimated int64 // what it is charged, if it states no cost; 0 until it departs
	moved     int   // how often it was decided about or granted
}

// hasCosts reports whether a job is charged its own costs or, if it states none, always the same estimate.
func (j *simJob) hasCosts(costs map[string]int64) bool {
	if j.of.spec.Estimate == nil {
		return len(costs) == 0
	}
	stated, ok := j.Costs["tokens"]
	if !ok {
		if j.estimated == 0 {
			j.estimated = costs["tokens"]
		}
		stated = j.estimated
		if stated != simTokens && (stated <= 0 || stated > simMaxTokens*3/2*9/8) {
			return false
		}
	}
	return len(costs) == 1 && costs["tokens"] == stated
}

// newJob returns a new job.
func (s *simulation) newJob() *simJob {
	q := s.queues[s.IntN(len(s.queues))]
	for q.isParent {
		q = s.queues[s.IntN(len(s.queues))]
	}
	j := &simJob{of: q}
	j.Job = queue.Job{Queue: q.spec.Name, ID: "j" + strconv.Itoa(len(s.jobs)), Cost: 1}
	j.Payload = []byte(j.ID)
	if q.spec.Estimate != nil && s.IntN(2) == 0 {
		j.Costs = map[string]int64{"tokens": s.Int64N(simMaxTokens + 1)}
	}
	s.jobs = append(s.jobs, j)
	if s.IntN(10) == 0 {
		j.Cost = s.Int64N(simMaxCost) + 1
	}
	if q.lanes != nil {
		j.Lane = simLanes[s.IntN(len(simLanes))]
	}
	if n := len(s.jobs); n%3 != 0 { // two batches at a time
		j.Batch = simBatches[(n/200+n%2)%len(simBatches)]
	}
	switch s.IntN(20) {
	case 0:
		j.NotBefore = (s.at + s.jumped).Add(s.upTo(10_000_000_000)).Time()
	case 1:
		j.ExpiresAt = (s.at + s.jumped).Add(s.upTo(20_000_000_000)).Time()
	case 2:
		j.Priority = 1
	}
	return j
}

// job returns a job by its id.
func (s *simulation) job(id string) *simJob {
	n, err := strconv.Atoi(id[1:])
	if err != nil || n >= len(s.jobs) {
		s.fail("%s is no job's id", id)
		return &simJob{}
	}
	return s.jobs[n]
}

func (j *simJob) String() string { return j.Queue + "/" + j.ID }

// forgotten reports whether the store may have forgotten the end of a job.
func (s *simulation) forgotten(j *simJob) bool {
	return j.lost || j.end != 0 && s.endedOf(j.of)-j.ended >= j.of.spec.Retention.Max/2
}

// endedOf returns how many jobs of a queue have ended.
func (s *simulation) endedOf(q *simQueue) int64 {
	own := s.own(q)
	if own == nil {
		return 0
	}
	c := own.counters
	return c.Delivered + c.Died + c.Cancelled + c.TimedOut
}

// appended notes the outcome of an appended job, once that holds.
func (s *simulation) appended(j *simJob, a *queue.Appended) {
	known := j.in && !s.forgotten(j)
	switch a.Outcome {
	case queue.Accepted:
		if known && j.entered {
			s.fail("%s came in twice", j)
		}
		s.enters(j)
		if o := j.of.overflow; o != nil {
			o.overtakes(s, j)
		}
	case queue.SetAside:
		s.putsAside(j)
	case queue.Duplicate:
		if !j.in && !j.aside {
			s.fail("%s is a duplicate of nothing", j)
		}
		if j.end != 0 && !a.State.Ended() {
			s.fail("%s is %v, and had ended: %v", j, a.State, j.end)
		}
		s.sees(j, a.State)
	case queue.Full, queue.Lapsed, queue.LaneFull, queue.LimitReached, queue.OverflowFull:
		if known {
			s.fail("%s is in, and was refused: %v", j, a.Outcome)
		}
	case queue.Failed, queue.UnknownQueue:
	default:
		s.fail("%s: %v %v", j, a.Outcome, a.Err)
	}
}

// enters notes that a job has come in.
func (s *simulation) enters(j *simJob) {
	if !j.in || j.end != 0 {
		s.open = append(s.open, j)
	}
	j.in, j.entered, j.aside, j.end, j.lost, j.lane = true, true, false, 0, false, j.of.lane(j.Lane)
}

// replayed notes that a dead job is back.
func (s *simulation) replayed(j *simJob) {
	if j.end != queue.Dead && j.in && !j.lost && j.end != 0 {
		s.fail("%s is replayed, and ended otherwise: %v", j, j.end)
	}
	s.enters(j)
	j.left = true
	j.moved++
}

// deleted notes that a queue was deleted, with all its jobs.
func (s *simulation) deleted(q *simQueue) {
	for _, j := range s.jobs {
		if j.of == q {
			j.in, j.entered, j.aside, j.end, j.lease.over = false, false, false, 0, true
			j.moved++
		}
	}
	if q.overflow != nil {
		q.overflow.aside = nil
	}
	q.lanes, q.held = map[string]*simLane{}, 0
	q.ramp.gone()
}

// sees notes a job's state.
func (s *simulation) sees(j *simJob, state queue.State) {
	if state.Ended() && j.end == 0 {
		j.end, j.ended, j.lease.over = state, s.endedOf(j.of), true
	}
}

// checkKept looks for every job that is in, after the store was loaded.
func (s *simulation) checkKept() {
	now, open := s.store.clock.Last, s.open[:0]
	for _, q := range s.queues {
		q.held = s.size(q) // jobs that had left may be back
		ended := s.endedOf(q)
		q.blurred, q.endedAtCheck = ended-q.endedAtCheck >= q.spec.Retention.Max/2, ended
	}
	for _, j := range s.open {
		if !j.in {
			continue
		}
		state := s.stateOf(j)
		if j.end != 0 && state == queue.Deferred {
			state = queue.StateNone // a second copy is left on the overflow; the end must still be known
		}
		switch {
		case state == queue.StateNone && j.of.blurred:
			j.lost = true
		case state == queue.StateNone && !s.forgotten(j):
			s.fail("%s is in, and is gone", j)
		case j.end != 0 && state != queue.StateNone && !state.Ended():
			s.fail("%s is %v, and had ended: %v", j, state, j.end)
		case s.leased(j, now) && state != queue.Leased:
			s.fail("%s is %v, and its lease holds until %v", j, state, j.lease.deadline.Sub(noon))
		}
		if j.end == 0 && !j.lost { // a job that has ended is looked for once more
			open = append(open, j)
		}
		s.sees(j, state)
	}
	clear(s.open[len(open):])
	s.open = open
}

// stateOf returns the state of a job in the store or on the overflow.
func (s *simulation) stateOf(j *simJob) queue.State {
	if q := s.own(j.of); q != nil {
		if own := q.jobs[j.ID]; own != nil {
			return own.stateToBe()
		}
		if d := q.endedJobs.byID[j.ID]; d != nil {
			return d.state
		}
		number := q.overflow.records.find(j.ID)
		if number != 0 && q.overflow.records.get(number).state == cancelledDeferral {
			return queue.Cancelled
		}
	}
	if j.of.overflow != nil && j.of.overflow.has(j) {
		return queue.Deferred
	}
	return queue.StateNone
}

// simLease is a lease that a drainer was given.
type simLease struct {
	fence    fence
	deadline leaky.Instant
	process  *simStore
	queue    uint64 // the number of the job's
	over     bool   // it was settled
}

// simSettled is a settlement and its state.
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

// simDeparture is a departure: the number of the decision that granted it, and of the decision that let the job in.
type simDeparture struct{ granted, ordinal int }

// leaves notes a departure, and reports whether it is in order with the departures decided before and after it.
// Departures are noted when they hold, in another order than they were decided.
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

// leased reports whether an answered lease should be valid.
func (s *simulation) leased(j *simJob, now leaky.Instant) bool {
	q := s.own(j.of)
	return !j.lease.over && j.lease.process == s.store && now < j.lease.deadline && q != nil && q.number == j.lease.queue
}

// granted notes a departure, and when it was decided, once it can be answered. A drainer that repeats its request gets
// it again.
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

// settled notes the answer to a settlement, once it holds.
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
