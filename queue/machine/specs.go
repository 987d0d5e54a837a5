package machine

import (
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/names"
)

// SpecText is a valid spec as it is stored, and its encoding.
type SpecText struct {
	spec queue.Spec
	text []byte
}

// NewSpecText checks a spec. Errors: an *invalid.Error.
func NewSpecText(spec queue.Spec) (SpecText, error) { return SpecTextBy(queue.ParseSpec, spec) }

// SpecTextBy is NewSpecText with another parser than queue.ParseSpec.
func SpecTextBy(parse func([]byte) (queue.Spec, error), spec queue.Spec) (s SpecText, err error) {
	spec.Normalize()
	if err = spec.Validate(); err == nil {
		s.spec, s.text, err = asStored(spec, queue.EncodeSpec, parse)
	}
	return s, err
}

// Put creates a queue or changes its spec, and returns the commit that the answer waits for. Errors: see queue.Specs.
func (m *Machine) Put(
	now leaky.Instant, actor audit.Actor, s SpecText, expect int64,
) (put queue.PutResult, wait uint64, err error) {
	return m.put(now, actor, s, expect, false)
}

// ErrOutdated says that what was read for a call has changed: read it again.
var ErrOutdated = errors.New("the data has changed since it was read")

// Rollback puts an earlier spec of a queue, from the history h that was looked up with p. Errors: see queue.Specs;
// ErrOutdated.
func (m *Machine) Rollback(
	now leaky.Instant, actor audit.Actor, p Past, h queue.History, revision, expect int64,
) (put queue.PutResult, wait uint64, err error) {
	switch q := m.queues[h.Queue]; {
	case q != nil && q.revision != h.Revision, q == nil && h.Revision != 0:
		return put, 0, ErrOutdated
	case q == nil && p.made != m.store.queue: // it may have been created and deleted again
		return put, 0, ErrOutdated
	}
	if expect != queue.AnyRevision && expect != h.Revision {
		return queue.PutResult{Revision: h.Revision}, 0, checkRevision(h.Queue, expect, h.Revision)
	}
	spec, err := h.Earlier(revision)
	if err != nil {
		return put, 0, err
	}
	s, err := NewSpecText(spec)
	if err != nil {
		return put, 0, err
	}
	return m.put(now, actor, s, h.Revision, true)
}

// put is Put; again says that the queue had the spec before.
func (m *Machine) put(
	now leaky.Instant, actor audit.Actor, s SpecText, expect int64, again bool,
) (put queue.PutResult, wait uint64, err error) {
	q := m.queues[s.spec.Name]
	if q != nil {
		put.Revision = q.revision
	}
	if err := checkRevision(s.spec.Name, expect, put.Revision); err != nil {
		return put, 0, err
	}
	switch {
	case q != nil && q.fullSpec().Equal(s.spec):
		return put, m.lastWait(), nil
	case q == nil && m.full() != nil:
		return put, 0, m.full()
	}
	if err := m.checkSpec(&s.spec, q == nil); err != nil {
		return queue.PutResult{}, 0, err
	}
	var next paces
	if q != nil {
		next, err = q.withSpec(&s.spec, &m.Environment, now)
	} else {
		next, err = m.firstPaces(&s.spec, now)
	}
	if err != nil {
		return queue.PutResult{}, 0, err
	}
	put.Created, put.Changed = q == nil, true
	n := loggedBy(changekind.Created, actor, 0, m.wall(now))
	n.Was, n.after = 0, s.text
	var notes []logged
	if q != nil {
		n.What, n.Was, notes = changekind.Changed, q.revision, q.pauseLapsed(now)
		n.before, _ = queue.EncodeSpec(q.fullSpec()) // it was encoded before
	}
	if again {
		n.What = changekind.RolledBack
	}
	m.store.revision = m.nextRevision(now)
	put.Revision, n.Revision = m.store.revision, m.store.revision
	if q == nil {
		q = m.create(s.spec, next, now)
	} else {
		m.change(q, s.spec, next, now)
	}
	q.revision = put.Revision
	m.current.logChange(logUpdate{
		subject: queueSubject(s.spec.Name), changes: append(notes, n), revision: q.revision, version: s.text,
		created: put.Created,
	})
	m.specChanged(q, s.text, now)
	return put, m.wait(), nil
}

// checkSpec returns why a valid spec does not fit the other queues and rules, or nil.
func (m *Machine) checkSpec(s *queue.Spec, created bool) error {
	if err := m.checkPullRelations(s); err != nil {
		return err
	}
	if err := m.checkRuleNames(s); err != nil {
		return err
	}
	if parent := names.Parent(s.Name); created && parent != "" && m.children[parent] >= queue.MaxChildren {
		return check.TooManyChildren(s.Name)
	}
	return nil
}

// firstPaces returns the paces of a new queue. They continue those of a deleted queue of that name, while they can
// still delay a departure. Existing children may have departures that its limits did not count.
func (m *Machine) firstPaces(s *queue.Spec, now leaky.Instant) (paces, error) {
	pacer := s.Pacer(queue.Horizon)
	left, made := m.leftPaces[s.Name]
	if !made || !left.stillDelays(now) {
		left = paces{pacer: pacer}
	}
	left.pacer, left.bucket = pacer, left.pacer.Change(left.bucket, pacer, now)
	p, err := left.withSpec(s, &m.Environment, now)
	if p.changed = 0; m.children[s.Name] > 0 {
		p.changed = now
	}
	return p, err
}

