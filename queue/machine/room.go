package machine

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// appendOutcome returns the outcome of a new job. While the queue has a backlog, the places up to the low-water mark
// are reserved for readmission.
func (m *Machine) appendOutcome(
	q *queueState, it *appendingJob, most int64, now leaky.Instant,
) queue.AppendOutcome {
	backlog := q.hasBacklog()
	full := !m.fits(q, it.bytes(), now) || q.size() >= q.spec.Capacity
	switch {
	case !full && !backlog:
		return queue.Accepted
	case it.offered && it.job.Deferrable(q.spec.Overflow):
		return m.overflowOutcome(q, it.bytes(), now)
	case full || q.keptForReadmission(it.bytes(), most):
		return queue.Full
	}
	return queue.Accepted
}

// overflowOutcome returns the outcome of a job for which the queue has no room.
func (m *Machine) overflowOutcome(q *queueState, needs int64, now leaky.Instant) queue.AppendOutcome {
	if q.counts[queue.Deferred] >= q.spec.Deferred.MaxJobs || !m.fitsOverflow(q, needs, now) {
		return queue.OverflowFull
	}
	return queue.SetAside
}

// fitsOverflow reports whether that many more bytes may be deferred.
func (m *Machine) fitsOverflow(q *queueState, needs int64, now leaky.Instant) bool {
	if most := int64(q.spec.Deferred.MaxBytes); most > 0 {
		return q.overflow.bytes+needs <= most
	}
	return q.spec.MaxBytes == 0 || m.fits(q, needs, now)
}

// fits reports whether the queue has that many bytes for a new job, once dead jobs that may be dropped are gone. If the
// others are in the way, it drops those past their retention.
func (m *Machine) fits(q *queueState, needs int64, now leaky.Instant) bool {
	for m.firmBytes(q)+needs > m.byteLimit(q) {
		if m.boundDeadBytes(q) == 0 || m.trimDead(m.deadJobs[q.name], now, trimMax) == 0 {
			return false
		}
	}
	return true
}

// firmBytes returns the bytes that count toward max_bytes and cannot be freed for a new job.
func (m *Machine) firmBytes(q *queueState) int64 {
	return q.bytes + q.boundDeferredBytes() + m.boundDeadBytes(q)
}

// boundDeadBytes returns what dead jobs take of max_bytes if they are not dropped for new jobs.
func (m *Machine) boundDeadBytes(q *queueState) int64 {
	if q.spec.Retention.Full != queue.Reject {
		return 0
	}
	return m.deadBytesOf(q.name)
}

// boundDeferredBytes returns what deferred jobs take of max_bytes.
func (q *queueState) boundDeferredBytes() int64 {
	if q.spec.MaxBytes == 0 || q.spec.Deferred.MaxBytes > 0 {
		return 0
	}
	return q.overflow.bytes
}

// makeRoom forgets ended jobs, and drops the oldest dead ones, until the queue fits in max_bytes. It is called after
// the jobs of a call came in or were deferred. A later change of state moves the job's bytes or frees them, and never
// adds any.
func (m *Machine) makeRoom(q *queueState, now leaky.Instant) {
	most := m.byteLimit(q)
	over := q.bytes + q.boundDeferredBytes() + m.deadBytesOf(q.name) - most
	if others := int64(q.endedJobs.others.len()); others > jobsize.Remembered(most) {
		spare := others - jobsize.Remembered(most)
		many := leastJobs(over + spare*jobsize.Overhead)
		m.forgetOthers(q.endedJobs.forget(min(spare, many)))
	}
	if q.spec.Retention.Full == queue.Reject {
		return
	}
	for dead := m.deadJobs[q.name]; over > 0 && dead != nil && dead.dead.len() > 0; {
		oldest := dead.dead.top()
		over -= oldest.bytes()
		m.dropDead(dead, q)
		if !tooOld(oldest, q.spec.Retention, now) {
			q.count().Dropped++
		}
	}
}

// leastJobs returns how many ended jobs must be forgotten to free that many bytes.
func leastJobs(bytes int64) int64 { return max(0, (bytes+jobsize.Overhead-1)/jobsize.Overhead) }

// refusedBySelf refuses a job for its own properties or its lane, whatever room the queue has.
func (it *appendingJob) refusedBySelf(q *queueState, ln *lane, now leaky.Instant) bool {
	if err := it.job.ValidateAhead(q.env.wall(now).Time()); err != nil {
		it.answer.Outcome, it.answer.Err = queue.Invalid, err
		return true
	}
	at, rule := scheduledUntil(&it.job, q.env.wall(now)), ln.rule()
	if it.tooLarge(int64(rule.MaxBytes), true) {
		return true
	}
	over := int64(0)
	if rule.MaxBytes > 0 {
		over = ln.bytes + it.bytes() - int64(rule.MaxBytes)
	}
	switch {
	case over > 0:
		it.answer.Outcome, it.answer.RetryAfter = queue.LaneFull, q.laneRetryAfter(
			ln, leaving(over, ln.bytes, int64(ln.size)), now,
		)
		it.answer.Bytes = queue.ByteBound{Held: ln.bytes, Max: int64(rule.MaxBytes), Needs: it.bytes()}
	case rule.Capacity > 0 && int64(ln.size) >= rule.Capacity:
		it.answer.Outcome, it.answer.RetryAfter = queue.LaneFull, q.laneRetryAfter(ln, 1, now)
	case at != 0 && q.spec.MaxScheduled > 0 && q.counts[queue.Scheduled]+q.incoming.scheduled() >= q.spec.MaxScheduled:
		it.answer.Outcome, it.answer.RetryAfter = queue.ScheduleFull, q.scheduleRetryAfter(now)
	default:
		return false
	}
	return true
}

