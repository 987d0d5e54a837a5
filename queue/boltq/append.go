package boltq

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// What a refused caller is told when nothing better is known.
const (
	pausedRetry    = 30 * time.Second
	unlimitedRetry = 100 * time.Millisecond
	leastRetry     = time.Millisecond
	// Nobody is sent further ahead than this beyond the next departure.
	longestSpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
)

// entry is a job of one Append on its way in.
type entry struct {
	job    queue.Job
	print  [8]byte
	record []byte
	answer *queue.Appended
}

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answers := make([]queue.Appended, len(jobs))
	open := prepare(jobs, answers)
	for len(open) > 0 {
		c := newCall()
		again, others, err := e.admit(open, c)
		if err != nil {
			return nil, err
		}
		if err := c.await(ctx); err != nil {
			return nil, err
		}
		if err := awaitAll(ctx, others); err != nil {
			return nil, err
		}
		open = again
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
func prepare(jobs []queue.Job, answers []queue.Appended) []*entry {
	open := make([]*entry, 0, len(jobs))
	entries := make([]entry, len(jobs))
	for i := range jobs {
		n := &entries[i]
		n.job, n.answer = jobs[i], &answers[i]
		n.job.Normalize()
		if err := n.job.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: n.job.ID, Err: err}
			continue
		}
		n.record = queue.PackRecord(&n.job)
		n.print = [8]byte(n.record[queue.RecordFingerprint:])
		open = append(open, n)
	}
	return open
}

// admit decides the open entries. Those that depend on changes under way are
// returned to be decided again when the calls named are done.
func (e *Engine) admit(open []*entry, c *call) (again []*entry, others []*call, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return nil, nil, err
	}
	now := e.now()
	for _, n := range open {
		if busy := e.admitOne(n, c, now); busy != nil {
			again = append(again, n)
			others = append(others, busy)
		}
	}
	return again, others, nil
}

func (e *Engine) admitOne(n *entry, c *call, now leaky.Instant) (busy *call) {
	*n.answer = queue.Appended{ID: n.job.ID}
	l := e.lines[n.job.Queue]
	if l == nil {
		n.answer.Outcome = queue.UnknownQueue
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	if j := l.jobs[n.job.ID]; j != nil {
		if j.busy != nil {
			return j.busy
		}
		n.known(j.print, j.state)
		if n.answer.State == queue.Waiting {
			n.answer.Position = int64(l.fifo.rank(j)) + 1
		}
		return nil
	}
	if d := l.ended.find(n.job.ID, l.spec.Retention, now); d != nil {
		n.known(d.print, d.state)
		return nil
	}
	if l.size() >= l.spec.Capacity {
		l.loose.refused++
		n.answer.Outcome, n.answer.RetryAfter = queue.Full, l.promise(now)
		return nil
	}
	if e.full() {
		n.answer.Err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
		return nil
	}
	e.admitNew(n, l, c, now)
	return nil
}

// known answers for a job that is there already.
func (n *entry) known(print [8]byte, s queue.State) {
	if print != n.print {
		n.answer.Outcome = queue.Conflict
		return
	}
	n.answer.Outcome, n.answer.State = queue.Duplicate, s
}

// admitNew reserves a place, which the job takes when it is on disk.
func (e *Engine) admitNew(n *entry, l *line, c *call, now leaky.Instant) {
	e.store.seq++
	j := &job{
		id: strings.Clone(n.job.ID), line: l, seq: e.store.seq, turn: l.turn, appended: now,
		print: n.print, busy: c, size: uint32(len(n.record)), cost: uint16(n.job.Cost),
	}
	l.turn += n.job.Cost
	l.maxCost = max(l.maxCost, n.job.Cost)
	l.jobs[j.id] = j
	l.entering++
	raise := l.oneGrant(now, n.job.Cost)
	l.pledge(raise, c)
	e.enqueue(c, &appending{call: c, job: j, record: n.record, answer: n.answer, raise: raise})
}

// promise is the staggered time after which a refused caller may find room.
func (l *line) promise(now leaky.Instant) time.Duration {
	if l.paused {
		return pausedRetry
	}
	if l.spec.Rate.Unlimited() {
		return unlimitedRetry
	}
	n, d := l.spec.Rate.Fraction()
	room := l.pacer.Next(l.bucket, now)
	t := intervals(1, d, n)
	span := min(intervals(l.spec.Capacity, int64(t), 1), longestSpan)
	l.refusals = max(l.refusals, room)
	if l.refusals > room+span {
		l.refusals = room
	}
	after := max(leastRetry, l.refusals.Sub(now))
	l.refusals += t
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
