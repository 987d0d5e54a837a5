package boltq

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// What a refused caller is told when nothing better is known.
const (
	pausedRetry    = 30 * time.Second
	unlimitedRetry = 100 * time.Millisecond
	minRetry       = time.Millisecond
	// Nobody is sent further ahead than this beyond the next departure.
	maxRetrySpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
)

// appendItem is a job of one Append on its way in.
type appendItem struct {
	job         queue.Job
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte
	answer      *queue.Appended
	// offered by somebody who can put it aside
	offered bool
	// What it asks the rules that the queue had when that was found out; nil if it had none.
	rules   *queueRules
	asks    []queue.RuleAsk
	askKeys []queue.LaneDigest // of those
	asksErr error
}

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, false)
}

func (e *Engine) append(ctx context.Context, jobs []queue.Job, offered bool) ([]queue.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answers := make([]queue.Appended, len(jobs))
	open := prepare(jobs, answers, offered)
	e.resolveRules(open)
	if err := decideAll(ctx, e, open, afterExpiry(e, e.admit)); err != nil {
		return nil, err
	}
	for i := range answers {
		if answers[i].Outcome != queue.Failed {
			return answers, nil
		}
	}
	if len(answers) == 0 {
		return nil, nil
	}
	return answers, answers[0].Err // nothing could be decided
}

// prepare checks and packs jobs, outside the mutex.
func prepare(jobs []queue.Job, answers []queue.Appended, offered bool) []*appendItem {
	open := make([]*appendItem, 0, len(jobs))
	entries := make([]appendItem, len(jobs))
	for i := range jobs {
		it := &entries[i]
		it.job, it.answer, it.offered = jobs[i], &answers[i], offered
		it.job.Normalize()
		if err := it.job.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: it.job.ID, Err: err}
			continue
		}
		it.record = queue.PackRecord(&it.job)
		it.fingerprint = [8]byte(it.record[queue.RecordFingerprint:])
		it.lane = laneDigest(&it.job, it.record)
		open = append(open, it)
	}
	return queueByQueue(open)
}

// queueByQueue puts the jobs of each queue together, the queues in the order in which they first come:
// where several are of a group, what one job knows of the others' is so decided.
func queueByQueue(open []*appendItem) []*appendItem {
	first := map[string]int{}
	for i, it := range open {
		if i > 0 && it.job.Queue == open[0].job.Queue && len(first) == 1 {
			continue // as it nearly always is
		}
		if _, known := first[it.job.Queue]; !known {
			first[it.job.Queue] = len(first)
		}
	}
	if len(first) > 1 {
		slices.SortStableFunc(open, func(a, b *appendItem) int { return first[a.job.Queue] - first[b.job.Queue] })
	}
	return open
}

