package machine

import (
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// settling is the state of one call of Settle. On Redis, one call may join those of several callers.
type settling struct {
	index    int // of the settlement
	adapting map[*queueState]*adapting
	// New rates to set. They are set when all settlements of the call have given back what was never used. Changing a
	// bucket's rate rounds it, so the order matters, and both engines keep to it.
	rates   []adaptedTo
	budgets []statedBudget
}

// adapting is what a call must know of a queue with an adapted rate.
type adapting struct {
	// held is whether the bucket delayed the next job when the call came, whatever the call has given back since. Nothing
	// else that may delay the job is looked at: limits, the parent, stops, pauses and lanes.
	held     bool
	cameBack int64 // how many jobs came back to wait
}

type adaptedTo struct {
	queue *queueState
	rate  *adaptedRate
}

// Settle ends leases independently of each other, and returns the commit that the answers wait for.
func (m *Machine) Settle(now leaky.Instant, list []queue.Settlement) (answers []queue.Settled, wait uint64) {
	answers = make([]queue.Settled, len(list))
	c := &settling{}
	for i := range list {
		s := &list[i]
		if s.Verdict < queue.Deliver || s.Verdict > queue.Down {
			answers[i].Err = invalid.Errorf("verdict", "", "must be deliver, fail, bury, release, hold, throttle or down")
			continue
		}
		if err := queue.ValidateCosts("actual", s.Actual); err != nil {
			answers[i].Err = err
			continue
		}
		var own uint64
		c.index = i
		answers[i], own = m.settle(c, s, now)
		wait = max(wait, own)
	}
	for _, a := range c.rates {
		m.setAdaptedRate(a.queue, a.rate, now)
	}
	for i := range c.budgets {
		if m.learn(&c.budgets[i], &answers[c.budgets[i].index].Effect, now) {
			wait = max(wait, m.wait())
		}
	}
	return answers, wait
}

// settle decides about a settlement. Invariant 6: a stale fence changes nothing, and the same settlement twice gets the
// same answer.
func (m *Machine) settle(c *settling, s *queue.Settlement, now leaky.Instant) (answer queue.Settled, wait uint64) {
	answer.Stale = true
	q, f := m.queues[s.Queue], parseFence(s.Fence)
	if q == nil {
		return answer, m.unlessDurable(m.deletedBy)
	}
	if err := q.checkActual(s.Actual); err != nil {
		return queue.Settled{Err: err}, 0
	}
	j := q.jobs[s.ID]
	if j == nil {
		d := q.endedJobs.find(s.ID, q.spec.Retention, now)
		if d != nil && d.fence == f && d.verdict == s.Verdict {
			return queue.Settled{State: d.result}, m.waitsForEnded(d)
		}
		return answer, 0
	}
	ls := j.lease
	switch {
	case ls == nil || f == fence{}:
	case j.state == queue.Leased && ls.fence == f:
		return m.endLease(c, s, j, now)
	case ls.settled == f && ls.verdict == s.Verdict:
		return queue.Settled{State: ls.result}, m.unlessDurable(ls.commit)
	}
	return answer, 0
}

func (m *Machine) endLease(
	c *settling, s *queue.Settlement, j *job, now leaky.Instant,
) (answer queue.Settled, wait uint64) {
	q, ls := j.lane.queue, j.lease
	c.noteBefore(q, now)
	if p := q.parent(); p != nil {
		c.noteBefore(p, now)
	}
	if s.Verdict == queue.Release {
		var was *lease
		if ls.persisted { // else a restart would hold a job that was never sent
			before, to := *ls, *ls
			was = &before
			m.current.endedLeases = append(m.current.endedLeases, was)
			to.settled, to.verdict, to.result = to.fence, queue.Release, queue.Waiting
			ls.persisted, ls.commit = false, m.touch(q).Number
			m.holdLane(j.lane)
			m.current.putLease(j.seq, queue.Waiting, &to)
			wait = m.wait()
			q.counters.Released++
		} else {
			q.count().Released++
		}
		if back, given := m.release(j, now); given && was != nil {
			back.lease = was
			m.current.givenBack = append(m.current.givenBack, back)
		}
		c.countBack(q)
		return queue.Settled{State: queue.Waiting}, wait
	}
	o := &leaseOutcome{job: j, by: s}
	signal := q.rateSignal(s, j.lane.keyed(), c.adapting[q])
	open := q.receiver.opened != 0
	o.unused = s.Unused && s.Verdict == queue.Down || s.NoTarget && s.Verdict == queue.Throttle
	o.probe = open && ls.due >= q.receiver.opened && (s.Verdict == queue.Down || s.Verdict == queue.Fail && s.Trouble)
	m.correctCharges(o, s.Actual, now)
	answer = queue.Settled{Effect: m.updateReceiver(q, s, j.lane.keyed(), ls.due, now)}
	from, to := c.adapt(q, signal, ls.due, now)
	if q.adapted != nil && q.adapted.learns != "" {
		c.budgets = append(c.budgets, statedBudget{c.index, q, ls.due, s.Budget})
	}
	answer.State = m.settleAs(o, open, &answer.Effect, now)
	if answer.State == queue.Waiting {
		c.countBack(q)
	}
	if from != to && from.Rate != to.Rate {
		answer.Effect.From, answer.Effect.To = from.Rate, to.Rate
	}
	return answer, m.wait()
}

// settleAs ends a lease by a verdict other than Release, and returns the job's state; open says whether the circuit was
// open.
func (m *Machine) settleAs(o *leaseOutcome, open bool, effect *queue.Effect, now leaky.Instant) queue.State {
	j, s := o.job, o.by
	q, ls, attempts := j.lane.queue, j.lease, j.lease.attempts+1
	if s.Verdict == queue.Deliver {
		d := m.newEndedJob(j, queue.Delivered, now)
		d.attempts, d.verdict, d.reason, d.departed, d.drainer = attempts, s.Verdict, "", ls.due, ls.drainer
		return m.endLeased(o, d, nil, now)
	}
	reason := strings.Clone(clip.Text(s.Reason, queue.MaxReasonBytes))
	next := lease{
		job: j, attempts: attempts, settled: ls.fence, verdict: s.Verdict, reason: reason, heapIndex: -1,
	}
	if spared := throttledOutcome(s.Verdict); spared != queue.UnderWay {
		next = *ls
		next.settled, next.verdict, next.result = ls.fence, s.Verdict, queue.Waiting
		next.due, next.heapIndex, next.persisted = 0, -1, false
		if s.Verdict == queue.Throttle && s.LaneOnly && !s.NoTarget && j.lane.keyed() {
			next.due = now.Add(max(0, min(s.After, queue.MaxStop)))
		}
		next.timeline = jobrecord.AppendAttempt(ls.timeline, ls.attempt(spared, reason, now))
		return m.returnLeased(o, &next, queue.Waiting, effect, now)
	}
	m.noteFailure(q, now, j.id, reason)
	if s.Verdict == queue.Hold {
		next.result, next.due = queue.Held, now
		next.timeline = jobrecord.AppendAttempt(ls.timeline, ls.attempt(queue.AttemptUnknown, reason, now))
		return m.returnLeased(o, &next, queue.Held, effect, now)
	}
	how, due := queue.AttemptFailed, m.wall(now).Add(max(0, s.After))
	if open && s.Verdict == queue.Fail && s.Trouble { // a target that is down is not the job's fault
		next.attempts, how, o.down = ls.attempts, queue.AttemptDown, true
	} else if s.Verdict == queue.Bury || attempts >= q.spec.Retry.MaxAttempts ||
		q.spec.Retry.Deadline != 0 && m.engine(due) > j.appended.Add(q.spec.Retry.Deadline.D()) {
		d := m.newEndedJob(j, queue.Dead, now)
		d.attempts, d.verdict, d.reason = attempts, s.Verdict, reason
		past := jobrecord.AppendAttempt(ls.timeline, ls.attempt(queue.AttemptDied, reason, now))
		return m.endLeased(o, d, past, now)
	}
	next.result, next.due = queue.Scheduled, due
	next.timeline = jobrecord.AppendAttempt(ls.timeline, ls.attempt(how, reason, now))
	return m.returnLeased(o, &next, queue.Scheduled, effect, now)
}

// noteBefore notes the state of a queue with an adapted rate before the call gives anything back.
func (c *settling) noteBefore(q *queueState, now leaky.Instant) {
	if q.adapted == nil || c.adapting[q] != nil {
		return
	}
	if c.adapting == nil {
		c.adapting = map[*queueState]*adapting{}
	}
	c.adapting[q] = &adapting{held: q.pacer.Next(q.bucket, now) > now}
}

func (c *settling) countBack(q *queueState) {
	if a := c.adapting[q]; a != nil {
		a.cameBack++
	}
}

// adapt applies a signal after those of earlier settlements in the call.
func (c *settling) adapt(q *queueState, signal rateSignal, departed, now leaky.Instant) (from, to *adaptedRate) {
	from = q.adapted
	for i := range c.rates {
		if c.rates[i].queue == q {
			from = c.rates[i].rate
		}
	}
	if !signal.refused && !signal.taken || from == nil {
		return from, from
	}
	if to = from.after(signal, departed, now); to != from {
		c.rates = append(c.rates, adaptedTo{q, to})
	}
	return from, to
}

// throttledOutcome returns the outcome of an attempt that does not count, because the receiver did not look at the job
// or was too busy. For other verdicts it returns queue.UnderWay.
func throttledOutcome(v queue.Verdict) queue.AttemptOutcome {
	switch v {
	case queue.Throttle:
		return queue.AttemptThrottled
	case queue.Down:
		return queue.AttemptDown
	}
	return queue.UnderWay
}

// release gives a job back unused. Nothing is written unless the lease itself is on file: on file the job waits
// already. If it was the latest departure, its slot can be used again.
func (m *Machine) release(j *job, now leaky.Instant) (back givenBack, given bool) {
	q, ls := j.lane.queue, j.lease
	m.dropLease(j)
	ls.settled, ls.verdict, ls.result = ls.fence, queue.Release, queue.Waiting
	if given = ls.fence.epoch == m.epoch; given {
		back = q.giveBackDeparture(ls, j.bill(), now)
	}
	q.outflow.add(now, -1)
	m.putWaiting(j, now)
	m.wakeForExpiry(j, now)
	m.armAndWake(q, now)
	m.announceRoom(q, now)
	return back, given
}

type leaseOutcome struct {
	job     *job
	by      *queue.Settlement // nil if it ran out
	visited bool              // the Reserve that found the lease over visits the queue anyway
	down    bool              // a failure that counts as the target's fault
	unused  bool              // the job did not even start
	probe   bool              // it was a probe of an open circuit, and failed
	// corrected says that its charges were corrected, so that jobs may leave sooner.
	corrected bool
}

func (o *leaseOutcome) ranOut() bool { return o.by == nil }

// endLeased ends a leased job as delivered or dead; timeline is for dead jobs.
func (m *Machine) endLeased(o *leaseOutcome, d *endedJob, timeline []byte, now leaky.Instant) queue.State {
	j, q, c := o.job, o.job.lane.queue, m.touch(o.job.lane.queue)
	if d.state == queue.Delivered {
		q.counters.Delivered++
		c.dropJob(j.seq)
	} else {
		q.counters.Died++
	}
	if j.lease.onFile {
		c.dropLease(j.seq)
	}
	c.putEnded(q, d, timeline)
	m.dropLease(j)
	c.endedLeases = append(c.endedLeases, j.lease)
	freed := m.leaveFlight(j, d.state, now)
	m.removeJob(j, d.state, now)
	m.rememberEnded(q, d, now)
	m.lookAfter(o, freed || o.ranOut() || o.corrected, now)
	return d.state
}

// returnLeased puts a leased job back. It waits at its turn if its lease ran out or the receiver did not take it
// (invariant 2), is scheduled if it failed, or is held.
func (m *Machine) returnLeased(
	o *leaseOutcome, next *lease, to queue.State, effect *queue.Effect, now leaky.Instant,
) queue.State {
	j, q, c := o.job, o.job.lane.queue, m.touch(o.job.lane.queue)
	switch {
	case o.ranOut() || to == queue.Held:
	case next.verdict == queue.Throttle:
		q.counters.Throttled++
	case next.verdict == queue.Down || o.down:
		q.counters.Down++
	default:
		q.counters.Retried++
	}
	c.putLease(j.seq, to, next)
	m.dropLease(j)
	back, given := o.giveBack(now)
	counts, was := j.lease.inFlight, *j.lease
	c.endedLeases = append(c.endedLeases, &was)
	if back.lease = &was; given {
		c.givenBack = append(c.givenBack, back)
	}
	*j.lease = *next
	j.lease.heapIndex, j.lease.onFile, j.lease.inFlight, j.lease.commit = -1, true, counts, c.Number
	look := true
	switch to {
	case queue.Scheduled:
		m.leaveFlight(j, queue.Scheduled, now)
		pushTo(&q.scheduled, byDue, j.lease)
	case queue.Held:
		look = m.leaveFlight(j, queue.Held, now) || o.ranOut() || o.corrected
		pushTo(&q.held, byDue, j.lease)
	default:
		m.holdLane(j.lane)
		m.putWaiting(j, now)
	}
	if !o.ranOut() && idle(to) {
		m.wakeForExpiry(j, now)
	}
	if !o.ranOut() && next.verdict == queue.Throttle && next.due != 0 {
		effect.Stopped = j.lane.stopUntil(next.due, now)
	}
	m.lookAfter(o, look, now)
	return to
}

// lookAfter updates when the queue of a job whose lease ended can next depart.
func (m *Machine) lookAfter(o *leaseOutcome, look bool, now leaky.Instant) {
	q := o.job.lane.queue
	if o.visited {
		m.arm(q, now)
	} else if look {
		m.armAndWake(q, now)
	}
	m.announceRoom(q, now)
}

// giveBack gives back what a job took that never started: its departure and its share of quotas. With the circuit off
// nothing is given back, since nothing else limits how often the target is tried. A probe gives back to quotas only.
func (o *leaseOutcome) giveBack(now leaky.Instant) (b givenBack, given bool) {
	q, ls := o.job.lane.queue, o.job.lease
	switch {
	case o.unused && (o.by.NoTarget || !q.spec.Circuit.Off):
		b, given = q.giveBackDeparture(ls, o.job.bill(), now), true
	case o.probe:
		q.refundQuotas(ls, o.job.bill(), now)
		given = true
	}
	if o.unused {
		q.outflow.add(now, -1)
	}
	return b, given
}
