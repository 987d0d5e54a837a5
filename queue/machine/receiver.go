package machine

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// receiverState is the lasting state of a queue's receiver. Drainers should know it as soon as possible.
type receiverState struct {
	stop   leaky.Instant // nothing leaves before; 0 is no stop
	cause  queue.StopCause
	reason string

	failures    int32         // in a row
	throttles   int32         // in a row, without a duration from the receiver
	lastFailure string        // its reason
	opened      leaky.Instant // when the circuit opened; 0 while it is closed
	probe       time.Duration // the wait between probes
	slowAt      leaky.Instant // when a failure was last counted because circuit.slow had passed

	throttledUntil leaky.Instant // the end of the last stop that throttles counts
}

// possible returns the state without instants that are impossibly far ahead: with them, a queue would never go on, or
// never stop.
func (r receiverState) possible(now leaky.Instant) receiverState {
	latest := now.Add(queue.MaxStop + queue.Horizon)
	if r.stop > latest {
		r.stop = now
	}
	if r.throttledUntil > latest {
		r.throttledUntil = 0
	}
	if r.slowAt > now {
		r.slowAt = 0
	}
	return r
}

func (r *receiverState) info(now leaky.Instant) (s queue.Stop, c queue.CircuitInfo) {
	if r.stop > now {
		s = queue.Stop{Until: r.stop.Time(), Cause: r.cause, Reason: r.reason}
	}
	c.Failures = int64(r.failures)
	if r.opened != 0 {
		c.Opened, c.Probe, c.Reason = r.opened.Time(), unit.Duration(r.probe), r.lastFailure
	}
	return s, c
}

// stopUntil stops the queue until an instant, if that is later than its current stop, and returns for how long.
func (r *receiverState) stopUntil(at, now leaky.Instant, cause queue.StopCause, why string) time.Duration {
	if at <= max(r.stop, now) {
		return 0
	}
	r.stop, r.cause, r.reason = at, cause, why
	return at.Sub(now)
}

func (r *receiverState) closeCircuit(now leaky.Instant) {
	r.opened, r.probe, r.lastFailure, r.failures, r.slowAt = 0, 0, "", 0, 0
	if r.cause == queue.StopDown {
		r.stop, r.cause, r.reason = now, "", ""
	}
}

// retarget ends the stop of a queue that had no target.
func (r *receiverState) retarget(now leaky.Instant) {
	if r.cause == queue.StopNoTarget && r.stop > now {
		r.stop, r.cause, r.reason = now, "", ""
	}
}

// resume ends any stop and closes the circuit.
func (r *receiverState) resume(now leaky.Instant) {
	if r.opened != 0 {
		r.closeCircuit(now)
	}
	if r.stop > now {
		r.stop, r.cause, r.reason = now, "", ""
	}
	r.throttles, r.throttledUntil = 0, 0
}

// fail counts a failure that is the target's fault, which may open the circuit.
func (r *receiverState) fail(c *queue.Circuit, reason string, now leaky.Instant) (e queue.Effect) {
	r.failures += min(1, math.MaxInt32-r.failures)
	r.lastFailure = reason
	switch {
	case r.opened == 0 && !c.Off && int64(r.failures) >= c.Failures:
		r.opened, r.probe, e.Opened = now, c.MinProbe.D(), true
		e.Stopped = r.stopUntil(now.Add(r.probe), now, queue.StopDown, reason)
	case r.opened != 0 && r.cause == queue.StopDown:
		r.reason = reason
	}
	return e
}

// succeed counts an answer of a working target, which closes the circuit.
func (r *receiverState) succeed(now leaky.Instant) (e queue.Effect) {
	r.failures, r.slowAt = 0, 0
	if e.Closed = r.opened != 0; e.Closed {
		r.closeCircuit(now)
	}
	return e
}

