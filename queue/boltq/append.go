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
	leastRetry     = time.Millisecond
	// Nobody is sent further ahead than this beyond the next departure.
	longestSpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
)

// entry is a job of one Append on its way in.
type entry struct {
	job    queue.Job
	lane   queue.LaneDigest
	print  [8]byte
	record []byte
	answer *queue.Appended
	// offered by somebody who can put it aside
	offered bool
	// What it asks the rules that the queue had when that was found out; nil if it had none.
	asked   *asked
	asks    []queue.RuleAsk
	keys    []queue.LaneDigest // of those
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
	e.expand(open)
	if err := rounds(ctx, e, open, behindExpiry(e, e.admit)); err != nil {
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
func prepare(jobs []queue.Job, answers []queue.Appended, offered bool) []*entry {
	open := make([]*entry, 0, len(jobs))
	entries := make([]entry, len(jobs))
	for i := range jobs {
		n := &entries[i]
		n.job, n.answer, n.offered = jobs[i], &answers[i], offered
		n.job.Normalize()
		if err := n.job.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: n.job.ID, Err: err}
			continue
		}
		n.record = queue.PackRecord(&n.job)
		n.print = [8]byte(n.record[queue.RecordFingerprint:])
		n.lane = digest(&n.job, n.record)
		open = append(open, n)
	}
	return queueByQueue(open)
}

// queueByQueue puts the jobs of each queue together, the queues in the order in which they first come:
// where several are of a group, what one job knows of the others' is so decided.
func queueByQueue(open []*entry) []*entry {
	first := map[string]int{}
	for i, n := range open {
		if i > 0 && n.job.Queue == open[0].job.Queue && len(first) == 1 {
			continue // as it nearly always is
		}
		if _, known := first[n.job.Queue]; !known {
			first[n.job.Queue] = len(first)
		}
	}
	if len(first) > 1 {
		slices.SortStableFunc(open, func(a, b *entry) int { return first[a.job.Queue] - first[b.job.Queue] })
	}
	return open
}

// admit decides an entry, unless it depends on changes under way.
func (e *Engine) admit(n *entry, c *call, now leaky.Instant) (busy *call) {
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
		switch j.busy {
		case nil:
			n.found(j, j.lane.before(j.priority()+1))
		case c: // this very call brings it: answered in its order, behind those that came before
			e.enqueue(c, &repeating{call: c, entry: n, job: j})
		default:
			return j.busy
		}
		return nil
	}
	if c := l.moving(n.job.ID); c != nil {
		return c
	}
	if d := l.ended.find(n.job.ID, l.spec.Retention, now); d != nil {
		n.known(d.print, d.state)
		return nil
	}
	if number, d := l.deferral(n.job.ID, now); d != nil {
		e.deferred(n, l, number, c, now)
		return nil
	}
	if at := instant(n.job.ExpiresAt); at != 0 && at <= now {
		n.answer.Outcome = queue.Lapsed
		return nil
	}
	ln, most := l.lane(n.job.Lane, n.lane), e.byteLimit(l)
	if n.tooLarge(most, false) {
		return nil
	}
	if n.barred(l, ln, now) {
		return nil
	}
	var b *bill
	a, outcome := e.askedBy(l), l.room(n, most)
	if a != nil {
		said, busy, invalid := e.ask(n, a, now)
		if busy != nil {
			return busy
		}
		if invalid != nil {
			n.answer.Outcome, n.answer.Err = queue.Invalid, invalid
			return nil
		}
		b, n.answer.Rules = said, said.rules
	}
	if instead, refused := n.refused(l, a, b); refused {
		outcome = instead
	}
	switch {
	case outcome == queue.LimitReached:
		l.loose.refused++
		n.answer.Outcome = outcome
	case outcome == queue.Full:
		l.loose.refused++
		n.answer.Outcome = outcome
		n.refuse(l, most, now)
	case outcome == queue.OverflowFull:
		l.loose.refused++
		n.answer.Outcome, n.answer.RetryAfter = outcome, l.promise(1, now)
	case e.full():
		n.answer.Err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
	case n.tooLate(l, ln, outcome, now):
	case outcome == queue.SetAside:
		e.setAside(n, l, b, c, now)
	default:
		e.admitNew(n, ln, b, c, now)
	}
	return nil
}

