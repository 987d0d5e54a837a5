package machine

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// CheckKept loads another machine from the store, and returns how it differs from m, whose commits are all durable.
// Leases are not stored, and due jobs may be ready in only one of the two.
func (m *Machine) CheckKept(tx Transaction, now leaky.Instant) error {
	if !reflect.DeepEqual(noOverflow, overflowState{}) {
		return fmt.Errorf("what queues without an overflow share was changed to %+v", noOverflow)
	}
	l := New(m.epoch + 1)
	l.Environment.Ahead = m.Ahead
	if err := l.Load(context.Background(), tx, now); err != nil {
		return err
	}
	names, loaded := slices.Collect(m.namesBehind("")), slices.Collect(l.namesBehind(""))
	if !slices.Equal(names, loaded) || !slices.Equal(m.ruleNames, l.ruleNames) {
		return fmt.Errorf("%v and %v are loaded, not %v and %v", loaded, l.ruleNames, names, m.ruleNames)
	}
	if m.store.revision < l.store.revision || m.store.seq != l.store.seq || m.store.ended != l.store.ended {
		return fmt.Errorf("the store is loaded as %+v, not %+v", l.store, m.store)
	}
	for _, name := range m.ruleNames {
		if a, b := m.rules[name], l.rules[name]; a.revision != b.revision || a.tallies.number != b.tallies.number {
			return fmt.Errorf("rule %s is loaded at %d, not %d", name, b.revision, a.revision)
		}
	}
	for _, name := range names {
		if err := m.queues[name].checkKept(l.queues[name], now); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	return nil
}

func (q *queueState) checkKept(o *queueState, now leaky.Instant) error {
	switch {
	case q.number != o.number || q.revision != o.revision || !q.fullSpec().Equal(o.fullSpec()) || q.pause != o.pause:
		return fmt.Errorf("is loaded with %+v, not %+v", o.fullSpec(), q.fullSpec())
	case q.counters != o.counters:
		return fmt.Errorf("has counted %+v, not %+v", o.counters, q.counters)
	case q.turn != o.turn || q.groupMaxCost() != o.groupMaxCost() || q.bytes != o.bytes || q.plain && !o.plain:
		return fmt.Errorf("has the turn %d, not %d, and %d bytes, not %d", o.turn, q.turn, o.bytes, q.bytes)
	case q.overflow.progress != o.overflow.progress || q.overflow.lastTicket != o.overflow.lastTicket:
		return fmt.Errorf("is at %+v of its overflow, not %+v", o.overflow.progress, q.overflow.progress)
	case len(q.failures) != len(o.failures) || *q.importing != *o.importing:
		return fmt.Errorf("has %d failures, not %d", len(o.failures), len(q.failures))
	case !slices.EqualFunc(q.failures, o.failures, func(a, b queue.LastError) bool {
		return a.ID == b.ID && a.At.Equal(b.At) && (a.Reason == b.Reason || !utf8.ValidString(a.Reason))
	}):
		return fmt.Errorf("has the failures %v, not %v", o.failures, q.failures)
	case len(q.jobs) != len(o.jobs):
		return fmt.Errorf("has %d jobs, not %d", len(o.jobs), len(q.jobs))
	case q.adapted != nil && q.adapted.Adapted != o.adapted.Adapted:
		return fmt.Errorf("has the rate %v, not %v", o.adapted.Adapted, q.adapted.Adapted)
	}
	for id, j := range q.jobs {
		if p := o.jobs[id]; p == nil {
			return fmt.Errorf("job %s is not kept", id)
		} else if err := j.checkKept(p, now); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	for id, d := range q.endedJobs.byID {
		if e := o.endedJobs.byID[id]; e == nil && !tooOld(d, q.spec.Retention, now) &&
			int64(len(q.endedJobs.byID)) <= q.spec.Retention.Max {
			return fmt.Errorf("it is not kept that %s has ended", id)
		} else if e != nil && (e.state != d.state || e.fence != d.fence || e.result != d.result) {
			return fmt.Errorf("%s has ended as %+v, not %+v", id, e, d)
		}
	}
	return nil
}

func (j *job) checkKept(p *job, now leaky.Instant) error {
	if j.seq != p.seq || j.turn != p.turn || j.appended != p.appended || j.fingerprint != p.fingerprint ||
		j.size != p.size || j.cost != p.cost || j.marks != p.marks || j.lane.key != p.lane.key ||
		j.lane.queue.expiries[j.seq] != p.lane.queue.expiries[p.seq] {
		return fmt.Errorf("is loaded as %+v, not %+v", p, j)
	}
	want := j.state
	switch ls := j.lease; {
	case want == queue.Leased && !ls.persisted:
		want = queue.Waiting
	case want == queue.Scheduled && ls.due <= now:
		want = p.state
	}
	if p.state != want && p.state != queue.Scheduled {
		return fmt.Errorf("is %v, not %v", p.state, want)
	}
	if a, b := j.lease, p.lease; a != nil && a.attempts > 0 &&
		(b == nil || a.attempts != b.attempts || a.reason != b.reason || !bytes.Equal(a.timeline, b.timeline)) {
		return fmt.Errorf("has the attempts %+v, not %+v", b, a)
	}
	return nil
}

// Of returns the spec for another queue that has the same settings, without the work of checking it again.
func (s SpecText) Of(name, target string) SpecText {
	s.spec.Name, s.spec.Deliver = name, []byte(target)
	return s
}

// Visits returns how many queues the request visited.
func (g *Granting) Visits() int { return g.grant.visits }
