package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// instant is an instant of a job; 0 is none.
func instant(at time.Time) leaky.Instant {
	if at.IsZero() {
		return 0
	}
	return leaky.Instant(at.UnixMicro())
}

// later is until when a job is scheduled that comes in now; 0 is not at all.
func later(j *queue.Job, now leaky.Instant) leaky.Instant {
	if at := instant(j.NotBefore); at > now {
		return at
	}
	return 0
}

// odd reports whether a job is not like those of a plain queue.
func odd(j *queue.Job) bool { return j.Lane != "" || j.Priority != 0 || !j.NotBefore.IsZero() }

// turnOf is the turn of a job of that priority.
func turnOf(turn int64, priority int) int64 { return turn - int64(priority)<<urgency }

// digest is that of a job's lane, as its record has it.
func digest(j *queue.Job, record []byte) (d queue.LaneDigest) {
	if j.Lane != "" {
		h, _ := queue.UnpackHead(record) // which was packed just now
		d = h.Lane
	}
	return d
}

// barred decides about a job that is not let in for what it is, whatever room there is.
func (n *entry) barred(l *line, ln *lane, now leaky.Instant) bool {
	if err := n.job.ValidateAhead(now.Time()); err != nil {
		n.answer.Outcome, n.answer.Err = queue.Invalid, err
		return true
	}
	at, rule := later(&n.job, now), ln.rule()
	if n.tooLarge(int64(rule.MaxBytes), true) {
		return true
	}
	over := int64(0)
	if rule.MaxBytes > 0 {
		over = ln.bytes + n.bytes() - int64(rule.MaxBytes)
	}
	switch {
	case over > 0:
		n.answer.Outcome, n.answer.RetryAfter = queue.LaneFull, l.lanePromise(ln, queue.Leaving(over, ln.bytes, ln.held), now)
		n.answer.Bytes = queue.ByteBound{Held: ln.bytes, Max: int64(rule.MaxBytes), Needs: n.bytes()}
	case rule.Capacity > 0 && ln.held >= rule.Capacity:
		n.answer.Outcome, n.answer.RetryAfter = queue.LaneFull, l.lanePromise(ln, 1, now)
	case at != 0 && l.spec.MaxScheduled > 0 && l.count[queue.Scheduled]+l.coming.scheduled() >= l.spec.MaxScheduled:
		n.answer.Outcome, n.answer.RetryAfter = queue.ScheduleFull, l.schedulePromise(now)
	default:
		return false
	}
	l.loose.refused++
	return true
}

// lanePromise is after how long a caller may find room in a lane that is full, who needs so many jobs to leave.
func (l *line) lanePromise(ln *lane, jobs int64, now leaky.Instant) time.Duration {
	next := max(now, ln.stops(now))
	if b, p, limited := ln.paced(now, now); limited {
		next = max(next, p.Next(b, now))
	}
	next = max(next, now+min(intervals(jobs*int64(l.peopled+l.coming.lanes), int64(l.interval()), 1), longestSpan))
	return max(leastRetry, next.Sub(now))
}

// schedulePromise is after how long the first scheduled job is due.
func (l *line) schedulePromise(now leaky.Instant) time.Duration {
	first := never
	if l.later.len() > 0 {
		first = l.later.top().due
	}
	if l.coming.scheduled() > 0 {
		first = min(first, l.coming.later.top().due)
	}
	return max(leastRetry, first.Sub(now))
}

// tooLate decides about a job that would come in but expire before it departs.
func (n *entry) tooLate(l *line, ln *lane, outcome queue.AppendOutcome, now leaky.Instant) bool {
	expires := instant(n.job.ExpiresAt)
	if _, known := l.goes(now); expires == 0 || !known {
		return false
	}
	var eta leaky.Instant
	if outcome == queue.SetAside {
		eta = n.etaAside(l, now)
	} else {
		o := l.prospect(ln, turnOf(l.turn, n.job.Priority), n.job.Cost, n.job.Priority, odd(&n.job))
		eta = l.foresee(o, now)
	}
	eta = max(eta, later(&n.job, now))
	if eta <= expires {
		return false
	}
	n.answer.Outcome, n.answer.ETA = queue.Lapsed, queue.ETA{At: eta.Time()}
	return true
}