// wouldExpire refuses a job that would be accepted but expire before its departure.
func (it *appendingJob) wouldExpire(q *queueState, ln *lane, outcome queue.AppendOutcome, now leaky.Instant) bool {
	expires := instantOf(it.job.ExpiresAt)
	if _, known := q.resumesAt(now); expires == 0 || !known {
		return false
	}
	var eta leaky.Instant
	if outcome == queue.SetAside {
		eta = it.etaDeferred(q, now)
	} else {
		o := q.outlookOfNew(ln, turnOf(q.turn, it.job.Priority), it.job.Cost, it.job.Priority, notPlain(&it.job))
		eta = q.departure(o, now)
	}
	eta = max(eta, q.env.engine(scheduledUntil(&it.job, q.env.wall(now))))
	if q.env.wall(eta) <= expires {
		return false
	}
	it.answer.Outcome, it.answer.ETA = queue.Lapsed, queue.ETA{At: q.env.wall(eta).Time()}
	return true
}

// byteLimit returns the queue's max_bytes or, without one, its share of the store.
func (m *Machine) byteLimit(q *queueState) int64 {
	if q.spec.MaxBytes > 0 {
		return int64(q.spec.MaxBytes)
	}
	if m.Bytes > 0 {
		return max(1, m.Bytes/jobsize.StoreShare)
	}
	return queue.AnyBytes
}

// KeptForOthers explains that a queue has taken its share: see Environment.Scarce.
const KeptForOthers = jobsize.KeptForOthers

// JobMemory is about how much of this process' memory a job takes: its payload is only in the store.
const JobMemory = 200

// keptForOthers returns why the free room is reserved for queues that take less, or nil. A queue takes at most
// FairShare times what is free, so a few queues never take everything. Handlers are shared by the same rule.
func (m *Machine) keptForOthers(q *queueState, needs int64) error {
	if m.Scarce != nil && q.bytes+m.deadBytesOf(q.name)+needs > jobsize.FairShare*m.Free {
		return m.Scarce
	}
	if m.takesMuchMemory(q.size() + m.deadCountOf(q.name) + 1) {
		return m.Memory.Scarce
	}
	return nil
}

// takesMuchMemory reports whether so many jobs of one queue take more than its share of the free memory.
func (m *Machine) takesMuchMemory(jobs int64) bool {
	return m.Memory.Scarce != nil && jobs*JobMemory > jobsize.FairShare*m.Memory.Free
}

// forgetForMemory forgets ended jobs of a queue that takes much memory, two for each that ends. Otherwise deliveries
// would free nothing.
func (m *Machine) forgetForMemory(q *queueState) {
	others := int64(q.endedJobs.others.len())
	if m.takesMuchMemory(q.size() + m.deadCountOf(q.name) + others) {
		spare := others - jobsize.Remembered(min(m.byteLimit(q), m.Bytes/jobsize.StoreShare))
		m.forgetOthers(q.endedJobs.forget(max(0, min(2, spare))))
	}
}

// full returns why nothing that stays both in memory and on file is let in, or nil.
func (m *Machine) full() error { return cmp.Or(m.Full, m.Memory.Full) }

// JobsKept returns how many jobs take JobMemory: those that wait, and ended ones that are remembered.
func (m *Machine) JobsKept() int64 {
	return m.counts[queue.Waiting] + m.counts[queue.Scheduled] + m.counts[queue.Leased] + m.counts[queue.Held] +
		m.deadCount + m.othersEnded
}

// tooLarge refuses a job that is larger than the queue or its lane may ever hold.
func (it *appendingJob) tooLarge(most int64, lane bool) bool {
	if most == 0 || it.bytes() <= most {
		return false
	}
	it.answer.Outcome, it.answer.Err = queue.Invalid, jobsize.NeverFits(it.bytes(), most, lane)
	return true
}

func tooLargeReason(needs, most int64) string {
	return fmt.Sprintf("takes %d bytes, more than the max_bytes %d of its queue", needs, most)
}

// answerFull answers for a job that finds no room in its queue.
func (m *Machine) answerFull(it *appendingJob, q *queueState, most int64, now leaky.Instant) {
	held := m.firmBytes(q)
	over := held + it.bytes() - most
	it.answer.RetryAfter = q.retryAfter(leaving(over, q.bytes, q.size()), now)
	if over > 0 {
		it.answer.Bytes = queue.ByteBound{Held: held, Max: most, Needs: it.bytes()}
	}
}

