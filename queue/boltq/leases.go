package boltq

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
)

func newLeases() heap[*lease] {
	return heap[*lease]{
		less: func(a, b *lease) bool {
			if a.deadline != b.deadline {
				return a.deadline < b.deadline
			}
			if a.job.lane.queue != b.job.lane.queue {
				return a.job.lane.queue.number < b.job.lane.queue.number
			}
			return a.job.id < b.job.id
		},
		moved: func(ls *lease, i int) { ls.heapIndex = i },
	}
}

// lease grants a job to a client.
func (m *machine) lease(j *job, drainer string, departs leaky.Instant) granted {
	m.lastFence++
	q, ls := j.lane.queue, j.ensureLease()
	ls.fence = fence{m.epoch, m.lastFence}
	ls.due, ls.deadline = departs, departs.Add(q.spec.Lease.D())
	ls.drainer = drainer
	q.lastFence = m.lastFence
	if q.group != nil {
		q.group.lastFence = m.lastFence
	}
	m.setState(j, queue.Leased)
	m.leases.push(ls)
	return granted{job: j, fence: ls.fence, departs: departs, attempt: ls.attempts + 1}
}

// dropLease takes a job out of the heap of leases, if it is there.
func (m *machine) dropLease(j *job) {
	if ls := j.lease; ls.heapIndex >= 0 {
		m.leases.remove(ls.heapIndex)
	}
}

const takeBackMax = 100 // leases that ran out, a call

// takeBack takes back leases that ran out: all before drainers' queues are visited, so that their jobs can go
// again. pulled is the queue that is pulled from; nil for a drainer.
func (m *machine) takeBack(now leaky.Instant, pulled *queueState, expired *[]string) *call {
	c := newCall()
	var later []*lease
	for c.enqueued < takeBackMax && m.leases.len() > 0 && m.leases.top().deadline <= now && m.room.full == nil {
		ls := m.leases.pop()
		switch q := ls.job.lane.queue; {
		case !q.live: // the queue was deleted, and its leases with it
		case q.busy != nil || ls.job.busy != nil: // a change under way decides what becomes of it
			later = append(later, ls)
		default:
			m.takeBackOne(c, ls.job, now, q == pulled || pulled == nil && !q.spec.Pull, expired)
		}
	}
	for _, ls := range later {
		m.leases.push(ls)
	}
	return c
}

func (m *machine) takeBackOne(c *call, j *job, now leaky.Instant, visits bool, expired *[]string) {
	j.busy = c
	ls := j.lease
	b := j.lane.queue.leaseLost(ls, now)
	o := leaseOutcome{call: c, job: j, at: now, failed: true, reason: b.reason, visited: visits}
	o.onExpired = func() { *expired = append(*expired, j.lane.queue.spec.Name) }
	if b.state == queue.Dead {
		d := m.newEndedJob(j, queue.Dead, now)
		d.attempts, d.reason = b.attempts, b.reason
		m.enqueue(c, &endChange{leaseOutcome: o, ended: d, timeline: b.timeline})
		return
	}
	to := *ls
	to.attempts, to.reason, to.timeline = b.attempts, b.reason, b.timeline
	to.heapIndex, to.fence, to.persisted = -1, fence{}, false
	if b.state == queue.Held {
		to.due = now
	}
	m.enqueue(c, &returnChange{leaseOutcome: o, next: to, state: b.state})
}

// lostLease is what becomes of a job whose lease has run out.
type lostLease struct {
	state    queue.State
	attempts int
	reason   string
	timeline []byte
}

func (q *queueState) leaseLost(ls *lease, now leaky.Instant) lostLease {
	a := lostLease{state: q.spec.Abandoned(), attempts: ls.attempts + 1, reason: ranOutUnknown}
	how := queue.AttemptUnknown
	switch a.state {
	case queue.Waiting:
		how, a.reason = queue.AttemptLost, ranOut
		if a.attempts >= q.spec.Retry.MaxAttempts {
			a.state = queue.Dead
		}
	case queue.Dead:
		how = queue.AttemptDied
	}
	a.timeline = jobrecord.AppendAttempt(ls.timeline, ls.attempt(how, "", now))
	return a
}

// persistLease puts a lease on file before the grant is answered: if the process dies, the job may have been sent.
func (m *machine) persistLease(g *grant, j *job) {
	if g.leaseCall == nil {
		g.leaseCall = newCall()
	}
	// now already: whoever ends it, even in the same commit, deletes the record
	j.lease.persisted, j.lease.onFile = true, true
	m.enqueue(g.leaseCall, &persistLeaseChange{fileChange: fileChange{g.leaseCall}, job: j, lease: *j.lease})
}

// persistLeaseChange puts a lease on disk.
type persistLeaseChange struct {
	fileChange
	job   *job
	lease lease
}

func (c *persistLeaseChange) prepare(b *batch) { b.putLease(c.job.seq, queue.Leased, &c.lease) }

// takeBackPersisted takes back the leases that the file had when it was opened. If there is no room to do so, the
// next Reserve does.
func (e *Engine) takeBackPersisted(ctx context.Context) error {
	for {
		var queues []string
		e.lock()
		c := e.takeBack(e.now(), nil, &queues)
		e.unlock()
		if c.enqueued == 0 {
			return nil
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		if c.err != nil {
			e.log.Warn("jobs that were leased when the store was closed are not taken back yet", "error", c.err)
			return nil
		}
	}
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
	err := decideAll(ctx, e, open, func(i int, _ *call, now leaky.Instant) (busy *call) {
		left[i], busy = e.extend(leases[i], now)
		return busy
	})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// extend extends a lease, unless that depends on a change under way, and returns what is left of it.
func (m *machine) extend(lease queue.Lease, now leaky.Instant) (left time.Duration, busy *call) {
	q := m.queues[lease.Queue]
	if q == nil {
		return 0, nil
	}
	if q.busy != nil {
		return 0, q.busy
	}
	j := q.jobs[lease.ID]
	if j == nil {
		return 0, nil
	}
	if j.busy != nil {
		return 0, j.busy
	}
	ls := j.lease
	if j.state != queue.Leased || ls.fence != parseFence(lease.Fence) {
		return 0, nil
	}
	ls.deadline = max(ls.deadline, now.Add(q.spec.Lease.D()))
	m.leases.fix(ls.heapIndex)
	return ls.deadline.Sub(now), nil
}

// The reasons of jobs whose lease ran out.
const (
	ranOut        = "the lease ran out"
	ranOutUnknown = "the lease ran out; it may have been sent"
)
