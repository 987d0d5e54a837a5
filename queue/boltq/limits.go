package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// instantOf is an instant of a job; 0 is none.
func instantOf(at time.Time) leaky.Instant {
	if at.IsZero() {
		return 0
	}
	return leaky.Instant(at.UnixMicro())
}

// scheduledUntil is until when a job is scheduled that comes in now; 0 is not at all.
func scheduledUntil(j *queue.Job, now leaky.Instant) leaky.Instant {
	if at := instantOf(j.NotBefore); at > now {
		return at
	}
	return 0
}

// notPlain reports whether a job is not like those of a plain queue.
func notPlain(j *queue.Job) bool { return j.Lane != "" || j.Priority != 0 || !j.NotBefore.IsZero() }

// turnOf is the turn of a job of that priority.
func turnOf(turn int64, priority int) int64 { return turn - int64(priority)<<priorityShift }

// laneDigest is that of a job's lane, as its record has it.
func laneDigest(j *queue.Job, record []byte) (d queue.LaneDigest) {
	if j.Lane != "" {
		h, _ := queue.UnpackHead(record) // which was packed just now
		d = h.Lane
	}
	return d
}

// refusedBySelf decides about a job that is not let in for what it is, whatever room there is.
func (it *appendItem) refusedBySelf(q *queueState, ln *lane, now leaky.Instant) bool {
	if err := it.job.ValidateAhead(now.Time()); err != nil {
		it.answer.Outcome, it.answer.Err = queue.Invalid, err
		return true
	}
	at, rule := scheduledUntil(&it.job, now), ln.rule()
	if it.tooLarge(int64(rule.MaxBytes), true) {
		return true
	}
	over := int64(0)
	if rule.MaxBytes > 0 {
		over = ln.bytes + it.bytes() - int64(rule.MaxBytes)
	}
	switch {
	case over > 0:
		it.answer.Outcome, it.answer.RetryAfter = queue.LaneFull, q.laneRetryAfter(ln, queue.Leaving(over, ln.bytes, ln.size), now)
		it.answer.Bytes = queue.ByteBound{Held: ln.bytes, Max: int64(rule.MaxBytes), Needs: it.bytes()}
	case rule.Capacity > 0 && ln.size >= rule.Capacity:
		it.answer.Outcome, it.answer.RetryAfter = queue.LaneFull, q.laneRetryAfter(ln, 1, now)
	case at != 0 && q.spec.MaxScheduled > 0 && q.counts[queue.Scheduled]+q.incoming.scheduled() >= q.spec.MaxScheduled:
		it.answer.Outcome, it.answer.RetryAfter = queue.ScheduleFull, q.scheduleRetryAfter(now)
	default:
		return false
	}
	q.unsaved.Refused++
	return true
}

// laneRetryAfter is after how long a caller may find room in a lane that is full, who needs so many jobs to leave.
func (q *queueState) laneRetryAfter(ln *lane, jobs int64, now leaky.Instant) time.Duration {
	next := max(now, ln.stopsUntil(now))
	if b, p, limited := ln.pacing(now, now); limited {
		next = max(next, p.Next(b, now))
	}
	next = max(next, now+min(intervals(jobs*int64(q.lanesWaiting+q.incoming.lanes), int64(q.interval()), 1), maxRetrySpan))
	return max(minRetry, next.Sub(now))
}

// scheduleRetryAfter is after how long the first scheduled job is due.
func (q *queueState) scheduleRetryAfter(now leaky.Instant) time.Duration {
	first := never
	if q.scheduled.len() > 0 {
		first = q.scheduled.top().due
	}
	if q.incoming.scheduled() > 0 {
		first = min(first, q.incoming.later.top().due)
	}
	return max(minRetry, first.Sub(now))
}

// wouldExpire decides about a job that would come in but expire before it departs.
func (it *appendItem) wouldExpire(q *queueState, ln *lane, outcome queue.AppendOutcome, now leaky.Instant) bool {
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
	eta = max(eta, scheduledUntil(&it.job, now))
	if eta <= expires {
		return false
	}
	it.answer.Outcome, it.answer.ETA = queue.Lapsed, queue.ETA{At: eta.Time()}
	return true
}