func (m *Machine) create(s queue.Spec, p paces, now leaky.Instant) *queueState {
	m.store.queue++
	q := m.newQueueState(m.store.queue, s)
	q.paces, q.live = p, true
	m.countChild(s.Name, 1)
	m.countRuleUses(s.Name, s.Rules, 1)
	m.queues[s.Name] = q
	m.queueNames.push(s.Name)
	delete(m.leftPaces, s.Name)
	if dead := m.deadJobs[s.Name]; dead != nil {
		dead.retention = nil
		if dead.dead.len() == 0 {
			delete(m.deadJobs, dead.name)
		}
	}
	m.current.dropLeftPaces(s.Name)
	m.current.dropRetention(s.Name)
	m.joinGroup(q, now)
	return q
}

func (m *Machine) change(q *queueState, s queue.Spec, p paces, now leaky.Instant) {
	m.countRuleUses(s.Name, s.Rules, 1)
	m.countRuleUses(q.name, q.spec.Rules, -1)
	lanesChanged := !sameLanes(q.spec, &s)
	if q.laneTurns != nil && lanesChanged {
		q.laneTurns.rulesChanged()
	}
	if q.spec.Pull != s.Pull {
		m.takeOffAgenda(q, now)
	}
	if q.group != nil {
		q.group.count(q, -1)
		defer q.group.count(q, 1) // a pull queue does not count
		q.group.reweigh(q, s.Share())
	}
	m.current.formerPaces = append(m.current.formerPaces, ofQueue[paces]{q, q.paces})
	m.setSpec(q, s)
	q.setLearned(q.learnedCosts())
	if lanesChanged {
		q.recountWeights()
	}
	q.paces = p
	if q.pause.ended(m.wall(now)) {
		q.pause = pause{}
	}
	if s.Circuit.Off && q.receiver.opened != 0 {
		q.receiver.closeCircuit(now)
	}
	q.receiver.retarget(now)
}

// specChanged stores a queue's new spec and paces, and recomputes what follows from them.
func (m *Machine) specChanged(q *queueState, text []byte, now leaky.Instant) {
	m.rulesVersion++
	m.noteCalendars(q)
	m.replaceCeilings(q)
	m.current.putAdapted(q.number, q.adapted)
	m.keepSpec(q, text)
	m.conditionChanged(q, now)
	m.announceRoom(q, now)
}

// keepSpec stores the spec, the revision and the pause of a queue; text is the encoded spec, or nil.
func (m *Machine) keepSpec(q *queueState, text []byte) {
	m.holdGrants(heldGrants{queue: q})
	m.touch(q).putSpec(q, specRecord{spec: q.fullSpec(), text: text, revision: q.revision, pause: q.pause})
}

// conditionChanged recomputes when a queue can depart, after its spec, its pause or its receiver's state changed.
func (m *Machine) conditionChanged(q *queueState, now leaky.Instant) {
	m.rearm(q, now)
	if q.isParent() {
		m.rearmGroup(q.group, now)
		m.wakeClaims(q.group, now)
	}
	m.wakeForQueue(q, now)
}

// asStored returns the encoding of a spec or rule, and what a restart will read from it, which is what memory keeps. It
// shares nothing with v, which the caller may change. It may share with other results of read, which nobody changes.
func asStored[T any](
	v T, write func(T) ([]byte, error), read func([]byte) (T, error),
) (back T, text []byte, err error) {
	if text, err = write(v); err == nil {
		back, err = read(text)
	}
	return back, text, err
}

// checkRevision returns ErrRevision unless a queue or rule is at the expected revision.
func checkRevision(name string, expect, current int64) error {
	if expect != queue.AnyRevision && expect != current {
		return fmt.Errorf("%w: %s is at revision %d, not %d", queue.ErrRevision, name, current, expect)
	}
	return nil
}

// Delete removes a queue, and returns the commit that the answer waits for. Errors: see queue.Specs.
func (m *Machine) Delete(
	now leaky.Instant, actor audit.Actor, name string, expect int64, force bool,
) (wait uint64, err error) {
	q := m.queues[name]
	switch {
	case q == nil:
		return 0, unknownQueue(name)
	case expect != queue.AnyRevision && expect != q.revision:
		return 0, checkRevision(name, expect, q.revision)
	case m.children[name] > 0:
		return 0, fmt.Errorf("%w: %s has %d", queue.ErrHasChildren, name, m.children[name])
	case !force && q.size() > 0:
		return 0, fmt.Errorf("%w: %s has %d", queue.ErrNotEmpty, name, q.size())
	case !force && q.hasBacklog():
		return 0, fmt.Errorf("%w: %s has %d deferred", queue.ErrNotEmpty, name, q.onOverflow())
	}
	n := loggedBy(changekind.Deleted, actor, q.revision, m.wall(now))
	n.before, _ = queue.EncodeSpec(q.fullSpec()) // it was encoded before
	c := m.current
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
	if q.batches != nil {
		for _, b := range q.batches.byLabel {
			c.dropBatch(b)
		}
	}
	m.trackBacklog(q)
	delete(m.queues, name)
	m.queueNames.remove(name)
	c.deleted = append(c.deleted, q)
	m.deletedBy = c.Number
	m.discardQueue(q)
	return m.wait(), nil
}

// leaveBehind keeps what outlives a queue: the retention of its dead jobs, and paces that can still delay a departure.
func (m *Machine) leaveBehind(q *queueState, now leaky.Instant) {
	name := q.name
	if m.deadCountOf(name) > 0 || q.importing.mark != "" || q.counters.Died > 0 {
		retention := q.spec.Retention
		m.deadJobsOf(name).retention = &retention
		m.current.putRetention(name, retention)
	}
	if left := q.atRest(now); left.stillDelays(now) {
		m.leftPaces[name] = left
		m.current.putLeftPaces(name, &left)
	}
}
