package machine

import (
	"fmt"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// Delete removes a queue, and returns the commit that the answer waits for. Errors: see queue.Specs.
func (m *Machine) Delete(
	now leaky.Instant, actor audit.Actor, name string, expect int64, force bool,
) (wait uint64, err error) {
	q := m.queues[name]
	switch {
	case q == nil:
		return 0, unknownQueue(name)
	case expect != queue.AnyRevision && expect != q.revision:
		return 0, fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, q.revision, expect)
	case m.children[name] > 0:
		return 0, fmt.Errorf("%w: %s has %d", queue.ErrHasChildren, name, m.children[name])
	case !force && q.size() > 0:
		return 0, fmt.Errorf("%w: %s has %d", queue.ErrNotEmpty, name, q.size())
	case !force && q.hasBacklog():
		return 0, fmt.Errorf("%w: %s has %d deferred", queue.ErrNotEmpty, name, q.onOverflow())
	}
	n := loggedBy(changekind.Deleted, actor, q.revision, m.wall(now))
	n.before, _ = queue.EncodeSpec(q.fullSpec()) // it was encoded before
	c := m.present
	c.logChange(logUpdate{subject: queueSubject(name), changes: append(q.pauseLapsed(now), n), gone: true})
	c.dropQueue(q.number)
	m.leaveBehind(q, now)
	q.live = false
	m.countRuleUses(q.name, q.spec.Rules, -1)
	m.rulesVersion++
	m.leaveGroup(q, now)
	m.arm(q, now) // takes it off the agenda
	m.countChild(name, -1)
	for s, n := range q.counts {
		m.counts[s] -= n
	}
	m.trackBacklog(q)
	delete(m.queues, name)
	m.queueNames.remove(name)
	c.deleted = append(c.deleted, q)
	m.deletedBy = c.Number
	m.discardQueue(q)
	return m.wait(), nil
}

// leaveBehind keeps what outlives a queue: for how long its dead jobs are kept, and paces that can still delay
// something.
func (m *Machine) leaveBehind(q *queueState, now leaky.Instant) {
	name := q.name
	if m.deadCountOf(name) > 0 || q.importing.mark != "" || q.counters.Died > 0 {
		retention := q.spec.Retention
		m.deadJobsOf(name).retention = &retention
		m.present.putRetention(name, retention)
	}
	if left := q.atRest(now); left.stillDelays(now) {
		m.leftPaces[name] = left
		m.present.putLeftPaces(name, &left)
	}
}