// throttle stops the queue for a receiver that is too busy and does not say for how long. An answer to a job that
// departed before the previous such stop began says nothing new.
func (r *receiverState) throttle(s *queue.Settlement, departed, now leaky.Instant, why string) time.Duration {
	if departed < r.throttledUntil {
		return 0
	}
	stopped := r.stopUntil(now.Add(queue.ThrottleStop(s.After, int64(r.throttles), s.ID)), now, queue.StopThrottled, why)
	r.throttles, r.throttledUntil = r.throttles+1, r.stop
	return stopped
}

// accept notes that the receiver was not too busy for a job that departed then.
func (r *receiverState) accept(departed leaky.Instant) {
	if departed >= r.throttledUntil {
		r.throttles, r.throttledUntil = 0, 0
	}
}

// updateReceiver updates the receiver's state by a settlement, unless that is about a lane alone, and returns its
// effect on the queue.
func (m *Machine) updateReceiver(
	q *queueState, s *queue.Settlement, keyed bool, departed, now leaky.Instant,
) (effect queue.Effect) {
	trouble := s.Verdict == queue.Down || s.Trouble && (s.Verdict == queue.Fail || s.Verdict == queue.Hold)
	before, reason := q.receiver, strings.Clone(clip.Text(s.Reason, queue.MaxReasonBytes))
	switch {
	case s.Verdict == queue.Release || s.Verdict == queue.Hold && !trouble:
		return effect
	case trouble:
		effect = q.receiver.fail(&q.spec.Circuit, reason, now)
	default:
		effect = q.receiver.succeed(now)
	}
	if !trouble && s.Verdict != queue.Throttle {
		q.receiver.accept(departed)
	}
	if s.Verdict == queue.Throttle && s.Untold && !s.NoTarget && !(s.LaneOnly && keyed) {
		effect.Stopped = q.receiver.throttle(s, departed, now, reason)
	} else if s.Verdict == queue.Throttle && s.NoTarget {
		effect.Stopped = q.receiver.stopUntil(now.Add(min(s.After, queue.MaxStop)), now, queue.StopNoTarget, reason)
	} else if s.Verdict == queue.Throttle && !(s.LaneOnly && keyed) || s.Verdict == queue.Deliver && s.After > 0 {
		effect.Stopped = q.receiver.stopUntil(now.Add(min(s.After, queue.MaxStop)), now, queue.StopThrottled, reason)
	}
	if q.receiver.stop != before.stop {
		m.rearmAndWake(q, now)
	}
	return effect
}

// Throttle stops a queue because its receiver asked for a delay. It returns until when the queue stops, and the commit
// that the answer waits for. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Throttle(
	now leaky.Instant, name string, after time.Duration, reason string,
) (until leaky.Instant, wait uint64, err error) {
	q := m.queues[name]
	if err := queue.ValidateThrottle(after); err != nil {
		return 0, 0, err
	}
	switch {
	case q == nil:
		return 0, m.unlessDurable(m.deletedBy), unknownQueue(name)
	case q.isParent():
		return 0, 0, queue.NoReceiver(name)
	}
	reason = strings.Clone(clip.Text(reason, queue.MaxReasonBytes))
	if q.receiver.stopUntil(now.Add(min(after, queue.MaxStop)), now, queue.StopThrottled, reason) == 0 {
		return q.receiver.stop, m.lastWait(), nil
	}
	m.touch(q)
	m.rearmAndWake(q, now)
	return q.receiver.stop, m.wait(), nil
}

// noteSlow counts a failure if circuit.slow has passed without an answer. Waiting for timeouts instead would keep
// sending jobs to a hanging receiver. It returns the commit that the answer waits for. While the store
// is full, it does nothing.
func (m *Machine) noteSlow(q *queueState, ls *lease, now leaky.Instant) (effect queue.Effect, wait uint64) {
	if m.Full != nil || !q.isSlow(ls, now) {
		return effect, 0
	}
	before := q.receiver.stop
	q.receiver.slowAt = now
	effect = q.receiver.fail(&q.spec.Circuit, queue.SlowReason, now)
	m.touch(q)
	if q.receiver.stop != before {
		m.rearmAndWake(q, now)
	}
	return effect, m.wait()
}

