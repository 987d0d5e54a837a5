package boltq

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// heard is what a queue's receiver has said of itself that lasts. It is kept at the decision, before it is on file: the
// sooner all drainers know the better, and a call that failed is repeated.
type heard struct {
	stop  leaky.Instant // nothing leaves before; 0 is none
	cause queue.HoldCause
	why   string

	failures int64         // in a row
	opened   leaky.Instant // the circuit; 0 while it is closed
	probe    time.Duration // until the next
	fault    string        // the latest failure

	spared int64         // how often in a row the receiver asked to be spared and did not say until when
	till   leaky.Instant // and until when that was done last
}

// said is the same as people see it.
func (h *heard) said(now leaky.Instant) (s queue.Stop, c queue.CircuitInfo) {
	if h.stop > now {
		s = queue.Stop{Until: h.stop.Time(), Cause: h.cause, Reason: h.why}
	}
	c.Failures = h.failures
	if h.opened != 0 {
		c.Opened, c.Probe, c.Reason = h.opened.Time(), queue.Duration(h.probe), h.fault
	}
	return s, c
}

// putOff lets a queue stop until an instant, if that is later than it does already, and says for how long.
func (h *heard) putOff(at, now leaky.Instant, cause queue.HoldCause, why string) time.Duration {
	if at <= max(h.stop, now) {
		return 0
	}
	h.stop, h.cause, h.why = at, cause, why
	return at.Sub(now)
}

// shut closes an open circuit.
func (h *heard) shut(now leaky.Instant) {
	h.opened, h.probe, h.fault, h.failures = 0, 0, "", 0
	if h.cause == queue.HoldDown {
		h.stop, h.cause, h.why = now, "", ""
	}
}

// goOn ends what holds a queue up, if anything does.
func (h *heard) goOn(now leaky.Instant) {
	if h.opened != 0 {
		h.shut(now)
	}
	if h.stop > now {
		h.stop, h.cause, h.why = now, "", ""
	}
	h.spared, h.till = 0, 0
}

// failed is for an answer that is the target's fault.
func (h *heard) failed(c *queue.Circuit, reason string, now leaky.Instant) (e queue.Effect) {
	h.failures++
	h.fault = reason
	switch {
	case h.opened == 0 && !c.Off && h.failures >= c.Failures:
		h.opened, h.probe, e.Opened = now, c.MinProbe.D(), true
		e.Stopped = h.putOff(now.Add(h.probe), now, queue.HoldDown, reason)
	case h.opened != 0 && h.cause == queue.HoldDown:
		h.why = reason
	}
	return e
}

// wentOn is for one of a target that is not down.
func (h *heard) wentOn(now leaky.Instant) (e queue.Effect) {
	h.failures = 0
	if e.Closed = h.opened != 0; e.Closed {
		h.shut(now)
	}
	return e
}

// spare is for a receiver that asks to be spared and does not say until when, of a job that departed then. What left
// before the stop began tells nothing new.
func (h *heard) spare(s *queue.Settlement, departed, now leaky.Instant, why string) time.Duration {
	if departed < h.till {
		return 0
	}
	stopped := h.putOff(now.Add(queue.Spare(s.After, h.spared, s.ID)), now, queue.HoldThrottled, why)
	h.spared, h.till = h.spared+1, h.stop
	return stopped
}

// taken is for an answer of a receiver that does not ask to be spared, to a job that departed then.
func (h *heard) taken(departed leaky.Instant) {
	if departed >= h.till {
		h.spared, h.till = 0, 0
	}
}

