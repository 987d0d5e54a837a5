package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	simSlack = 5 * time.Millisecond
	simLease = 2 * time.Second
)

var (
	simRates = []leaky.Rate{
		leaky.PerSecond(14), leaky.PerSecond(100), leaky.PerSecond(3), leaky.PerSecond(1000), leaky.Unlimited,
	}
	// simQueues are one alone with a burst, one with lanes, one whose lanes keep their order, and a group.
	simQueues = []func(*queue.Spec){
		func(s *queue.Spec) { s.Name, s.Rate, s.Burst = "alone", leaky.PerSecond(100), 3 },
		func(s *queue.Spec) { s.Name, s.Rate = "lanes", leaky.PerSecond(14) },
		func(s *queue.Spec) { s.Name, s.Rate, s.Ordered = "ordered", leaky.PerSecond(50), true },
		func(s *queue.Spec) { s.Name, s.Rate = "group", leaky.PerSecond(30) },
		func(s *queue.Spec) { s.Name, s.Rate = "group.a", leaky.PerSecond(20) },
		func(s *queue.Spec) { s.Name, s.Rate = "group.b", leaky.Unlimited },
	}
)

// checks is what clients of the store know, and what must hold for all that they see:
//
//   - a queue never holds more than its capacity, nor more than it held before, if that was lowered
//   - the jobs of a lane and priority leave in the order in which they came in
//   - the window law holds for what starts
//   - a job that was accepted is there until it has ended, also after the process was killed
//   - a job whose delivery was settled never leaves again
//   - no two drainers have one lease
//   - what counters say came in and ended is what is there
type checks struct {
	of      *simulation
	queues  []simQueue
	byName  map[string]*simQueue
	jobs    map[string]*simJob // that may be in the store, by queue and id
	ids     int
	ending  bool
	fences  map[queue.Fence]string
	before  []int64 // sizes before an append
	lastOut map[string]int
}

type simQueue struct {
	spec    queue.Spec
	starts  []law.Start
	since   leaky.Instant // starts before are of another segment
	maxCost int64
}

type simJob struct {
	queue.Job
	key      string
	sure     bool // that it was accepted
	ordinal  int  // by which the jobs of a lane leave; 0 if nobody knows
	out      bool // was granted
	finished bool // its end was told
}

func newChecks(s *simulation) checks {
	c := checks{
		of: s, jobs: map[string]*simJob{}, byName: map[string]*simQueue{}, fences: map[queue.Fence]string{},
		lastOut: map[string]int{}, queues: make([]simQueue, len(simQueues)), before: make([]int64, len(simQueues)),
	}
	for i, set := range simQueues {
		q := &c.queues[i]
		q.spec = queue.Spec{Capacity: s.Int64N(60) + 1, Slack: queue.Duration(simSlack), Lease: queue.Duration(simLease)}
		q.spec.Retry.MaxAttempts = s.IntN(4) + 1
		set(&q.spec)
		q.spec.Normalize()
		q.maxCost = 1
		c.byName[q.spec.Name] = q
	}
	return c
}

func jobKey(queue, id string) string { return queue + "/" + id }

// newJob is one that no queue has had.
func (c *checks) newJob() queue.Job {
	s := c.of
	c.ids++
	j := queue.Job{
		Queue: simNames[s.IntN(len(simNames))], ID: fmt.Sprint("j", c.ids), Payload: []byte("{}"), Cost: 1,
	}
	if s.IntN(10) == 0 {
		j.Cost = s.Int64N(3) + 1
	}
	if j.Queue == "lanes" || j.Queue == "ordered" {
		j.Lane = fmt.Sprint("l", s.IntN(5))
	}
	switch s.IntN(20) {
	case 0:
		j.NotBefore = (s.at + s.jumped).Add(s.upTo(10 * time.Second)).Time()
	case 1:
		j.ExpiresAt = (s.at + s.jumped).Add(s.upTo(20 * time.Second)).Time()
	case 2:
		j.Priority = 1
	}
	return j
}

var simNames = []string{"alone", "lanes", "ordered", "group.a", "group.b"} // that jobs come into

func (c *checks) beforeAppend() {
	for i := range c.queues {
		c.before[i] = c.of.size(c.queues[i].spec.Name)
	}
}