// isSlow reports whether circuit.slow has passed both since the attempt departed and since a slow attempt last counted
// as a failure. So a receiver that is only slow has time to answer before the circuit opens.
func (q *queueState) isSlow(ls *lease, now leaky.Instant) bool {
	c := &q.spec.Circuit
	return !c.Off && !q.spec.Pull && now.Sub(max(ls.due, q.receiver.slowAt)) >= c.Slow.D()
}

// rearmAndWake recomputes when q can depart after its stop has changed. Slots before that are not lost.
func (m *Machine) rearmAndWake(q *queueState, now leaky.Instant) {
	m.rearm(q, now)
	m.wakeForQueue(q, now)
}

// opens returns the next departure that the paces and the stop allow. A parent's stop concerns only its own jobs.
func (q *queueState) opens(now leaky.Instant) leaky.Instant {
	at := q.paces.opens(now)
	if !q.isParent() {
		at = max(at, q.receiver.stop)
	}
	return q.hours.next(at, now)
}

// eta is paces.eta, starting where the paces will be when the stop ends.
func (q *queueState) eta(of *queueState, goes, now leaky.Instant, ahead int64) (leaky.Instant, *limit) {
	if q.receiver.stop == 0 || q.isParent() {
		return q.paces.eta(of, goes, now, ahead)
	}
	p := q.paces
	p.limits = slices.Clone(p.limits)
	p.rise(q.receiver.stop)
	return p.eta(of, goes, now, ahead)
}

// rise adjusts paces that were stopped until an instant: they have earned nothing meanwhile.
func (p *paces) rise(at leaky.Instant) {
	p.bucket = p.pacer.Rise(p.bucket, at)
	for l := range p.paced {
		l.bucket = l.pacer.Rise(l.bucket, at)
	}
}

// noteDeparture is called before a job is granted at d. If the circuit is open, the job is a probe, and stops the queue
// until the next one.
func (q *queueState) noteDeparture(d leaky.Instant) {
	r := &q.receiver
	if r.stop == 0 {
		return
	}
	q.rise(r.stop)
	r.stop, r.cause, r.reason = 0, "", ""
	if r.opened != 0 {
		r.probe = min(2*r.probe, q.spec.Circuit.MaxProbe.D())
		r.stop, r.cause, r.reason = d.Add(r.probe), queue.StopDown, r.lastFailure
	}
}

// stopUntil stops a lane until an instant, and returns for how much longer.
func (ln *lane) stopUntil(at, now leaky.Instant) time.Duration {
	if at <= max(ln.stopsUntil(now), now) {
		return 0
	}
	ln.stop = at
	ln.queue.laneStopsUntil = max(ln.queue.laneStopsUntil, ln.stopOverAt())
	return at.Sub(now)
}

// stopOverAt returns when a lane's stop, and the burst that follows it, are over.
func (ln *lane) stopOverAt() leaky.Instant {
	if ln.stop == 0 || ln.rule().Rate.Unlimited() {
		return ln.stop
	}
	return tat(ln.rule().Pacer().Rise(leaky.Bucket{}, ln.stop)) + 1
}

// stopsUntil returns when the lane's stop ends; 0 if it delays nothing any more.
func (ln *lane) stopsUntil(now leaky.Instant) leaky.Instant {
	if ln.queue.laneStopsUntil <= now {
		return 0
	}
	return ln.stop
}

// neededUntil returns how long an empty lane must be kept.
func (ln *lane) neededUntil() leaky.Instant {
	if ln.pace == nil {
		return ln.stopOverAt()
	}
	return max(ln.pace.delaysUntil(), ln.stopOverAt())
}
