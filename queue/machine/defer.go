package machine

import (
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// answerDeferred answers for a job that is deferred already, or was cancelled while it was, and returns the commit that
// the answer waits for.
func (m *Machine) answerDeferred(
	it *appendItem, q *queueState, number uint64, d *deferral, now leaky.Instant,
) (wait uint64) {
	if d.state == cancelledDeferral {
		it.answerDuplicate(d.fingerprint, queue.Cancelled)
		return m.lastWait()
	}
	wait = m.waitsForDeferral(d)
	it.answerDuplicate(d.fingerprint, queue.Deferred)
	if it.answer.Outcome != queue.Duplicate {
		return wait
	}
	if number <= q.overflow.progress.olderUpTo {
		if m.Full != nil {
			*it.answer = queue.Appended{Outcome: queue.Failed, ID: it.job.ID, Err: m.Full}
			return 0
		}
		number, wait = m.renewDeferral(q, strings.Clone(it.job.ID), number), m.wait()
	}
	it.answer.Ticket, it.answer.At = ticket{q.number, number}.text(), now.Time()
	return wait
}

// deferJob records a job as deferred.
func (m *Machine) deferJob(it *appendItem, q *queueState, b *ruleCharges, now leaky.Instant) {
	a, id := q.ownOverflow(), strings.Clone(it.job.ID)
	if n := a.records.find(id); n != 0 { // an earlier deferral that has lapsed
		m.dropLapsed(q, n)
	}
	*it.answer = queue.Appended{
		Outcome: queue.SetAside, ID: id, State: queue.Deferred, At: now.Time(), Rules: b.said(),
		Position: q.counts[queue.Waiting] + q.incoming.waiting + q.counts[queue.Deferred] + 1,
		ETA: queue.ETA{
			At: max(scheduledUntil(&it.job, m.wall(now)), m.wall(it.etaDeferred(q, now))).Time(),
		},
	}
	m.store.deferred++
	a.lastTicket++
	d := deferral{
		at: now, seq: m.store.deferred, fingerprint: it.fingerprint, cost: uint16(it.job.Cost), state: stillDeferred,
		size: uint32(len(it.record)), length: uint8(len(id)),
	}
	a.records.add(a.lastTicket, id, d)
	m.countDeferred(q, a.lastTicket, d.count())
	it.answer.Ticket = ticket{q.number, a.lastTicket}.text()
	m.chargeRules(b, now)
	m.touch(q)
	q.counters.SetAside++
	m.present.putDeferral(q, a.lastTicket, id, d)
	m.forgetLapsed(q, now, 2)
}

// etaDeferred is when the job is expected if it is set aside.
func (it *appendItem) etaDeferred(q *queueState, now leaky.Instant) leaky.Instant {
	waiting, a := q.counts[queue.Waiting]+q.incoming.waiting, q.overflow
	return q.etaDeferred(
		waiting, q.gap(q.turn), a.cost, q.groupLoadIncoming(), q.costBounds(it.job.Cost, false), now,
	)
}

// renewDeferral moves the record of a job that is published again to a new ticket, of the present generation.
// Otherwise it could be given up while the new copy is on its way.
func (m *Machine) renewDeferral(q *queueState, id string, old uint64) (number uint64) {
	a := q.ownOverflow()
	m.store.deferred++
	a.lastTicket++
	d := *a.records.get(old)
	m.present.dropDeferral(d.seq)
	d.seq = m.store.deferred
	m.removeDeferral(q, old)
	a.records.add(a.lastTicket, id, d)
	m.countDeferred(q, a.lastTicket, d.count())
	m.present.putDeferral(q, a.lastTicket, id, d)
	m.touch(q) // its record has the last ticket
	return a.lastTicket
}

// Withdraw forgets the deferrals of jobs that were not put on the overflow after all, and returns how long until room
// is expected, and the commit that the answer waits for. For an unknown queue it promises nothing.
func (m *Machine) Withdraw(now leaky.Instant, w []queue.Ticketed) (promises []time.Duration, wait uint64) {
	promises = make([]time.Duration, len(w))
	for i := range w {
		q := m.queues[w[i].Queue]
		if q == nil {
			continue
		}
		promises[i] = q.retryAfter(1, now)
		number, d := q.deferral(w[i].ID, now)
		if d == nil || d.state != stillDeferred || parseTicket(w[i].Ticket) != (ticket{q.number, number}) {
			wait = max(wait, m.lastWait())
			continue
		}
		m.touch(q)
		q.counters.SetAside--
		m.present.dropDeferral(d.seq)
		m.removeDeferral(q, number)
		wait = m.wait()
		m.deletedBy = wait
	}
	return promises, wait
}
