package machine

import (
	"fmt"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// Cancel takes a job back, and returns where it is afterwards and the commit that the answer waits for. Errors:
// queue.ErrUnknownQueue, queue.ErrUnknownJob.
func (m *Machine) Cancel(
	now leaky.Instant, actor audit.Actor, name, id string,
) (s queue.State, wait uint64, err error) {
	q := m.queues[name]
	if q == nil {
		return queue.StateNone, m.unlessDurable(m.deletedBy), unknownQueue(name)
	}
	act := &jobAct{what: changekind.Cancelled, actor: actor}
	if j := q.jobs[id]; j != nil {
		if s := j.stateToBe(); !idle(s) {
			return s, m.waitsForJob(j), nil
		}
		m.present.logJobAct(act, q.name, q.revision, id, false, m.wall(now))
		if m.endIdle(j, queue.Cancelled, now) {
			m.wakeForQueue(q, now)
		}
		m.arm(q, now)
		m.announceRoom(q, now)
		return queue.Cancelled, m.wait(), nil
	}
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		return d.state, m.waitsForEnded(d), nil
	}
	number, d := q.deferral(id, now)
	switch {
	case d == nil:
		return queue.StateNone, m.lastWait(), fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, clip.Quote(id, 80), name)
	case d.state == cancelledDeferral:
		return queue.Cancelled, m.lastWait(), nil
	}
	// The job is dropped when it comes back.
	m.uncountDeferral(q, number, d)
	d.state = cancelledDeferral
	m.touch(q)
	q.counters.Cancelled++
	m.present.logJobAct(act, q.name, q.revision, id, false, m.wall(now))
	m.present.putDeferral(q, number, id, *d)
	m.announceRoom(q, now)
	return queue.Cancelled, m.wait(), nil
}

// endIdle ends a job that waits or is scheduled, or is about to, and reports whether that lets others of its lane or
// its queue go.
func (m *Machine) endIdle(j *job, s queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	switch j.state {
	case queue.StateNone:
		q.removeIncoming(j)
	case queue.Scheduled:
		q.scheduled.remove(j.lease)
	default:
		q.removeWaiting(j)
	}
	m.store.ended++
	d := &endedJob{
		id: j.id, key: m.store.ended, state: s, fingerprint: j.fingerprint, cost: j.cost, appended: j.appended, at: now,
	}
	c := m.touch(q)
	if ls := j.lease; ls != nil {
		d.attempts, d.reason = ls.attempts, ls.reason
		d.fence, d.verdict, d.result = ls.settled, ls.verdict, ls.result
		if ls.onFile {
			c.dropLease(j.seq)
		}
	}
	if s == queue.Cancelled {
		q.counters.Cancelled++
	} else {
		q.counters.TimedOut++
	}
	c.dropJob(j.seq)
	c.putEnded(q, d, nil)
	freed = m.leaveFlight(j, s, now)
	m.removeJob(j, now)
	m.rememberEnded(q, d, now)
	return freed
}
