package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expireMax is how many jobs expire in one Reserve; what is over is found by the
// next, which is not long in coming.
const expireMax = 100

// expired ends j, the head of its queue, if it expires before it could depart. It
// uses no slot. The grant is not answered before that is on disk, so that whoever
// was granted jobs sees what became of those before them. more is false when it is
// for another Reserve to decide.
func (e *Engine) expired(j *job, g *grant, now leaky.Instant) (gone, more bool) {
	l := j.line
	departs := l.pacer.Next(l.bucket, now)
	if departs > now.Add(queue.Horizon) || l.expiries[j.seq] >= departs {
		return false, true
	}
	if g.expiring == nil {
		g.expiring = newCall()
	}
	if g.expiring.sent == expireMax || e.full() {
		return false, false
	}
	e.leave(j, queue.Expired, g.expiring, now)
	return true, true
}
