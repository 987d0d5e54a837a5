package drain

import (
	"time"

	"github.com/penstock/penstock/queue/names"
)

// Lost departures are counted over lossesOver, and logged if they are at least one in lossesOneIn.
const (
	lossesOver  = time.Minute
	lossesOneIn = 20
)

// losses are the departures of a queue, or of a parent and its children, since one was lost.
type losses struct {
	since         time.Time
	granted, lost int64
	short         bool // an answer since then said that a queue could use more handlers
	logged        bool // that handlers lack
}

// lose counts departures that a queue or a group has lost.
func (pl *pool) lose(p *partition, name string, slots int64) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	group := names.Group(name)
	l := p.losses[group]
	if l == nil {
		l = &losses{since: time.Now()}
		p.losses[group] = l
	}
	l.lost += slots
}

// lossesOf returns the losses of a queue's group, or nil. mu is held.
func (pl *pool) lossesOf(p *partition, name string) *losses {
	if len(p.losses) == 0 {
		return nil
	}
	return p.losses[names.Group(name)]
}

// logLosses logs which queues lose departures because they have all the handlers that they may have. mu is held.
func (pl *pool) logLosses(p *partition, now time.Time) {
	for name, l := range p.losses {
		if now.Sub(l.since) < lossesOver {
			continue
		}
		lacks := l.short && lossesOneIn*l.lost >= l.lost+l.granted
		switch {
		case lacks == l.logged:
		case lacks:
			p.d.log.Warn("queue loses departures: it has all the handlers it may have, and its deliveries take too long for "+
				"its rate; raise --concurrency, or add drainers", "queue", name, "lost_slots", l.lost, "granted", l.granted)
		default:
			p.d.log.Info("queue no longer lacks handlers", "queue", name)
		}
		if !lacks && l.lost == 0 {
			delete(p.losses, name)
			continue
		}
		*l = losses{since: now, logged: lacks}
	}
}