// room says what becomes of a job that is not known. While there is a backlog the
// places up to the mark are for what comes back.
func (l *line) room(n *entry, most int64) queue.AppendOutcome {
	backlog := l.backlog()
	full := l.size() >= l.spec.Capacity || l.bytes+n.bytes() > most
	switch {
	case !full && !backlog:
		return queue.Accepted
	case n.offered && n.job.Deferrable(l.spec.Overflow):
		return l.roomAside()
	case full || l.keptForOthers(n.bytes(), most):
		return queue.Full
	}
	return queue.Accepted
}

// roomAside says what becomes of one that is to be set aside.
func (l *line) roomAside() queue.AppendOutcome {
	if l.count[queue.Deferred]+l.aside.leaving >= l.spec.Deferred.MaxJobs {
		return queue.OverflowFull
	}
	return queue.SetAside
}

// known answers for a job that is there already.
func (n *entry) known(print [8]byte, s queue.State) {
	if print != n.print {
		n.answer.Outcome = queue.Conflict
		return
	}
	n.answer.Outcome, n.answer.State = queue.Duplicate, s
}

// found answers for a job that is there already, with so many on their way to places before it.
func (n *entry) found(j *job, coming int64) {
	n.known(j.print, j.state)
	if n.answer.State == queue.Waiting {
		n.answer.Position = int64(j.lane.fifo.rank(j)) + coming + 1
	}
}

// admitNew reserves a place, which the job takes when it is on disk.
func (e *Engine) admitNew(n *entry, ln *lane, b *bill, c *call, now leaky.Instant) {
	l := ln.line
	e.store.seq++
	j := &job{
		id: strings.Clone(n.job.ID), lane: ln, seq: e.store.seq, appended: now,
		print: n.print, busy: c, size: uint32(len(n.record)), cost: uint16(n.job.Cost),
	}
	raise := l.enter(j, &n.job, c, now)
	e.charge(b, now)
	e.enqueue(c, &appending{call: c, job: j, record: n.record, answer: n.answer, raise: raise, risk: l.risk(0, false), bill: b})
}

// enter reserves the place and the turn of a job, and returns the ceilings that go
// with it.
func (l *line) enter(j *job, q *queue.Job, c *call, now leaky.Instant) raises {
	cost := int64(j.cost)
	j.turn = turnOf(l.turn, q.Priority)
	l.turn += cost
	l.costs(cost)
	l.plain = l.plain && !odd(q)
	l.jobs[j.id] = j
	l.expire(j, instant(q.ExpiresAt))
	l.expect(j, later(q, now))
	return l.raises(now, cost, c)
}

// exit gives up what enter reserved.
func (e *Engine) exit(j *job, now leaky.Instant) {
	l := j.lane.line
	j.busy = nil
	l.arrived(j)
	e.vacate(j, now)
	if l.turn == j.base()+int64(j.cost) {
		l.turn = j.base()
	}
}

// promise is the staggered time after which a refused caller may find room who needs so many jobs to leave.
func (l *line) promise(jobs int64, now leaky.Instant) time.Duration {
	if l.stopped(now) {
		return pausedRetry
	}
	room, slowest := max(l.opens(now), l.heard.stop), l.interval()
	if p := l.parent(); p != nil {
		room, slowest = max(room, p.opens(now)), max(slowest, p.interval())
	}
	if slowest == 0 {
		return max(unlimitedRetry, room.Sub(now))
	}
	t := slowest
	span := min(intervals(l.spec.Capacity, int64(t), 1), longestSpan)
	l.refusals = max(l.refusals, room)
	if l.refusals > room+span {
		l.refusals = room
	}
	after := max(leastRetry, (l.refusals + min(intervals(jobs-1, int64(t), 1), longestSpan)).Sub(now))
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
