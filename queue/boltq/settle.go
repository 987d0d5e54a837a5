package boltq

import (
	"context"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
)

// settleItem is one settlement of a Settle.
type settleItem struct {
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
	open := make([]*settleItem, 0, len(s))
	all := make([]settleItem, len(s))
	for i := range s {
		if s[i].Verdict < queue.Deliver || s[i].Verdict > queue.Down {
			answers[i].Err = &queue.FieldError{
				Field: "verdict", Reason: "is none of deliver, fail, bury, release, hold, throttle, down",
			}
			continue
		}
		all[i] = settleItem{Settlement: s[i], fence: parseFence(s[i].Fence), answer: &answers[i]}
		open = append(open, &all[i])
	}
	if err := decideAll(ctx, e, open, e.settle); err != nil {
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

// settle decides about a settlement, unless that depends on a change under way.
func (m *machine) settle(s *settleItem, c *call, now leaky.Instant) (busy *call) {
	*s.answer = queue.Settled{Stale: true}
	q := m.queues[s.Queue]
	if q == nil {
		return nil
	}
	if q.busy != nil {
		return q.busy
	}
	j := q.jobs[s.ID]
	if j == nil {
		if d := q.endedJobs.find(s.ID, q.spec.Retention, now); d != nil && d.fence == s.fence &&
			d.verdict == s.Verdict {
			*s.answer = queue.Settled{State: d.result}
		}
		return nil
	}
	if j.busy != nil {
		return j.busy
	}
	ls := j.lease
	switch {
	case ls == nil || s.fence == fence{}:
	case j.state == queue.Leased && ls.fence == s.fence:
		m.endLease(s, j, c, now)
	case ls.settled == s.fence && ls.verdict == s.Verdict:
		*s.answer = queue.Settled{State: ls.result}
	}
	return nil
}

// endLease ends a valid lease.
func (m *machine) endLease(s *settleItem, j *job, c *call, now leaky.Instant) {
	q, ls := j.lane.queue, j.lease
	if s.Verdict == queue.Release && !ls.persisted {
		m.release(j, now)
		c.countReleased(q)
		*s.answer = queue.Settled{State: queue.Waiting}
		return
	}
	j.busy = c
	o := leaseOutcome{call: c, job: j, at: now, answer: s.answer, before: q.receiver, after: q.receiver}
	if s.Verdict == queue.Release {
		m.enqueue(c, &releaseChange{o})
		return
	}
	o.signal = q.rateSignal(&s.Settlement, j.lane.keyed(), c.releasedTo[q], now)
	open := q.receiver.opened != 0
	o.probe = open && ls.due >= q.receiver.opened && (s.Verdict == queue.Down || s.Verdict == queue.Fail && s.Trouble)
	o.effect = m.updateReceiver(q, &s.Settlement, j.lane.keyed(), ls.due, now)
	o.after = q.receiver
	attempts := ls.attempts + 1
	if s.Verdict == queue.Deliver {
		d := m.newEndedJob(j, queue.Delivered, now)
		d.attempts, d.verdict, d.reason, d.departed, d.drainer = attempts, s.Verdict, "", ls.due, ls.drainer
		m.enqueue(c, &endChange{leaseOutcome: o, ended: d})
		return
	}
	reason := strings.Clone(queue.Cut(s.Reason, queue.MaxReasonBytes))
	if spared := throttledOutcome(s.Verdict); spared != queue.UnderWay {
		o.unused = s.Unused && s.Verdict == queue.Down
		to := *ls
		to.settled, to.verdict, to.result = s.fence, s.Verdict, queue.Waiting
		to.due, to.heapIndex, to.persisted = 0, -1, false
		if s.Verdict == queue.Throttle && s.LaneOnly && j.lane.keyed() {
			to.due = now.Add(max(0, min(s.After, queue.MaxStop)))
		}
		to.timeline = jobrecord.AppendAttempt(ls.timeline, ls.attempt(spared, reason, now))
		m.enqueue(c, &returnChange{leaseOutcome: o, next: to, state: queue.Waiting})
		return
	}
	o.failed, o.reason = true, reason
	if s.Verdict == queue.Hold {
		to := lease{
			job: j, attempts: attempts, settled: s.fence, verdict: s.Verdict, result: queue.Held, due: now,
			reason: reason, heapIndex: -1,
			timeline: jobrecord.AppendAttempt(ls.timeline, ls.attempt(queue.AttemptUnknown, reason, now)),
		}
		m.enqueue(c, &returnChange{leaseOutcome: o, next: to, state: queue.Held})
		return
	}
	how, due := queue.AttemptFailed, now.Add(max(0, s.After))
	if open && s.Verdict == queue.Fail && s.Trouble { // a target that is down is no fault of the job
		attempts, how = ls.attempts, queue.AttemptDown
	} else if s.Verdict == queue.Bury || attempts >= q.spec.Retry.MaxAttempts ||
		q.spec.Retry.Deadline != 0 && due > j.appended.Add(q.spec.Retry.Deadline.D()) {
		d := m.newEndedJob(j, queue.Dead, now)
		d.attempts, d.verdict, d.reason = attempts, s.Verdict, reason
		m.enqueue(c, &endChange{
			leaseOutcome: o, ended: d,
			timeline: jobrecord.AppendAttempt(ls.timeline, ls.attempt(queue.AttemptDied, reason, now)),
		})
		return
	}
	to := lease{
		job: j, attempts: attempts, settled: s.fence, verdict: s.Verdict, result: queue.Scheduled,
		due: due, reason: reason, heapIndex: -1,
		timeline: jobrecord.AppendAttempt(ls.timeline, ls.attempt(how, reason, now)),
	}
	o.down = how == queue.AttemptDown
	m.enqueue(c, &returnChange{leaseOutcome: o, next: to, state: queue.Scheduled})
}

// throttledOutcome is how an attempt ended that does not count: the receiver did not look at the job, or was too
// busy. Others give queue.UnderWay.
func throttledOutcome(v queue.Verdict) queue.AttemptOutcome {
	switch v {
	case queue.Throttle:
		return queue.AttemptThrottled
	case queue.Down:
		return queue.AttemptDown
	}
	return queue.UnderWay
}

// release gives a job back unused. Nothing is written unless the lease itself is on file: on disk the job waits
// already. If it was the latest departure, its slot can be used again.
func (m *machine) release(j *job, now leaky.Instant) {
	q, ls := j.lane.queue, j.lease
	m.dropLease(j)
	ls.settled, ls.verdict, ls.result = ls.fence, queue.Release, queue.Waiting
	if ls.fence.epoch == m.epoch {
		q.giveBackDeparture(ls, int64(j.cost), now)
	}
	q.unsaved.Released++
	q.outflow.add(now, -1)
	m.putWaiting(j, now)
	m.wakeForExpiry(j, now)
	m.armAndWake(q, now)
	m.announceRoom(q, now)
}