func (s *simulation) size(name string) int64 { return int64(len(s.Machine.queues[name].jobs)) }

func (c *checks) checkCapacity() {
	for i := range c.queues {
		q := c.of.Machine.queues[c.queues[i].spec.Name]
		if n := int64(len(q.jobs)); n > max(q.spec.Capacity, c.before[i]) {
			c.of.fail("%s holds %d of %d", q.spec.Name, n, q.spec.Capacity)
		}
	}
}

// uncertain notes jobs of which nobody knows whether they are in.
func (c *checks) uncertain(jobs []queue.Job) {
	for i := range jobs {
		k := jobKey(jobs[i].Queue, jobs[i].ID)
		if c.jobs[k] == nil {
			c.jobs[k] = &simJob{Job: jobs[i], key: k}
		}
	}
}

// appended notes an answer, and reports whether to append the job again.
func (c *checks) appended(j *queue.Job, a *queue.Appended) (again bool) {
	k := jobKey(j.Queue, j.ID)
	known := c.jobs[k]
	switch a.Outcome {
	case queue.Accepted:
		if known != nil && (known.sure || known.out) {
			c.of.fail("%s was accepted twice", k)
		}
		c.ids++
		c.jobs[k] = &simJob{Job: *j, key: k, sure: true, ordinal: c.ids}
	case queue.Duplicate:
		if known == nil {
			c.of.fail("%s is a duplicate of nothing", k)
			return false
		}
		known.sure = true
	case queue.Full, queue.Lapsed, queue.LaneFull:
		if known != nil && (known.sure || known.out) {
			c.of.fail("%s was accepted, and is now refused: %v", k, a.Outcome)
		}
		delete(c.jobs, k)
	case queue.Failed:
		return true
	default:
		c.of.fail("%s: %v %v", k, a.Outcome, a.Err)
	}
	return false
}

// granted notes that the engine has granted a job's departure, which it tells again to a drainer that repeats its
// request.
func (c *checks) granted(r *queue.Reservation) {
	k := jobKey(r.Queue, r.ID)
	if c.fences[r.Fence] == k {
		return
	}
	c.of.note("granted %s, in %v", k, r.In)
	j := c.jobs[k]
	if j == nil {
		c.of.fail("%s leaves, and was never appended or has ended", k)
		return
	}
	if j.finished {
		c.of.fail("%s leaves once more after its end was told", k)
	}
	if of, known := c.fences[r.Fence]; known {
		c.of.fail("%s and %s have one fence", k, of)
	}
	c.fences[r.Fence] = k
	if !j.out && j.ordinal != 0 && j.NotBefore.IsZero() {
		lane := fmt.Sprint(j.Queue, "/", j.Lane, "/", j.Priority)
		if c.lastOut[lane] > j.ordinal {
			c.of.fail("%s leaves after one that came later", k)
		}
		c.lastOut[lane] = j.ordinal
	}
	j.out = true
}

// started notes that a drainer began with a job.
func (c *checks) started(r *queue.Reservation) {
	start := law.Start{At: time.Duration(c.of.at) * time.Microsecond, Cost: r.Cost}
	for _, name := range []string{r.Queue, queue.Parent(r.Queue)} {
		if q := c.byName[name]; q != nil {
			q.maxCost = max(q.maxCost, r.Cost)
			if c.of.at >= q.since {
				q.starts = append(q.starts, start)
			}
		}
	}
}

func (c *checks) settled(s *queue.Settlement, a *queue.Settled) {
	if !a.Stale && a.State.Ended() {
		c.ended(s.Queue, s.ID)
	}
}

// ended notes that somebody was told of a job's end.
func (c *checks) ended(name, id string) {
	if j := c.jobs[jobKey(name, id)]; j != nil {
		j.finished = true
	}
}

func (c *checks) cancelled(name, id string, state queue.State, err error) {
	if err == nil && state == queue.Cancelled {
		c.ended(name, id)
	}
}

// some is a job that may wait in a queue.
func (c *checks) some(name string) string {
	q := c.of.Machine.queues[name]
	if q.defaultLane == nil || q.defaultLane.waiting.len() == 0 {
		return ""
	}
	return q.defaultLane.waiting.front().id
}

