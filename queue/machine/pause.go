package machine

import (
	"slices"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// pause is why nothing leaves a queue. A pause that is over stays until a Reserve, or a change of the queue, removes
// it.
type pause struct {
	by, note, reason string
	since, until     leaky.Instant // since is 0 without a pause, until is 0 without an end
}

// active reports whether there is a pause that is not over.
func (p *pause) active(wall leaky.Instant) bool { return p.since != 0 && !p.ended(wall) }

// ended reports whether the pause has an end that has come, by the wall clock.
func (p *pause) ended(wall leaky.Instant) bool { return p.until != 0 && p.until <= wall }

// info returns the pause for clients.
func (p *pause) info(wall leaky.Instant) queue.Pause {
	if !p.active(wall) {
		return queue.Pause{}
	}
	t := queue.Pause{By: p.by, Note: p.note, Reason: p.reason, Since: p.since.Time()}
	if p.until != 0 {
		t.Until = p.until.Time()
	}
	return t
}

// pauseOf is the inverse of info.
func pauseOf(p queue.Pause) pause {
	return pause{by: p.By, note: p.Note, reason: p.Reason, since: instantOf(p.Since), until: instantOf(p.Until)}
}

// activePauses returns the pauses that concern a queue: its own and its parent's.
func (q *queueState) activePauses() []*pause {
	if p := q.parent(); p != nil {
		return []*pause{&q.pause, &p.pause}
	}
	return []*pause{&q.pause}
}

func (q *queueState) paused(now leaky.Instant) bool {
	return slices.ContainsFunc(q.activePauses(), func(p *pause) bool { return p.active(q.env.wall(now)) })
}

// resumesAt returns from when on jobs may leave, considering pauses and the receiver's stop. known is false if a pause
// has no end.
func (q *queueState) resumesAt(now leaky.Instant) (at leaky.Instant, known bool) {
	at, known = max(now, q.receiver.stop), true
	for _, p := range q.activePauses() {
		if p.active(q.env.wall(now)) {
			at, known = max(at, q.env.engine(p.until)), known && p.until != 0
		}
	}
	return at, known
}

// Pause stops a queue's departures, and returns the commit that the answer waits for. Errors: queue.ErrUnknownQueue, an
// *invalid.Error.
func (m *Machine) Pause(now leaky.Instant, actor audit.Actor, name string, p queue.Pause) (wait uint64, err error) {
	p.Normalize()
	if err := p.Validate(); err != nil {
		return 0, err
	}
	q := m.queues[name]
	if q == nil {
		return 0, unknownQueue(name)
	}
	if err := p.ValidateAhead(m.wall(now).Time()); err != nil {
		return 0, err
	}
	to := pause{
		by: actor.Name, note: actor.Note, reason: p.Reason, since: now, until: instantOf(p.Until),
	}
	same := to
	if same.since = q.pause.since; q.pause.active(m.wall(now)) && same == q.pause {
		return m.lastWait(), nil
	}
	n := loggedBy(changekind.Paused, actor, q.revision, m.wall(now))
	n.Reason, n.Until = to.reason, p.Until
	return m.setPause(q, to, append(q.pauseLapsed(now), n), now), nil
}

// Resume lets departures go on, and returns the commit that the answer waits for. Errors: queue.ErrUnknownQueue.
func (m *Machine) Resume(now leaky.Instant, actor audit.Actor, name string) (wait uint64, err error) {
	q := m.queues[name]
	if q == nil {
		return 0, unknownQueue(name)
	}
	before := q.receiver
	q.receiver.resume(now)
	n := loggedBy(changekind.Resumed, actor, q.revision, m.wall(now))
	if before != q.receiver {
		n.Detail = changelog.StopLifted
	}
	switch {
	case q.pause.active(m.wall(now)):
		return m.setPause(q, pause{}, append(q.pauseLapsed(now), n), now), nil
	case before == q.receiver:
		return m.lastWait(), nil
	}
	return m.setPause(q, q.pause, []logged{n}, now), nil
}

func (m *Machine) setPause(q *queueState, to pause, notes []logged, now leaky.Instant) (wait uint64) {
	q.pause = to
	m.notePause(q, notes)
	m.conditionChanged(q, now)
	return m.wait()
}

// notePause stores a queue's pause, and what to log about it.
func (m *Machine) notePause(q *queueState, notes []logged) {
	m.current.logChange(logUpdate{subject: queueSubject(q.name), changes: notes, revision: q.revision})
	m.keepSpec(q, nil)
}

// endPauses ends pauses that are over: in a limited number of queues or, if pulled is set, in that queue and its
// parent. They are logged before the grant is answered.
func (m *Machine) endPauses(g *grant, pulled *queueState, now leaky.Instant) {
	if pulled != nil {
		m.endPauseIfOver(g, pulled, now)
		if p := pulled.parent(); p != nil && !p.runnable() && p.timerIndex >= 0 && p.timerAt <= now {
			m.endPauseIfOver(g, p, now)
			m.readyScheduled(p, becomeReadyMax, now)
			m.armTimer(p)
		}
		return
	}
	var seen []*queueState
	for len(seen) < queue.MaxVisits && m.timers.len() > 0 && m.timers.top().timerAt <= now {
		q := m.timers.pop()
		seen = append(seen, q)
		m.endPauseIfOver(g, q, now)
	}
	for _, q := range seen {
		m.timers.push(q)
	}
}

func (m *Machine) endPauseIfOver(g *grant, q *queueState, now leaky.Instant) {
	if !q.pause.ended(m.wall(now)) || m.Full != nil {
		return
	}
	over, notes := m.engine(q.pause.until), q.pauseLapsed(now)
	q.pause = pause{}
	m.notePause(q, notes)
	g.wait = m.wait()
	if q.isParent() { // The Reserve that ends it visits the queue itself, as if its jobs were due then.
		m.rearmGroup(q.group, over)
		m.wakeClaims(q.group, now)
	}
}
