package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// endedJob is what is remembered of an ended job.
type endedJob struct {
	id          string
	key         uint64        // its key among the ended jobs
	seq         uint64        // the key of its record, which only dead jobs keep; else 0
	fence       fence         // of the last settlement
	verdict     queue.Verdict // of the last settlement
	result      queue.State
	state       queue.State
	fingerprint [8]byte
	cost        uint16
	size        uint32 // size of a dead job's record
	attempts    int
	appended    leaky.Instant
	at          leaky.Instant
	reason      string
	// The last attempt of a delivered job; not on file.
	departed leaky.Instant
	drainer  string
}

func (d *endedJob) bytes() int64 { return jobsize.Of(d.id, int(d.size)) }

// endedJobs is what a queue remembers of its ended jobs. Their age and number are bounded, separately for dead and
// other jobs; the oldest are forgotten first. Dead jobs are also in Machine.deadJobs.
type endedJobs struct {
	byID   map[string]*endedJob
	others *ring[*endedJob] // all but dead jobs; nil if empty
}

// find returns what is remembered of an id, unless it is too old, or nil.
func (e *endedJobs) find(id string, r queue.Retention, now leaky.Instant) *endedJob {
	d := e.byID[id]
	if d == nil || tooOld(d, r, now) {
		return nil
	}
	return d
}

func (e *endedJobs) add(d *endedJob) {
	if e.byID == nil {
		e.byID = map[string]*endedJob{}
	}
	e.byID[d.id] = d
	if d.state != queue.Dead {
		if e.others == nil {
			e.others = &ring[*endedJob]{}
		}
		e.others.push(d)
	}
}

func (e *endedJobs) take(d *endedJob) {
	if e.byID[d.id] == d {
		delete(e.byID, d.id)
	}
}

// trim forgets up to limit jobs, other than dead ones, that are too old or too many, and returns them.
func (e *endedJobs) trim(r queue.Retention, now leaky.Instant, limit int) []*endedJob {
	var gone []*endedJob
	for len(gone) < limit && e.others.len() > 0 && (int64(e.others.len()) > r.Max || tooOld(e.others.top(), r, now)) {
		gone = append(gone, e.forget(1)...)
	}
	return gone
}

// forget forgets n jobs, other than dead ones, and returns them.
func (e *endedJobs) forget(n int64) (gone []*endedJob) {
	for ; n > 0; n-- {
		d := e.others.pop()
		if e.byID[d.id] == d { // the id may have been used again
			delete(e.byID, d.id)
		}
		gone = append(gone, d)
	}
	return gone
}

// byEndTime orders dead jobs by when they died, then by id.
func byEndTime(a, b *endedJob) bool {
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.id != b.id:
		return a.id < b.id
	}
	return a.key < b.key
}

func tooOld(d *endedJob, r queue.Retention, now leaky.Instant) bool {
	return now.Sub(d.at) >= r.For.D()
}

// newEndedJob returns what will be remembered of a leased or held job.
func (m *Machine) newEndedJob(j *job, s queue.State, now leaky.Instant) *endedJob {
	m.store.ended++
	d := &endedJob{
		id: j.id, key: m.store.ended, fence: j.lease.fence, result: s, state: s, fingerprint: j.fingerprint,
		cost: j.cost, appended: j.appended, at: now, reason: j.lease.reason,
	}
	if s == queue.Dead {
		d.seq, d.size = j.seq, j.size
	}
	return d
}

// endedState returns the state of a job that holds no place in q.
func (m *Machine) endedState(q *queueState, id string, now leaky.Instant) queue.State {
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		return d.state
	}
	switch _, d := q.deferral(id, now); {
	case d == nil:
	case d.state == cancelledDeferral:
		return queue.Cancelled
	default:
		return queue.Deferred
	}
	if m.deadJob(q.name, id, now) != nil { // of a deleted queue of that name
		return queue.Dead
	}
	return queue.StateNone
}

const trimMax = 100 // ended jobs of each kind that one call forgets for their age

// trimSome forgets what is too old in one queue and among one name's dead jobs. Calls go through all of them in turn.
func (m *Machine) trimSome(now leaky.Instant) {
	dead := m.nextWithDead(m.deadCursor)
	if m.deadCursor = ""; dead != nil {
		m.deadCursor = dead.name
		m.trimDead(dead, now, trimMax)
	}
	m.forgetExpiredTallies(now, expiredTalliesMax)
	m.openTakes.forget(now, trimMax)
	q := m.nextToTrim()
	if q == nil {
		return
	}
	m.trim(q, now, trimMax)
	m.forgetLapsed(q, now, trimMax)
	q.freeEmpty(now)
	m.forgetIdleLanes(now, trimMax)
}

// nextToTrim returns the queue after the one that was trimmed last, wrapping around, or nil.
func (m *Machine) nextToTrim() *queueState {
	for _, after := range []string{m.trimCursor, ""} {
		for name := range m.namesBehind(after) {
			m.trimCursor = name
			return m.queues[name]
		}
	}
	return nil
}

func (m *Machine) keepEnded(q *queueState, d *endedJob) {
	q.endedJobs.add(d)
	if d.state != queue.Dead {
		m.othersEnded++
	}
}

// forgetOthers forgets ended jobs that were taken out of a queue, none of them dead.
func (m *Machine) forgetOthers(gone []*endedJob) {
	m.forgotten = append(m.forgotten, gone...)
	m.othersEnded -= int64(len(gone))
}

// rememberEnded remembers an ended job, and forgets others as limits require.
func (m *Machine) rememberEnded(q *queueState, d *endedJob, now leaky.Instant) {
	m.keepEnded(q, d)
	if d.state == queue.Dead {
		m.addDead(q.name, d)
	}
	m.trim(q, now, 2)
	m.forgetForMemory(q)
}

// trim forgets up to limit ended jobs of q that are too old or too many.
func (m *Machine) trim(q *queueState, now leaky.Instant, limit int) {
	m.forgetOthers(q.endedJobs.trim(q.spec.Retention, now, limit))
	if dead := m.deadJobs[q.name]; dead != nil {
		m.trimDead(dead, now, limit)
	}
}