// hears takes what a settlement says of the receiver, but of a lane alone, and answers what it did to the queue.
func (e *Engine) hears(l *line, s *queue.Settlement, keyed bool, departed, now leaky.Instant) (effect queue.Effect) {
	trouble := s.Verdict == queue.Down || s.Trouble && (s.Verdict == queue.Fail || s.Verdict == queue.Hold)
	before, reason := l.heard, strings.Clone(queue.Cut(s.Reason, queue.MaxReasonBytes))
	switch {
	case s.Verdict == queue.Release || s.Verdict == queue.Hold && !trouble:
		return effect
	case trouble:
		effect = l.heard.failed(&l.spec.Circuit, reason, now)
	default:
		effect = l.heard.wentOn(now)
	}
	if !trouble && s.Verdict != queue.Throttle {
		l.heard.taken(departed)
	}
	if s.Verdict == queue.Throttle && s.Untold && !(s.LaneOnly && keyed) {
		effect.Stopped = l.heard.spare(s, departed, now, reason)
	} else if s.Verdict == queue.Throttle && !(s.LaneOnly && keyed) || s.Verdict == queue.Deliver && s.After > 0 {
		effect.Stopped = l.heard.putOff(now.Add(min(s.After, queue.MaxHold)), now, queue.HoldThrottled, reason)
	}
	if l.heard.stop != before.stop {
		e.restop(l, now)
	}
	return effect
}

// restop finds anew when l can depart, after it was stopped or let go on: what was put off is not lost.
func (e *Engine) restop(l *line, now leaky.Instant) {
	e.rearm(l, now)
	e.wakeForLine(l, now)
}

// unheard takes back what a settlement said that is not on file, if nothing was heard since.
func (e *Engine) unheard(l *line, before, after heard) {
	if before == after || l.heard != after || !l.live || l.busy != nil {
		return
	}
	l.heard = before
	e.restop(l, e.now())
}

// opens is the next departure that the paces and the stop allow. A parent's stop is of its own jobs alone.
func (l *line) opens(now leaky.Instant) leaky.Instant {
	at := l.paces.opens(now)
	if l.heads() {
		return at
	}
	return max(at, l.heard.stop)
}

// eta is that by the paces, from where they will be when the queue goes on.
func (l *line) eta(now leaky.Instant, ahead int64) (leaky.Instant, *limit) {
	if l.heard.stop == 0 || l.heads() {
		return l.paces.eta(now, ahead)
	}
	p := l.paces
	p.limits = slices.Clone(p.limits)
	p.rise(l.heard.stop)
	return p.eta(now, ahead)
}

// rise is for paces that were stopped until an instant: they have earned nothing by it.
func (p *paces) rise(at leaky.Instant) {
	p.bucket = p.pacer.Rise(p.bucket, at)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			m.bucket = m.pacer.Rise(m.bucket, at)
		}
	}
}

// setOut is for a job that is about to be granted at d. While the circuit is open it is a probe.
func (l *line) setOut(d leaky.Instant) {
	h := &l.heard
	if h.stop == 0 {
		return
	}
	l.rise(h.stop)
	h.stop, h.cause, h.why = 0, "", ""
	if h.opened != 0 {
		h.probe = min(2*h.probe, l.spec.Circuit.MaxProbe.D())
		h.stop, h.cause, h.why = d.Add(h.probe), queue.HoldDown, h.fault
	}
}

// putOff lets a lane stop until an instant, and says for how long it does by that.
func (ln *lane) putOff(at, now leaky.Instant) time.Duration {
	if at <= max(ln.stops(now), now) {
		return 0
	}
	ln.stop = at
	ln.line.laneStops = max(ln.line.laneStops, ln.overcomes())
	return at.Sub(now)
}

// overcomes is when a lane's stop is over, and what a burst behind it would span.
func (ln *lane) overcomes() leaky.Instant {
	if ln.stop == 0 || ln.rule().Rate.Unlimited() {
		return ln.stop
	}
	return tat(ln.rule().Pacer().Rise(leaky.Bucket{}, ln.stop)) + 1
}

// stops is until when the lane stops, 0 if that matters no more.
func (ln *lane) stops(now leaky.Instant) leaky.Instant {
	if ln.line.laneStops <= now {
		return 0
	}
	return ln.stop
}

// lasts is until when a lane that holds nothing has to be known.
func (ln *lane) lasts() leaky.Instant { return max(ln.bucket.TAT, ln.overcomes()) }
