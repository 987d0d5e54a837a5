package redisq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// shownIn returns what the clock showed, by the answers for queues, or 0 if none of them exists.
func shownIn(answers []any) leaky.Instant {
	for _, a := range answers {
		if row, ok := a.([]any); ok && len(row) > 0 {
			now, _ := row[0].(int64)
			return leaky.Instant(now)
		}
	}
	return 0
}

// readAppended reads the answers for the jobs of one queue.
func readAppended(r *reply, items []pendingJob, group []int, answers []queue.Appended) {
	for _, i := range group {
		answers[i].ID = items[i].id
	}
	switch v := r.next().(type) {
	case int64:
		for _, i := range group {
			if v == 1 { // its ruleset has changed
				answers[i].Err = errStale
			} else {
				answers[i].Outcome = queue.UnknownQueue
			}
		}
	case string:
		err := replyErr(v)
		for _, i := range group {
			answers[i].Err = err
		}
	default:
		r.err = cmp.Or(readRow(list(v), items, group, answers), r.err)
	}
}

// readRow reads the answers for the jobs of a queue that exists.
func readRow(row *reply, items []pendingJob, group []int, answers []queue.Appended) error {
	now, pacer, bucket := row.bucket()
	exact, head, waiting, turn, cost := row.int() == 1, row.int(), row.int(), row.int(), row.int()
	goes := leaky.Instant(row.int())
	number, ahead, others := row.text(), row.duration(), row.list()
	other := int64(-1)
	if others.more() {
		other = others.int()
	}
	for k, i := range group {
		a := &answers[i]
		if int64(k) != other {
			cost = max(cost, items[i].cost)
			a.Outcome, a.State, a.Position = queue.Accepted, queue.Waiting, waiting+1
			a.ETA = queue.ETA{At: pacer.ETA(bucket, goes, min(turn-head, waiting*cost)).Time(), Exact: exact}
			waiting, turn = waiting+1, turn+items[i].cost
			continue
		}
		code := others.int()
		readOther(a, code, others, number, items[i].queue, now)
		switch {
		case code == int64(tooFar):
			h, err := jobrecord.UnpackHead(items[i].body[stampBytes:])
			j := queue.Job{NotBefore: h.NotBefore}
			a.Err = cmp.Or(err, j.ValidateAhead(now.Add(-ahead).Time()))
		case code == int64(cannotAsk):
			a.Err = items[i].err
		case a.Outcome == queue.LimitReached:
			a.RetryAfter = max(a.RetryAfter, items[i].limited)
		case code == int64(queue.Accepted) && a.State == queue.Waiting: // the following jobs are behind it
			waiting, turn, cost = waiting+1, turn+items[i].cost, max(cost, items[i].cost)
		}
		if others.more() {
			other = others.int()
		}
	}
	for _, i := range group {
		answers[i].ETA = answers[i].ETA.ToWall(ahead)
	}
	if row.more() {
		said := row.list()
		for _, i := range group {
			answers[i].Rules = items[i].readRuled(said.text())
		}
	}
	return cmp.Or(row.err, others.err)
}

// readOther reads the answer for one job that was not just put at the end of the queue.
func readOther(a *queue.Appended, code int64, r *reply, number, name string, now leaky.Instant) {
	switch appendAnswer(code) {
	case uncountedUnit:
		a.Outcome, a.Err = queue.Invalid, queue.UncountedUnit("costs", r.text(), name)
	case missingCost:
		a.Outcome, a.Err = queue.Invalid, queue.MissingCost(r.text(), name)
	default:
		readCounted(a, code, r, number, now)
		return
	}
	r.int()
	r.int()
	r.int()
}

// readCounted is readOther for an answer of numbers.
func readCounted(a *queue.Appended, code int64, r *reply, number string, now leaky.Instant) {
	x, position, eta, more := r.int(), r.int(), r.int(), r.int()
	switch appendAnswer(code) {
	case acceptedBefore:
		a.Outcome = queue.Accepted
	case deferredBefore:
		a.Outcome, a.State = queue.Duplicate, queue.Deferred
		a.Ticket, a.At = newTicket(number, x), now.Time()
		return
	case tooFar, cannotAsk: // readRow adds the error
		a.Outcome = queue.Invalid
		return
	case tooLarge:
		a.Outcome, a.Err = queue.Invalid, jobsize.NeverFits(more, eta, x == 1)
		return
	case storeFull:
		a.Err = fmt.Errorf("%w: redis is nearly out of memory (maxmemory); %s", queue.ErrStoreFull,
			jobsize.KeptForOthers)
		return
	default:
		a.Outcome = queue.AppendOutcome(code)
	}
	switch a.Outcome {
	case queue.Accepted:
		a.State, a.Position = queue.State(x), position
		if eta > 0 {
			a.ETA = queue.ETA{At: leaky.Instant(eta).Time(), Exact: more == 1}
		}
	case queue.Duplicate:
		a.State, a.Position = queue.State(x), position
	case queue.Lapsed:
		if x > 0 {
			a.ETA.At = leaky.Instant(x).Time()
		}
	case queue.SetAside:
		a.State, a.Position = queue.Deferred, position
		a.Ticket, a.At, a.ETA.At = newTicket(number, x), micros(more), leaky.Instant(eta).Time()
	case queue.Failed:
		a.Err = replyErr("WRONGTYPE a key of the job, or of its queue, holds something else")
	default:
		a.RetryAfter, a.Bytes = time.Duration(x)*time.Microsecond,
			queue.ByteBound{Held: position, Max: eta, Needs: more}
	}
}

// bucket reads the instant, the pacer and the bucket that several scripts return.
func (r *reply) bucket() (leaky.Instant, leaky.Pacer, leaky.Bucket) {
	now, n, d, burst := leaky.Instant(r.int()), r.int(), r.int(), r.int()
	b := leaky.Bucket{TAT: leaky.Instant(r.int()), Rem: r.int(), Last: leaky.Instant(r.int()), LastCost: r.int()}
	return now, leaky.Pacer{Rate: leaky.RateOf(n, d), Burst: burst, Horizon: queue.Horizon}, b
}
