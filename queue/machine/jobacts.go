package machine

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/check"
)

// jobAct is what a call does to jobs, for the logs.
type jobAct struct {
	what           changekind.Kind
	actor          audit.Actor
	detail, reason string
}

// logJobAct logs an act on one more job; id is empty if the caller did not name the job.
func (c *Commit) logJobAct(act *jobAct, name string, revision int64, id string, gone bool, at leaky.Instant) {
	l := loggedBy(act.what, act.actor, revision, at)
	l.Jobs, l.Detail, l.Reason = 1, act.detail, act.reason
	if id != "" {
		l.IDs = []string{id}
	}
	of := queueSubject(name)
	c.auditJobAct(act, of, &l)
	for i := len(c.logUpdates) - 1; i >= 0; i-- {
		u := &c.logUpdates[i]
		if u.subject != of {
			continue
		}
		if u.gone == gone && len(u.changes) > 0 && u.changes[len(u.changes)-1].Continue(&l.Change) {
			return
		}
		break
	}
	c.logUpdates = append(c.logUpdates, logUpdate{subject: of, changes: []logged{l}, gone: gone})
}

// auditJobAct adds one more job to the audit entry of its call. The audit log has one entry per call.
func (c *Commit) auditJobAct(act *jobAct, of subject, l *logged) {
	at, found := c.auditedActs[act]
	if !found {
		c.auditedActs[act] = len(c.audited)
		c.audited = append(c.audited, l.audited(of))
		return
	}
	e := &c.audited[at].entry
	e.Jobs += l.Jobs
	if len(e.IDs) < queue.MaxChangeIDs {
		e.IDs = append(e.IDs, l.IDs...)
	}
}

// Cancel cancels a job, and returns its state afterwards and the commit that the answer waits for. Errors:
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
		m.current.logJobAct(act, q.name, q.revision, id, false, m.wall(now))
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
	b := q.batchOfDeferral(number)
	m.uncountDeferral(q, number, d)
	if d.state = cancelledDeferral; b != nil {
		delete(q.batches.ofDeferral, number)
		m.endInBatch(b, id, queue.Cancelled, now)
	}
	m.touch(q)
	q.counters.Cancelled++
	m.current.logJobAct(act, q.name, q.revision, id, false, m.wall(now))
	m.current.putDeferral(q, number, id, *d, "")
	m.announceRoom(q, now)
	return queue.Cancelled, m.wait(), nil
}

// endIdle ends a waiting, scheduled or arriving job, and reports whether that lets other jobs of its lane or queue
// depart.
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
	m.removeJob(j, s, now)
	m.rememberEnded(q, d, now)
	return freed
}

// purgeCall is one call of Purge.
type purgeCall struct {
	queue.PurgeRequest
	cursor *queue.Cursor
}

// Purge cancels a page of waiting or scheduled jobs, and returns the commit that the answer waits for. Errors:
// queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Purge(
	now leaky.Instant, actor audit.Actor, r queue.PurgeRequest,
) (out queue.Purged, wait uint64, err error) {
	q, err := m.liveQueue(r.Queue)
	if err != nil {
		return out, 0, err
	}
	p := &purgeCall{PurgeRequest: r}
	if err := p.Validate(); err != nil {
		return out, 0, err
	}
	if p.cursor, err = p.Cursor(); err != nil {
		return out, 0, err
	}
	until := q.turn
	if p.cursor != nil {
		until = p.cursor.Until
	}
	var jobs []*job
	var next *queue.Cursor
	if p.State == queue.Waiting {
		jobs, next, err = p.waiting(q, until)
	} else {
		jobs, next = p.scheduled(q, until)
	}
	if err != nil {
		return out, 0, err
	}
	if len(jobs) > 0 {
		m.purge(q, jobs, &jobAct{what: changekind.Purged, actor: actor, detail: r.Detail()}, now)
		wait = m.wait()
	}
	out.Jobs = int64(len(jobs))
	if next != nil {
		next.Until = until
		out.Next = p.Next(*next)
	}
	return out, max(wait, m.lastWait()), nil
}