// admit decides an entry, unless it depends on changes under way.
func (e *Engine) admit(it *appendItem, c *call, now leaky.Instant) (busy *call) {
	*it.answer = queue.Appended{ID: it.job.ID}
	q := e.queues[it.job.Queue]
	if q == nil {
		it.answer.Outcome = queue.UnknownQueue
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	if j := q.jobs[it.job.ID]; j != nil {
		switch j.busy {
		case nil:
			it.answerFound(j, j.lane.incomingBefore(j.priority()+1))
		case c: // this very call brings it: answered in its order, behind those that came before
			e.enqueue(c, &repeatChange{call: c, entry: it, job: j})
		default:
			return j.busy
		}
		return nil
	}
	if c := q.changeOf(it.job.ID); c != nil {
		return c
	}
	if d := q.endedJobs.find(it.job.ID, q.spec.Retention, now); d != nil {
		it.answerDuplicate(d.fingerprint, d.state)
		return nil
	}
	if number, d := q.deferral(it.job.ID, now); d != nil {
		e.answerDeferred(it, q, number, c, now)
		return nil
	}
	if at := instantOf(it.job.ExpiresAt); at != 0 && at <= now {
		it.answer.Outcome = queue.Lapsed
		return nil
	}
	ln, most := q.lane(it.job.Lane, it.lane), e.byteLimit(q)
	if it.tooLarge(most, false) {
		return nil
	}
	if it.refusedBySelf(q, ln, now) {
		return nil
	}
	var b *ruleCharges
	a, outcome := e.rulesOf(q), q.appendOutcome(it, most)
	if a != nil {
		said, busy, invalid := e.askRules(it, a, now)
		if busy != nil {
			return busy
		}
		if invalid != nil {
			it.answer.Outcome, it.answer.Err = queue.Invalid, invalid
			return nil
		}
		b, it.answer.Rules = said, said.answers
	}
	if instead, refused := it.limitedByRules(q, a, b); refused {
		outcome = instead
	}
	switch {
	case outcome == queue.LimitReached:
		q.unsaved.Refused++
		it.answer.Outcome = outcome
	case outcome == queue.Full:
		q.unsaved.Refused++
		it.answer.Outcome = outcome
		it.answerFull(q, most, now)
	case outcome == queue.OverflowFull:
		q.unsaved.Refused++
		it.answer.Outcome, it.answer.RetryAfter = outcome, q.retryAfter(1, now)
	case e.outOfSpace():
		it.answer.Err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
	case it.wouldExpire(q, ln, outcome, now):
	case outcome == queue.SetAside:
		e.deferJob(it, q, b, c, now)
	default:
		e.admitNew(it, ln, b, c, now)
	}
	return nil
}

// appendOutcome says what becomes of a job that is not known. While there is a backlog the
// places up to the mark are for what comes back.
func (q *queueState) appendOutcome(it *appendItem, most int64) queue.AppendOutcome {
	backlog := q.hasBacklog()
	full := q.size() >= q.spec.Capacity || q.bytes+it.bytes() > most
	switch {
	case !full && !backlog:
		return queue.Accepted
	case it.offered && it.job.Deferrable(q.spec.Overflow):
		return q.overflowOutcome()
	case full || q.keptForReadmission(it.bytes(), most):
		return queue.Full
	}
	return queue.Accepted
}

// overflowOutcome says what becomes of one that is to be set aside.
func (q *queueState) overflowOutcome() queue.AppendOutcome {
	if q.counts[queue.Deferred]+q.overflow.deferring >= q.spec.Deferred.MaxJobs {
		return queue.OverflowFull
	}
	return queue.SetAside
}

// answerDuplicate answers for a job that is there already.
func (it *appendItem) answerDuplicate(print [8]byte, s queue.State) {
	if print != it.fingerprint {
		it.answer.Outcome = queue.Conflict
		return
	}
	it.answer.Outcome, it.answer.State = queue.Duplicate, s
}

// answerFound answers for a job that is there already, with so many on their way to places before it.
func (it *appendItem) answerFound(j *job, coming int64) {
	it.answerDuplicate(j.fingerprint, j.state)
	if it.answer.State == queue.Waiting {
		it.answer.Position = int64(j.lane.waiting.rank(j)) + coming + 1
	}
}

// admitNew reserves a place, which the job takes when it is on disk.
func (e *Engine) admitNew(it *appendItem, ln *lane, b *ruleCharges, c *call, now leaky.Instant) {
	q := ln.queue
	e.store.seq++
	j := &job{
		id: strings.Clone(it.job.ID), lane: ln, seq: e.store.seq, appended: now,
		fingerprint: it.fingerprint, busy: c, size: uint32(len(it.record)), cost: uint16(it.job.Cost),
	}
	raise := q.reservePlace(j, &it.job, c, now)
	e.chargeRules(b, now)
	e.enqueue(c, &appendChange{call: c, job: j, record: it.record, answer: it.answer, raises: raise, bounds: q.costBounds(0, false), charges: b})
}

// reservePlace reserves the place and the turn of a job, and returns the ceilings that go
// with it.
func (q *queueState) reservePlace(j *job, in *queue.Job, c *call, now leaky.Instant) ceilingRaises {
	cost := int64(j.cost)
	j.turn = turnOf(q.turn, in.Priority)
	q.turn += cost
	q.noteCost(cost)
	q.plain = q.plain && !notPlain(in)
	q.jobs[j.id] = j
	q.setExpiry(j, instantOf(in.ExpiresAt))
	q.addIncoming(j, scheduledUntil(in, now))
	return q.ceilingRaises(now, cost, c)
}

// exit gives up what enter reserved.
func (e *Engine) exit(j *job, now leaky.Instant) {
	q := j.lane.queue
	j.busy = nil
	q.removeIncoming(j)
	e.removeJob(j, now)
	if q.turn == j.turnBase()+int64(j.cost) {
		q.turn = j.turnBase()
	}
}

// retryAfter is the staggered time after which a refused caller may find room who needs so many jobs to leave.
func (q *queueState) retryAfter(jobs int64, now leaky.Instant) time.Duration {
	if q.paused(now) {
		return pausedRetry
	}
	room, slowest := max(q.opens(now), q.receiver.stop), q.interval()
	if p := q.parent(); p != nil {
		room, slowest = max(room, p.opens(now)), max(slowest, p.interval())
	}
	if slowest == 0 {
		return max(unlimitedRetry, room.Sub(now))
	}
	t := slowest
	span := min(intervals(q.spec.Capacity, int64(t), 1), maxRetrySpan)
	q.lastRetryAt = max(q.lastRetryAt, room)
	if q.lastRetryAt > room+span {
		q.lastRetryAt = room
	}
	after := max(minRetry, (q.lastRetryAt + min(intervals(jobs-1, int64(t), 1), maxRetrySpan)).Sub(now))
	q.lastRetryAt += t
	return after
}

// intervals is k x d/n microseconds, rounded up, or half of what an Instant
// holds when that is less.
func intervals(k, d, n int64) leaky.Instant {
	hi, lo := bits.Mul64(uint64(k), uint64(d))
	lo, carry := bits.Add64(lo, uint64(n-1), 0)
	if hi += carry; hi >= uint64(n) {
		return math.MaxInt64 / 4
	}
	whole, _ := bits.Div64(hi, lo, uint64(n))
	return leaky.Instant(min(whole, math.MaxInt64/4))
}
