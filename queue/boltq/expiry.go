package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// expireMax is how many jobs expire in one Reserve; what is over is found by the
// next, which is not long in coming.
const expireMax = 100

// expired ends j, the head of its lane, if it expires before it could depart. It
// uses no slot. The grant is not answered before that is on disk, so that whoever
// was granted jobs sees what became of those before them. more is false when it is
// for another Reserve to decide.
func (e *Engine) expired(j *job, departs leaky.Instant, g *grant, now leaky.Instant) (gone, more bool) {
	if j.marks&expires == 0 || j.lane.line.expiries[j.seq] >= departs {
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
