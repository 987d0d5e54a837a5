package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// overflowState is what a queue knows of its jobs on the overflow. Their number is counts[queue.Deferred].
type overflowState struct {
	records         deferrals
	cost            int64       // of the deferred jobs
	bytes           int64       // that they take
	olderGeneration recordCount // those of the older generation
	lastTicket      uint64      // the number of the latest deferral
	readmitted      int64       // jobs that hold a place and came back
	progress        overflowProgress
	// readmittedBytes is what those take; headNeeds what the first job on the overflow takes, if a Readmit found
	// that it does not fit.
	readmittedBytes, headNeeds int64
	holder                     string // who alone may readmit, until holderUntil
	holderUntil                leaky.Instant
	announcedAt                leaky.Instant // when room was last announced; 0 if a Readmit came since
}

// noOverflow is that of queues that never had a job there, which most have not. It is only read.
var noOverflow overflowState

// ownOverflow returns the queue's overflowState, to be changed.
func (q *queueState) ownOverflow() *overflowState {
	if q.overflow == &noOverflow {
		q.overflow = &overflowState{}
	}
	return q.overflow
}

// overflowProgress is how far a queue's overflow has been taken back.
type overflowProgress struct {
	overflow        string // which overflow the order belongs to
	order           int64
	behind          int64
	announced       leaky.Instant // when a job there was last announced; 0 is never
	givenUpTo       uint64        // deferrals up to this ticket no longer count
	olderUpTo       uint64        // deferrals up to this ticket are of the older generation
	generationSince leaky.Instant // when the present generation began
}

// recordCount is a number of deferrals, the cost of their jobs, and the bytes that those take.
type recordCount struct{ n, cost, bytes int64 }

func (c recordCount) negative() recordCount { return recordCount{-c.n, -c.cost, -c.bytes} }

func (c *recordCount) plus(more recordCount) {
	c.n += more.n
	c.cost += more.cost
	c.bytes += more.bytes
}

// ticket names a deferral by the number of its queue, which no other queue ever has, and its own number there.
type ticket struct{ queue, number uint64 }

func (t ticket) text() queue.Ticket { return queue.Ticket(formatPair(t.queue, t.number, 36)) }

// parseTicket reads what text wrote. Anything else gives the zero ticket, which no deferral has.
func parseTicket(s queue.Ticket) ticket {
	owner, number := parsePair(string(s), 36)
	return ticket{owner, number}
}

// hasBacklog reports whether jobs are on the overflow.
func (q *queueState) hasBacklog() bool { return q.onOverflow() > 0 }

// onOverflow is about how many jobs are there, as recorded and as seen.
func (q *queueState) onOverflow() int64 { return q.counts[queue.Deferred] + q.overflow.progress.behind }

// deferral returns the valid deferral of an id and its number; nil if there is none.
func (q *queueState) deferral(id string, now leaky.Instant) (uint64, *deferral) {
	n := q.overflow.records.find(id)
	if n == 0 || q.deferralLapsed(n, now) {
		return 0, nil
	}
	return n, q.overflow.records.get(n)
}

// deferralLapsed reports whether a deferral no longer counts: it was given up, or is so old that no copy of its job
// can come back.
func (q *queueState) deferralLapsed(n uint64, now leaky.Instant) bool {
	life := q.spec.Deferred.MaxAge.D() + q.spec.Retention.For.D()
	return n <= q.overflow.progress.givenUpTo || now.Sub(q.overflow.records.get(n).at) >= life
}

// removeDeferral ends a deferral, if it is there.
func (m *Machine) removeDeferral(q *queueState, n uint64) {
	if d := q.overflow.records.get(n); d != nil {
		m.uncountDeferral(q, n, d)
		q.overflow.records.remove(n)
	}
}

// counts reports whether deferral n, which is there, counts as deferred.
func (a *overflowState) counts(n uint64) bool {
	return n > a.progress.givenUpTo && a.records.get(n).state == stillDeferred
}

// uncountDeferral takes a deferral out of the counts, and reports whether it was in them.
func (m *Machine) uncountDeferral(q *queueState, n uint64, d *deferral) (counted bool) {
	if counted = q.overflow.counts(n); counted {
		m.countDeferred(q, n, d.count().negative())
	}
	return counted
}

// countDeferred counts more deferred jobs (or fewer, if negative) at that number.
func (m *Machine) countDeferred(q *queueState, number uint64, more recordCount) {
	q.counts[queue.Deferred] += more.n
	m.counts[queue.Deferred] += more.n
	a := q.ownOverflow()
	a.cost += more.cost
	a.bytes += more.bytes
	if number <= a.progress.olderUpTo {
		a.olderGeneration.plus(more)
	}
	m.trackBacklog(q)
}

// forgetLapsed forgets up to limit deferrals that no longer count, the oldest first.
func (m *Machine) forgetLapsed(q *queueState, now leaky.Instant, limit int) {
	g := &q.overflow.records
	for ; limit > 0 && g.n > 0; limit-- {
		n := g.oldest()
		if !q.deferralLapsed(n, now) {
			return
		}
		m.dropLapsed(q, n)
	}
}

// dropLapsed drops a lapsed deferral. If it still counted, its job is missing.
func (m *Machine) dropLapsed(q *queueState, n uint64) {
	d := q.overflow.records.get(n)
	m.lapsedDeferrals = append(m.lapsedDeferrals, d.seq)
	if m.uncountDeferral(q, n, d) {
		q.count().Missing++
	}
	q.overflow.records.remove(n)
}
