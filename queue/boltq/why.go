package boltq

import (
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// reason is why a job has not left that waits or is scheduled.
func (l *line) reason(j *job, now leaky.Instant) queue.Why {
	ln, flying := j.lane, j.lane.flying
	if f := j.flight; f != nil && j.state == queue.Scheduled {
		switch {
		case f.due > now && (f.attempts > 0 || len(f.past) > 0):
			return queue.Why{By: queue.ByBackingOff, Until: f.due.Time(), Reason: f.reason}
		case f.due > now:
			return queue.Why{By: queue.ByScheduled, Until: f.due.Time()}
		case f.counts: // it does not wait for itself
			flying--
		}
	}
	most := ln.rule().MaxInFlight
	switch {
	case l.pause.holds(now):
		p := l.pause.told(now)
		return queue.Why{By: queue.ByPaused, Until: p.Until, Reason: p.Reason, Who: p.By}
	case l.stopped(now):
		p := l.parent().pause.told(now)
		return queue.Why{By: queue.ByPaused, Until: p.Until, Reason: p.Reason, Who: p.By, Queue: l.parent().spec.Name}
	case l.heard.opened != 0 || l.heard.stop > now:
		return l.heard.reason(now)
	case l.spec.Ordered && flying > 0:
		return queue.Why{By: queue.ByOrdered}
	case most > 0 && flying >= most:
		return queue.Why{By: queue.ByLaneMaxInFlight}
	case ln.stops(now) > now:
		return queue.Why{By: queue.ByThrottled, Until: ln.stop.Time()}
	case l.crowded():
		return queue.Why{By: queue.ByMaxInFlight}
	}
	return l.judge(l.outlook(j, l.risk(int64(j.cost), false)), now).why(l, now)
}

// reason is that of a queue that stops, or is probed.
func (h *heard) reason(now leaky.Instant) queue.Why {
	w := queue.Why{By: queue.ByThrottled, Reason: h.why}
	if h.opened != 0 || h.cause == queue.HoldDown {
		w = queue.Why{By: queue.ByDown, Reason: h.fault}
	}
	if h.stop > now {
		w.Until = h.stop.Time()
	}
	return w
}

// why is the verdict for a job of l.
func (v verdict) why(l *line, now leaky.Instant) queue.Why {
	if v.at <= now {
		return queue.Why{By: l.spec.Cause()}
	}
	w := queue.Why{By: v.by}
	if v.of != l {
		w.Queue = v.of.spec.Name
	}
	if m := v.quota; m != nil {
		w.Reason = strings.TrimSpace(m.Quota.String() + " " + m.Timezone)
		if at := m.opens(now); at > now {
			w.Until = at.Time()
		}
	}
	return w
}
