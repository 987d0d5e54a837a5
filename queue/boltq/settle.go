package boltq

import (
	"context"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// settling is one settlement on its way.
type settling struct {
	queue.Settlement
	fence  fence
	answer *queue.Settled
}

// Settle implements queue.Outflow.
func (e *Engine) Settle(ctx context.Context, s []queue.Settlement) ([]queue.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answers := make([]queue.Settled, len(s))
	open := make([]*settling, 0, len(s))
	all := make([]settling, len(s))
	for i := range s {
		if s[i].Verdict < queue.Deliver || s[i].Verdict > queue.Down {
			answers[i].Err = &queue.FieldError{Field: "verdict", Reason: "is none of deliver, fail, bury, release, hold, throttle, down"}
			continue
		}
		all[i] = settling{Settlement: s[i], fence: parseFence(s[i].Fence), answer: &answers[i]}
		open = append(open, &all[i])
	}
	if err := rounds(ctx, e, open, e.settle); err != nil {
		return nil, err
	}
	for i := range answers {
		if answers[i].Err == nil {
			return answers, nil
		}
	}
	if len(answers) == 0 {
		return nil, nil
	}
	return answers, answers[0].Err // nothing could be decided
}

// settle decides a settlement, unless it depends on changes under way.
func (e *Engine) settle(s *settling, c *call, now leaky.Instant) (busy *call) {
	*s.answer = queue.Settled{Stale: true}
	l := e.lines[s.Queue]
	if l == nil {
		return nil
	}
	if l.busy != nil {
		return l.busy
	}
	j := l.jobs[s.ID]
	if j == nil {
		if d := l.ended.find(s.ID, l.spec.Retention, now); d != nil && d.fence == s.fence && d.verdict == s.Verdict {
			*s.answer = queue.Settled{State: d.result}
		}
		return nil
	}
	if j.busy != nil {
		return j.busy
	}
	f := j.flight
	switch {
	case f == nil || s.fence == fence{}:
	case j.state == queue.Leased && f.fence == s.fence:
		e.end(s, j, c, now)
	case f.settled == s.fence && f.verdict == s.Verdict:
		*s.answer = queue.Settled{State: f.result}
	}
	return nil
}

// end ends a lease that stands.
func (e *Engine) end(s *settling, j *job, c *call, now leaky.Instant) {
	l, f := j.lane.line, j.flight
	if s.Verdict == queue.Release && !f.lent {
		e.release(j, now)
		c.brought(l)
		*s.answer = queue.Settled{State: queue.Waiting}
		return
	}
	j.busy = c
	o := outcome{call: c, job: j, at: now, answer: s.answer, before: l.heard, after: l.heard}
	if s.Verdict == queue.Release {
		e.enqueue(c, &releasing{o})
		return
	}
	o.told = l.tells(&s.Settlement, j.lane.keyed(), c.back[l], now)
	open := l.heard.opened != 0
	o.probe = open && f.due >= l.heard.opened && (s.Verdict == queue.Down || s.Verdict == queue.Fail && s.Trouble)
	o.effect = e.hears(l, &s.Settlement, j.lane.keyed(), f.due, now)
	o.after = l.heard
	attempts := f.attempts + 1
	if s.Verdict == queue.Deliver {
		d := e.epitaph(j, queue.Delivered, now)
		d.attempts, d.verdict, d.reason, d.departed, d.drainer = attempts, s.Verdict, "", f.due, f.drainer
		e.enqueue(c, &ending{outcome: o, end: d})
		return
	}
	reason := strings.Clone(queue.Cut(s.Reason, queue.MaxReasonBytes))
	if spared := spares(s.Verdict); spared != queue.UnderWay {
		o.unused = s.Unused && s.Verdict == queue.Down
		to := *f
		to.settled, to.verdict, to.result, to.due, to.place, to.lent = s.fence, s.Verdict, queue.Waiting, 0, -1, false
		if s.Verdict == queue.Throttle && s.LaneOnly && j.lane.keyed() {
			to.due = now.Add(max(0, min(s.After, queue.MaxHold)))
		}
		to.past = queue.AppendAttempt(f.past, f.attempt(spared, reason, now))
		e.enqueue(c, &returning{outcome: o, to: to, state: queue.Waiting})
		return
	}
	o.failed, o.reason = true, reason
	if s.Verdict == queue.Hold {
		to := flight{
			job: j, attempts: attempts, settled: s.fence, verdict: s.Verdict, result: queue.Held, due: now, reason: reason, place: -1,
			past: queue.AppendAttempt(f.past, f.attempt(queue.AttemptUnknown, reason, now)),
		}
		e.enqueue(c, &returning{outcome: o, to: to, state: queue.Held})
		return
	}
	how, due := queue.AttemptFailed, now.Add(max(0, s.After))
	if open && s.Verdict == queue.Fail && s.Trouble { // what is down is no job's fault
		attempts, how = f.attempts, queue.AttemptDown
	} else if s.Verdict == queue.Bury || attempts >= l.spec.Retry.MaxAttempts || l.spec.Retry.Deadline != 0 && due > j.appended.Add(l.spec.Retry.Deadline.D()) {
		d := e.epitaph(j, queue.Dead, now)
		d.attempts, d.verdict, d.reason = attempts, s.Verdict, reason
		e.enqueue(c, &ending{outcome: o, end: d, past: queue.AppendAttempt(f.past, f.attempt(queue.AttemptDied, reason, now))})
		return
	}
	to := flight{
		job: j, attempts: attempts, settled: s.fence, verdict: s.Verdict, result: queue.Scheduled,
		due: due, reason: reason, place: -1,
		past: queue.AppendAttempt(f.past, f.attempt(how, reason, now)),
	}
	o.down = how == queue.AttemptDown
	e.enqueue(c, &returning{outcome: o, to: to, state: queue.Scheduled})
}

// spares says how an attempt ended that is none: what the receiver did not look at, or was too busy for.
func spares(v queue.Verdict) queue.AttemptOutcome {
	switch v {
	case queue.Throttle:
		return queue.AttemptThrottled
	case queue.Down:
		return queue.AttemptDown
	}
	return queue.UnderWay
}

// release gives a job back unused. Nothing of it is on disk: but for those on file a lease is not,
// and a job without one waits. The slot can be used again if it was the last.
func (e *Engine) release(j *job, now leaky.Instant) {
	l, f := j.lane.line, j.flight
	e.unlease(j)
	f.settled, f.verdict, f.result = f.fence, queue.Release, queue.Waiting
	if f.fence.epoch == e.epoch {
		l.regain(f, int64(j.cost), now)
	}
	l.loose.released++
	l.outflow.add(now, -1)
	e.wait(j, now)
	e.heed(j, now)
	e.due(l, now)
	e.tellRoom(l, now)
}

// epitaph is what will be remembered of a job.
func (e *Engine) epitaph(j *job, s queue.State, now leaky.Instant) *ended {
	e.store.ended++
	d := &ended{
		id: j.id, key: e.store.ended, fence: j.flight.fence, result: s, state: s, print: j.print,
		cost: j.cost, appended: j.appended, at: now, reason: j.flight.reason,
	}
	if s == queue.Dead {
		d.seq = j.seq
	}
	return d
}

// Extend implements queue.Outflow.
func (e *Engine) Extend(ctx context.Context, leases []queue.Lease) ([]time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	left := make([]time.Duration, len(leases))
	open := make([]int, len(leases))
	for i := range leases {
		open[i] = i
	}
	err := rounds(ctx, e, open, func(i int, _ *call, now leaky.Instant) (busy *call) {
		left[i], busy = e.extend(leases[i], now)
		return busy
	})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// extend extends a lease, unless that depends on changes under way, and says what is
// left of it.
func (e *Engine) extend(lease queue.Lease, now leaky.Instant) (left time.Duration, busy *call) {
	l := e.lines[lease.Queue]
	if l == nil {
		return 0, nil
	}
	if l.busy != nil {
		return 0, l.busy
	}
	j := l.jobs[lease.ID]
	if j == nil {
		return 0, nil
	}
	if j.busy != nil {
		return 0, j.busy
	}
	f := j.flight
	if j.state != queue.Leased || f.fence != parseFence(lease.Fence) {
		return 0, nil
	}
	f.deadline = max(f.deadline, now.Add(l.spec.Lease.D()))
	e.leases.fix(f.place)
	return f.deadline.Sub(now), nil
}
