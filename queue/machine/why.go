package machine

import (
	"strings"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// whyNotLeft is why a waiting or scheduled job has not left yet.
func (q *queueState) whyNotLeft(j *job, now leaky.Instant) queue.Why {
	ln, flying := j.lane, int64(j.lane.inFlight)
	if ls := j.lease; ls != nil && j.state == queue.Scheduled {
		switch {
		case ls.due > q.env.wall(now) && (ls.attempts > 0 || len(ls.timeline) > 0):
			return queue.Why{By: cause.BackingOff, Until: ls.due.Time(), Reason: ls.reason}
		case ls.due > q.env.wall(now):
			return queue.Why{By: cause.Scheduled, Until: ls.due.Time()}
		case ls.inFlight: // it does not wait for itself
			flying--
		}
	}
	most := ln.rule().MaxInFlight
	switch {
	case q.pause.active(q.env.wall(now)):
		p := q.pause.info(q.env.wall(now))
		return queue.Why{By: cause.Paused, Until: p.Until, Reason: p.Reason, Who: p.By, Note: p.Note}
	case q.paused(now):
		p := q.parent().pause.info(q.env.wall(now))
		return queue.Why{
			By: cause.Paused, Until: p.Until, Reason: p.Reason, Who: p.By, Note: p.Note, Queue: q.parent().name,
		}
	case q.receiver.opened != 0 || q.receiver.stop > now:
		return q.receiver.why(now)
	case q.spec.Ordered && flying > 0:
		return queue.Why{By: cause.Ordered}
	case most > 0 && flying >= most:
		return queue.Why{By: cause.LaneMaxInFlight}
	case ln.stopsUntil(now) > now:
		return queue.Why{By: cause.Throttled, Until: ln.stop.Time()}
	case q.atMaxInFlight():
		return queue.Why{By: cause.MaxInFlight}
	}
	return q.judgeETA(q.outlookOf(j, q.costBounds(int64(j.cost), false)), now).why(q, now)
}

// why is the cause for a queue that is stopped or probed.
func (r *receiverState) why(now leaky.Instant) queue.Why {
	w := queue.Why{By: cause.Throttled, Reason: r.reason}
	if r.opened != 0 || r.cause == queue.StopDown {
		w = queue.Why{By: cause.Down, Reason: r.lastFailure}
	} else if r.cause == queue.StopNoTarget {
		w.By = cause.NoTarget
	}
	if r.stop > now {
		w.Until = r.stop.Time()
	}
	return w
}

// why is the verdict as the cause for a job of q.
func (v etaVerdict) why(q *queueState, now leaky.Instant) queue.Why {
	if v.at <= now {
		return queue.Why{By: q.spec.Cause()}
	}
	w := queue.Why{By: v.by}
	if v.queue != q {
		w.Queue = v.queue.name
	}
	if m := v.quota; m != nil {
		w.Reason = strings.TrimSpace(m.Quota.String() + " " + m.Timezone)
		if at := m.opens(now); at > now {
			w.Until = at.Time()
		}
	}
	return w
}
