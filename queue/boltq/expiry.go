package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expireMax is how many jobs expire in one call; what is over is found by the
// next, which is not long in coming.
const expireMax = 100

// deadline is when a job expires that waits or is scheduled.
type deadline struct {
	at  leaky.Instant
	job *job
}

func byDeadline(a, b deadline) bool { return a.at < b.at || a.at == b.at && a.job.id < b.job.id }

// newExpiring orders queues by when the first of their jobs expires.
func newExpiring() heap[*line] {
	return heap[*line]{
		less: func(a, b *line) bool {
			if a.expires != b.expires {
				return a.expires < b.expires
			}
			return a.number < b.number
		},
		moved: func(l *line, i int) { l.expiringAt = i },
	}
}

// mind puts a job that expires among those of its queue that wait or are scheduled, or
// takes it out.
func (e *Engine) mind(j *job, idle bool) {
	if j.marks&expires == 0 {
		return
	}
	l := j.lane.line
	d := deadline{l.expiries[j.seq], j}
	if idle {
		l.deadlines.push(d)
	} else {
		l.deadlines.remove(d)
	}
	e.armExpiring(l)
}

func (e *Engine) armExpiring(l *line) {
	some := l.deadlines.len() > 0
	if some {
		l.expires = l.deadlines.top().at
	}
	place(&e.expiring, l, l.expiringAt, some)
}

// heed tells whoever watches of a job that has come to be the first of its queue to expire.
func (e *Engine) heed(j *job, now leaky.Instant) {
	if l := j.lane.line; j.marks&expires != 0 && l.deadlines.top().job == j {
		e.wakeFor(l.expires, now)
	}
}

// expire ends jobs that have expired, whatever queues they are of.
func (e *Engine) expire(now leaky.Instant) *call {
	c := newCall()
	var busy []*line
	for c.sent < expireMax && e.expiring.len() > 0 && e.expiring.top().expires <= now && !e.full() {
		l := e.expiring.top()
		if l.busy != nil { // what becomes of it is being decided
			busy = append(busy, e.expiring.pop())
			continue
		}
		for c.sent < expireMax && l.expiringAt >= 0 && l.expires <= now {
			e.leave(l.deadlines.top().job, queue.Expired, c, now)
		}
		e.arm(l, now)
	}
	for _, l := range busy {
		e.armExpiring(l)
	}
	return c
}

// behindExpiry is one, for rounds, but that what has expired ends before the first item
// is decided.
func behindExpiry[T any](e *Engine, one func(T, *call, leaky.Instant) *call) func(T, *call, leaky.Instant) *call {
	var first *call
	return func(item T, c *call, now leaky.Instant) *call {
		if first == nil {
			first = e.expire(now)
		}
		if first.left > 0 {
			return first
		}
		return one(item, c, now)
	}
}

// untilExpiry is how long until somebody should see to what expires. What does soon after
// one another ends together.
func (e *Engine) untilExpiry(now leaky.Instant) time.Duration {
	if e.expiring.len() == 0 || e.full() {
		return longestSleep
	}
	if first := e.expiring.top().expires; first > now {
		return max(first.Sub(now), queue.Horizon/2)
	}
	return 0
}

// expired ends j, the head of its lane, if it expires before it could depart. It
// uses no slot. The grant is not answered before that is on disk, so that whoever
// was granted jobs sees what became of those before them. more is false when it is
// for another Reserve to decide.
func (e *Engine) expired(j *job, departs leaky.Instant, g *grant, now leaky.Instant) (gone, more bool) {
	if j.marks&expires == 0 || j.lane.line.expiries[j.seq] >= departs {
		return false, true
	}
	if g.expired == expireMax || g.noRoom {
		return false, false
	}
	if g.expiring == nil {
		g.expiring = newCall()
	}
	g.expired++
	e.leave(j, queue.Expired, g.expiring, now)
	return true, true
}
