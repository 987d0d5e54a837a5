package boltq

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/jobrecord"
	"github.com/penstock/penstock/queue/ruleset"
)

// appendItem is one job of an Append or Offer.
type appendItem struct {
	job         queue.Job
	lane        queue.LaneDigest
	fingerprint [8]byte
	record      []byte
	answer      *queue.Appended
	// the caller can put it on the overflow
	offered bool
	// What it asks of rules, resolved outside the mutex; nil if the queue had none then.
	rules   *queueRules
	asks    []ruleset.Ask
	askKeys []queue.LaneDigest // their digests
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
	if err := decideAll(ctx, e, open, afterExpiry(e.machine, e.admit)); err != nil {
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

// prepare validates and packs jobs, outside the mutex.
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
		it.record = jobrecord.Pack(&it.job)
		it.fingerprint = [8]byte(it.record[jobrecord.FingerprintAt:])
		it.lane = laneDigest(&it.job, it.record)
		open = append(open, it)
	}
	return queueByQueue(open)
}

// queueByQueue groups jobs by queue, in order of first appearance. Siblings compete for the same parent, so the
// order of decisions must not depend on how the caller interleaved them.
func queueByQueue(open []*appendItem) []*appendItem {
	first := map[string]int{}
	for i, it := range open {
		if i > 0 && it.job.Queue == open[0].job.Queue && len(first) == 1 {
			continue // nearly always
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

// admit decides about a job, unless that depends on a change under way.
func (m *machine) admit(it *appendItem, c *call, now leaky.Instant) (busy *call) {
	*it.answer = queue.Appended{ID: it.job.ID}
	q := m.queues[it.job.Queue]
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
		case c: // this very call brings it: answer in order, behind what came before
			m.enqueue(c, &repeatChange{call: c, entry: it, job: j})
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
		m.answerDeferred(it, q, number, c, now)
		return nil
	}
	if at := instantOf(it.job.ExpiresAt); at != 0 && at <= now {
		it.answer.Outcome = queue.Lapsed
		return nil
	}
	ln, most := q.lane(it.job.Lane, it.lane), m.byteLimit(q)
	if it.tooLarge(most, false) {
		return nil
	}
	if it.refusedBySelf(q, ln, now) {
		return nil
	}
	var b *ruleCharges
	a, outcome := m.rulesOf(q), q.appendOutcome(it, most)
	if a != nil {
		said, busy, invalid := m.askRules(it, a, now)
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
	case m.room.full != nil:
		it.answer.Err = m.room.full
	case it.wouldExpire(q, ln, outcome, now):
	case outcome == queue.SetAside:
		m.deferJob(it, q, b, c, now)
	default:
		m.admitNew(it, ln, b, c, now)
	}
	return nil
}

// answerDuplicate answers for a job that the queue has already.
func (it *appendItem) answerDuplicate(print [8]byte, s queue.State) {
	if print != it.fingerprint {
		it.answer.Outcome = queue.Conflict
		return
	}
	it.answer.Outcome, it.answer.State = queue.Duplicate, s
}

// answerFound is answerDuplicate for a job that holds a place, with so many incoming jobs ahead of it.
func (it *appendItem) answerFound(j *job, coming int64) {
	it.answerDuplicate(j.fingerprint, j.state)
	if it.answer.State == queue.Waiting {
		it.answer.Position = int64(j.lane.waiting.rank(j)) + coming + 1
	}
}

// admitNew reserves a place, which the job takes when it is on disk.
func (m *machine) admitNew(it *appendItem, ln *lane, b *ruleCharges, c *call, now leaky.Instant) {
	q := ln.queue
	m.store.seq++
	j := &job{
		id: strings.Clone(it.job.ID), lane: ln, seq: m.store.seq, appended: now,
		fingerprint: it.fingerprint, busy: c, size: uint32(len(it.record)), cost: uint16(it.job.Cost),
	}
	raise := q.reservePlace(j, &it.job, c, now)
	m.chargeRules(b, now)
	m.enqueue(c, &appendChange{
		call: c, job: j, record: it.record, answer: it.answer, raises: raise, bounds: q.costBounds(0, false),
		charges: b,
	})
}

// appendChange puts a new job on disk.
type appendChange struct {
	call    *call
	job     *job
	record  []byte
	answer  *queue.Appended
	raises  ceilingRaises
	bounds  costBounds
	charges *ruleCharges // nil if no rules were asked
}

func (c *appendChange) prepare(b *batch) {
	b.deltaOf(c.job.lane.queue).counters.Appended++
	b.raise(c.job.lane.queue, c.raises)
	c.charges.addTo(b)
	b.putJob(c.job, c.record)
}

func (c *appendChange) apply(m *machine, now leaky.Instant) {
	j, q := c.job, c.job.lane.queue
	j.busy = nil
	if m.enterJob(j, now) { // else one was there before, and the queue's instant stands
		m.armAndWake(q, now)
	}
	*c.answer = queue.Appended{
		Outcome: queue.Accepted, ID: j.id, State: j.state, ETA: q.etaOf(j, c.bounds, now), Rules: c.charges.confirm(),
	}
	if j.state == queue.Waiting {
		c.answer.Position = int64(j.lane.waiting.rank(j)) + 1
	}
	c.call.finish(nil)
}

func (c *appendChange) rollBack(m *machine, now leaky.Instant, err error) {
	m.exit(c.job, now)
	c.charges.revert(now)
	*c.answer = queue.Appended{Outcome: queue.Failed, ID: c.job.id, Err: err}
	c.call.finish(err)
}

func (c *appendChange) freesSpace() bool { return false }

// repeatChange answers for a job that came earlier in the same call.
type repeatChange struct {
	call  *call
	entry *appendItem
	job   *job
}

func (c *repeatChange) prepare(*batch) {}

func (c *repeatChange) apply(m *machine, now leaky.Instant) {
	q := c.job.lane.queue
	if q.jobs[c.job.id] != c.job { // it could not be stored, or is gone again
		c.rollBack(m, now, queue.ErrOutcomeUnknown)
		return
	}
	c.entry.answerFound(c.job, 0)
	c.call.finish(nil)
}

func (c *repeatChange) rollBack(_ *machine, _ leaky.Instant, err error) {
	c.entry.answer.Outcome, c.entry.answer.Err = queue.Failed, err
	c.call.finish(err)
}

func (c *repeatChange) freesSpace() bool { return false }

func (it *appendItem) bytes() int64 { return jobsize.Of(it.job.ID, len(it.record)) }
