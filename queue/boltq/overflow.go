package boltq

import (
	"strconv"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// overflowState is what a queue keeps of the jobs that wait on the overflow. How many
// there are stands among its counts, as queue.Deferred.
type overflowState struct {
	records         deferrals
	cost            int64            // of those that count as deferred
	olderGeneration recordCount      // those of them whose generation is the older one
	lastTicket      uint64           // the number of the latest deferral
	deferring       int64            // deferrals that are not on disk yet
	deferringCost   int64            // their cost
	readmitted      int64            // how many of the jobs that hold a place came back, or are about to
	progress        overflowProgress // on disk
	// readmittedBytes is what those take, and headNeeds what the first on the overflow does if a Readmit found that
	// it does not fit.
	readmittedBytes, headNeeds int64
	readmit                    *call            // the Readmit under way; nil if none
	claims                     map[string]*call // changes under way of jobs that hold no place, by id
	holder                     string           // who has the way back to himself, until
	holderUntil                leaky.Instant
	announcedAt                leaky.Instant // when it was last said that there is room; 0 is before the last Readmit
}

// returnTicket takes back the number of a deferral that is not on disk after all. A Readmit
// under way may have begun a generation with it.
func (a *overflowState) returnTicket(number uint64) {
	if a.lastTicket == number && a.readmit == nil {
		a.lastTicket--
	}
}

// overflowProgress is how far a queue's overflow was taken back.
type overflowProgress struct {
	overflow        string // what the order counts in
	order           int64
	behind          int64
	announced       leaky.Instant // when something was last announced to be there; 0 is never
	givenUpTo       uint64        // the ticket up to which records no longer count
	olderUpTo       uint64        // the ticket up to which they are of the older generation
	generationSince leaky.Instant // when the present one began
}

// recordCount is how many records, and what their jobs cost.
type recordCount struct{ n, cost int64 }

// ticket names a deferral: the queue's number, which no other queue will have, not
// even one of the same name, and that of the deferral in it.
type ticket struct{ queue, number uint64 }

func (t ticket) text() queue.Ticket {
	b := make([]byte, 0, 27)
	b = strconv.AppendUint(b, t.queue, 36)
	b = strconv.AppendUint(append(b, '.'), t.number, 36)
	return queue.Ticket(b)
}

// parseTicket reads what text wrote; anything else is the zero ticket, which no
// deferral has.
func parseTicket(s queue.Ticket) ticket {
	line, number, _ := strings.Cut(string(s), ".")
	var t ticket
	var err1, err2 error
	t.queue, err1 = strconv.ParseUint(line, 36, 64)
	t.number, err2 = strconv.ParseUint(number, 36, 64)
	if err1 != nil || err2 != nil || t.text() != s {
		return ticket{}
	}
	return t
}

// changeOf returns the change under way of a job that holds no place. A Readmit may
// give up every record of the older generation.
func (q *queueState) changeOf(id string) *call {
	a := &q.overflow
	if c := a.claims[id]; c != nil || a.readmit == nil {
		return c
	}
	if n := a.records.find(id); n != 0 && n <= a.progress.olderUpTo {
		return a.readmit
	}
	return nil
}

// claim notes a change under way of a job that holds no place, until stop.
func (q *queueState) claim(id string, c *call) {
	if q.overflow.claims == nil {
		q.overflow.claims = map[string]*call{}
	}
	q.overflow.claims[id] = c
}

func (q *queueState) unclaim(id string) { delete(q.overflow.claims, id) }

// hasBacklog reports whether jobs wait on the overflow, or are about to.
func (q *queueState) hasBacklog() bool { return q.onOverflow()+q.overflow.deferring > 0 }

// onOverflow is about how many jobs wait there: as recorded and as seen.
func (q *queueState) onOverflow() int64 { return q.counts[queue.Deferred] + q.overflow.progress.behind }

// deferral returns the record of id that stands, and its number; nil if there is
// none.
func (q *queueState) deferral(id string, now leaky.Instant) (uint64, *deferral) {
	n := q.overflow.records.find(id)
	if n == 0 || q.deferralLapsed(n, now) {
		return 0, nil
	}
	return n, q.overflow.records.get(n)
}

// deferralLapsed reports whether a record that is there counts no longer: it was given up,
// or no copy of its job can come back any more.
func (q *queueState) deferralLapsed(n uint64, now leaky.Instant) bool {
	life := q.spec.Deferred.MaxAge.D() + q.spec.Retention.For.D()
	return n <= q.overflow.progress.givenUpTo || now.Sub(q.overflow.records.get(n).at) >= life
}

// removeDeferral ends the record of that number, if it is there.
func (e *Engine) removeDeferral(q *queueState, n uint64) {
	if d := q.overflow.records.get(n); d != nil {
		e.uncountDeferral(q, n, d)
		q.overflow.records.remove(n)
	}
}

// counts reports whether the record of that number, which is there, is among the
// deferred.
func (a *overflowState) counts(n uint64) bool {
	return n > a.progress.givenUpTo && a.records.get(n).state == stillDeferred
}

// uncountDeferral takes a record out of the numbers of the deferred, if it is among them.
func (e *Engine) uncountDeferral(q *queueState, n uint64, d *deferral) (counted bool) {
	if counted = q.overflow.counts(n); counted {
		e.countDeferred(q, n, -1, -int64(d.cost))
	}
	return counted
}

// countDeferred counts n more jobs of that cost as deferred, under that number.
func (e *Engine) countDeferred(q *queueState, number uint64, n, cost int64) {
	q.counts[queue.Deferred] += n
	e.counts[queue.Deferred] += n
	q.overflow.cost += cost
	if number <= q.overflow.progress.olderUpTo {
		q.overflow.olderGeneration.n += n
		q.overflow.olderGeneration.cost += cost
	}
	e.trackBacklog(q)
}

// forgetLapsed forgets up to limit records that count no longer, the oldest first.
func (e *Engine) forgetLapsed(q *queueState, now leaky.Instant, limit int) {
	g := &q.overflow.records
	for ; limit > 0 && g.n > 0; limit-- {
		n := g.oldest()
		if !q.deferralLapsed(n, now) || q.overflow.readmit != nil || q.changeOf(string(g.id(n))) != nil {
			return
		}
		e.dropLapsed(q, n)
	}
}

// dropLapsed ends a record that lapsed. Its job was missing if it was still counted.
func (e *Engine) dropLapsed(q *queueState, n uint64) {
	d := q.overflow.records.get(n)
	e.lapsedDeferrals = append(e.lapsedDeferrals, d.seq)
	if e.uncountDeferral(q, n, d) {
		q.unsaved.Missing++
	}
	q.overflow.records.remove(n)
}