// keptForReadmission reports whether everything left of a queue with a backlog, in places or bytes, is reserved for
// readmission. The bytes that the first job on the overflow needs are reserved too; otherwise a stream of small jobs
// would starve it.
func (q *queueState) keptForReadmission(needs, most int64) bool {
	if q.size()-q.overflow.readmitted >= max(1, q.spec.Capacity-q.spec.Mark()) {
		return true
	}
	others := q.bytes - q.overflow.readmittedBytes
	return (others > 0 || q.overflow.headNeeds > 0) &&
		others+needs > most-max(q.spec.MarkBytes(most), q.overflow.headNeeds)
}

// fitsReadmission reports whether that many bytes may come back from the overflow.
func (q *queueState) fitsReadmission(needs, most int64) bool {
	return q.bytes+needs <= most &&
		(q.overflow.readmitted == 0 || q.overflow.readmittedBytes+needs <= q.spec.MarkBytes(most))
}

// overflowRoom returns how many jobs the queue would take back from the overflow: none while the first does not fit, as
// the last Readmit found.
func (m *Machine) overflowRoom(q *queueState) int64 {
	if needs := q.overflow.headNeeds; needs > 0 && !q.fitsReadmission(needs, m.byteLimit(q)) {
		return 0
	}
	return q.freePlaces()
}

// freePlaces returns how many places are left for jobs from the overflow.
func (q *queueState) freePlaces() int64 {
	return max(0, min(q.spec.Mark()-q.overflow.readmitted, q.spec.Capacity-q.size()))
}

// leaving returns how many of the jobs must leave, at their average size, to free that many bytes.
func leaving(over, held, jobs int64) int64 {
	if over <= 0 || held <= 0 {
		return 1
	}
	return max(1, int64(math.Ceil(float64(min(over, held))*float64(jobs)/float64(held))))
}

// Waits and bounds of the waits that refused callers get.
const (
	pausedRetry    = 30 * time.Second
	unlimitedRetry = 100 * time.Millisecond
	minRetry       = time.Millisecond
	// maxRetrySpan limits how long the room that a caller needs may take to become free after its slot.
	maxRetrySpan = leaky.Instant(365 * 24 * time.Hour / time.Microsecond)
	// maxPromise limits how far the slots promised to refused callers reach beyond the next departure, unless one
	// interval is longer.
	maxPromise = leaky.Instant(time.Hour / time.Microsecond)
	// lapsing divides the promised slots: 1/lapsing of them is taken back when one was not used.
	lapsing = 8
)

// retryAfter returns after how long a refused caller may find room, if that many jobs must leave first. Consecutive
// callers are promised consecutive departures, so that each finds a place when it comes back.
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
	slot := min(max(q.promised, room), room+max(maxPromise, slowest))
	q.promised = slot + slowest
	return max(minRetry, (slot + min(intervals(jobs-1, int64(slowest), 1), maxRetrySpan)).Sub(now))
}

// lapsePromises takes promised slots back when a job comes in while there is room for two such jobs: if the callers
// with earlier slots had come back, they would have taken it.
func (q *queueState) lapsePromises(bytes, most int64, now leaky.Instant) {
	if q.promised > now && q.spec.Capacity-q.size() >= 2 && q.bytes+2*bytes <= most {
		q.promised -= (q.promised - now) / lapsing
	}
}

// laneRetryAfter is retryAfter for a full lane, without the staggering.
func (q *queueState) laneRetryAfter(ln *lane, jobs int64, now leaky.Instant) time.Duration {
	next := max(now, ln.stopsUntil(now))
	if p, limited := ln.pacing(now, now); limited {
		next = max(next, p.opens(now))
	}
	next = ln.hours().next(next, now)
	waiting, coming := q.laneWeights()
	turns := jobs * (waiting + coming) / ln.share()
	next = max(next, now+min(intervals(turns, int64(q.interval()), 1), maxRetrySpan))
	return max(minRetry, next.Sub(now))
}

// scheduleRetryAfter returns how long until the first scheduled job is due.
func (q *queueState) scheduleRetryAfter(now leaky.Instant) time.Duration {
	first := never
	if q.scheduled.len() > 0 {
		first = q.scheduled.top().due
	}
	if q.incoming.scheduled() > 0 {
		first = min(first, q.incoming.later.top().due)
	}
	return max(minRetry, first.Sub(q.env.wall(now)))
}

// intervals returns k*d/n microseconds, rounded up and limited well below overflow.
func intervals(k, d, n int64) leaky.Instant {
	hi, lo := bits.Mul64(uint64(k), uint64(d))
	lo, carry := bits.Add64(lo, uint64(n-1), 0)
	if hi += carry; hi >= uint64(n) {
		return math.MaxInt64 / 4
	}
	whole, _ := bits.Div64(hi, lo, uint64(n))
	return leaky.Instant(min(whole, math.MaxInt64/4))
}