func (m *Machine) purge(q *queueState, jobs []*job, act *jobAct, now leaky.Instant) {
	freed := false
	for _, j := range jobs {
		m.current.logJobAct(act, q.name, q.revision, "", false, m.wall(now))
		freed = m.endIdle(j, queue.Cancelled, now) || freed
	}
	if m.arm(q, now); freed {
		m.wakeForQueue(q, now)
	}
	m.announceRoom(q, now)
}

// waiting chooses the first waiting jobs and where the next call continues: in the same lane, whose first jobs are gone
// by then.
func (p *purgeCall) waiting(q *queueState, until int64) (jobs []*job, next *queue.Cursor, err error) {
	ln, _, err := q.resumeAtLane(p.cursor, p.Lane)
	for looked := 0; ln != nil; looked++ {
		if looked == lanesPerPage || len(jobs) == p.Limit {
			return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
		}
		for j := range ln.waiting.before(until) {
			if jobs = append(jobs, j); len(jobs) == p.Limit {
				return jobs, &queue.Cursor{Lane: string(ln.digest[:])}, nil
			}
		}
		if p.Lane != nil {
			return jobs, nil, nil
		}
		ln = q.laneAfter(ln.digest)
	}
	return jobs, nil, err
}

func (p *purgeCall) scheduled(q *queueState, until int64) (jobs []*job, next *queue.Cursor) {
	c, looked := p.cursor, 0
	for ls := range q.scheduled.from(dueAfter(c)) {
		if ls.job.turnBase() < until {
			jobs = append(jobs, ls.job)
		}
		if looked++; looked == p.Limit {
			return jobs, &queue.Cursor{At: int64(ls.due), ID: ls.job.id}
		}
	}
	return jobs, nil
}

// Decide settles held jobs, and returns the state of each afterwards and the commit that the answer waits for. Errors:
// queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Decide(
	now leaky.Instant, actor audit.Actor, name string, ids []string, v queue.Verdict, reason string,
) (states []queue.State, wait uint64, err error) {
	q := m.queues[name]
	if q == nil {
		return nil, 0, unknownQueue(name)
	}
	if err := check.IDs(ids); err != nil {
		return nil, 0, err
	}
	if err := check.Decision(ids, v, reason); err != nil {
		return nil, 0, err
	}
	act := &jobAct{
		what: changekind.Decided, actor: actor, detail: v.Decides().String(), reason: strings.Clone(reason),
	}
	states = make([]queue.State, len(ids))
	for i, id := range ids {
		j := q.jobs[id]
		if j == nil {
			states[i] = m.endedState(q, id, now)
			wait = max(wait, m.lastWait())
			continue
		}
		if states[i] = j.stateToBe(); j.state == queue.Held {
			states[i] = m.decideHeld(j, v, act, now)
		}
		wait = max(wait, m.waitsForJob(j))
	}
	return states, wait, nil
}

// decideHeld carries out a decision about a held job, and returns its state.
func (m *Machine) decideHeld(j *job, v queue.Verdict, act *jobAct, now leaky.Instant) queue.State {
	q, ls, c := j.lane.queue, j.lease, m.touch(j.lane.queue)
	c.logJobAct(act, q.name, q.revision, j.id, false, m.wall(now))
	q.held.remove(ls)
	if ls.commit = c.Number; v == queue.Release {
		ls.due, ls.onFile = 0, true
		c.putLease(j.seq, queue.Waiting, ls)
		m.putWaiting(j, now)
		m.wakeForExpiry(j, now)
		m.armAndWake(q, now)
		return queue.Waiting
	}
	state, past := queue.Delivered, []byte(nil)
	if v == queue.Bury {
		state, past = queue.Dead, ls.timeline
	}
	d := m.newEndedJob(j, state, now)
	d.attempts, d.fence, d.verdict, d.result = ls.attempts, ls.settled, ls.verdict, ls.result
	if act.reason != "" {
		d.reason = act.reason
	}
	if state == queue.Dead {
		q.counters.Died++
	} else {
		q.counters.Delivered++
		c.dropJob(j.seq)
	}
	c.dropLease(j.seq)
	c.putEnded(q, d, past)
	m.leaveFlight(j, state, now)
	m.removeJob(j, state, now)
	m.rememberEnded(q, d, now)
	m.announceRoom(q, now)
	return state
}