// decideHeld decides about held jobs.
func (s *simulation) decideHeld() {
	for i := range s.queues {
		name := s.queues[i].spec.Name
		for ls := range s.Machine.queues[name].held.from(func(*lease) bool { return true }) {
			id, v := ls.job.id, []queue.Verdict{queue.Deliver, queue.Bury, queue.Release}[s.IntN(3)]
			states, err := s.Decide(s.ctx, name, []string{id}, v, "by the operator")
			s.note("decide that %s/%s is %v: %v %v", name, id, v, states, err)
			if err == nil && states[0].Ended() {
				s.ended(name, id)
			}
			break // the list has changed
		}
	}
}

// changed notes that a queue has another rate.
func (c *checks) changed(q *simQueue, spec queue.Spec, sure bool) {
	c.newSegments()
	if sure {
		q.spec = spec
	}
}

// newSegments judges what started so far. The law says other things of a window in which a rate changed or the clock
// jumped: a new trace begins when all departures of before have passed.
func (c *checks) newSegments() {
	c.judge()
	for i := range c.queues {
		c.queues[i].starts, c.queues[i].since = c.queues[i].starts[:0], c.of.at.Add(queue.Horizon+simSlack)
	}
}

// judge holds what started against the window law.
func (c *checks) judge() {
	for i := range c.queues {
		q := &c.queues[i]
		l := law.Law{Rate: q.spec.Rate, Burst: q.spec.Burst, MaxCost: q.maxCost, Slack: simSlack}
		if v := l.Judge(q.starts); !v.Held {
			c.of.fail("%s at %v: %d started in %v, %d may", q.spec.Name, q.spec.Rate, v.Worst.Starts, v.Worst.Width,
				v.Worst.Allowed)
		}
	}
}

// afterRestart looks for every job that was accepted.
func (c *checks) afterRestart() {
	s := c.of
	for i := range c.queues {
		q := &c.queues[i]
		if now := s.Machine.queues[q.spec.Name]; now == nil {
			s.fail("%s is gone", q.spec.Name)
		} else if now.spec.Rate != q.spec.Rate {
			c.newSegments()
			q.spec = now.fullSpec()
		} else {
			q.spec = now.fullSpec()
		}
	}
	for k, j := range c.jobs {
		if j.sure && s.stateOf(j) == queue.StateNone && !j.finished {
			s.fail("%s was accepted, and is gone", k)
		}
	}
	c.checkCounts()
	c.forget()
}

// forget drops what has ended.
func (c *checks) forget() {
	if len(c.jobs) < 2000 {
		return
	}
	for k, j := range c.jobs {
		if j.finished {
			delete(c.jobs, k)
		}
	}
	clear(c.fences)
}

// stateOf is what the engine has of a job.
func (s *simulation) stateOf(j *simJob) queue.State {
	q := s.Machine.queues[j.Queue]
	if held := q.jobs[j.ID]; held != nil {
		return held.state
	}
	if d := q.endedJobs.byID[j.ID]; d != nil {
		return d.state
	}
	return queue.StateNone
}

// checkCounts holds the counters of each queue against what it holds.
func (c *checks) checkCounts() {
	for i := range c.queues {
		info, err := c.of.Get(c.of.ctx, c.queues[i].spec.Name)
		if err != nil {
			continue // the store is broken until it is opened again
		}
		if in := info.Balance(); in != info.Size()+info.Deferred {
			c.of.fail("%s has %d jobs, and by its counters %d: %+v", info.Spec.Name, info.Size(), in, info.Counters)
		}
	}
}

// unfinished reports whether a queue holds a job.
func (c *checks) unfinished() bool {
	return slices.ContainsFunc(c.queues, func(q simQueue) bool { return c.of.size(q.spec.Name) > 0 })
}

func (c *checks) describeQueues() (text string) {
	for i := range c.queues {
		if info, err := c.of.Get(c.of.ctx, c.queues[i].spec.Name); err == nil && info.Size() > 0 {
			text += fmt.Sprintf("%s: %d waiting, %d scheduled, %d leased, %d held; ", info.Spec.Name, info.Waiting,
				info.Scheduled, info.Leased, info.Held)
		}
	}
	return text
}
