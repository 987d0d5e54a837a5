package machine

import (
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func newLeases() heap[*lease] {
	return heap[*lease]{
		key:   func(ls *lease) heapKey { return heapKey{int64(ls.deadline), ls.job.lane.queue.number} },
		less:  func(a, b *lease) bool { return a.job.id < b.job.id },
		moved: func(ls *lease, i int) { ls.heapIndex = i },
	}
}

func (m *Machine) lease(j *job, drainer string, departs leaky.Instant) granted {
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

func (m *Machine) dropLease(j *job) {
	if ls := j.lease; ls.heapIndex >= 0 {
		m.leases.remove(ls.heapIndex)
	}
}

const takeBackMax = 100 // leases taken back per call

// takeBack takes back leases that ran out, before drainers' queues are visited, so that their jobs can go again. pulled
// is the queue that is pulled from; nil for a drainer.
func (m *Machine) takeBack(now leaky.Instant, pulled *queueState) (queues []string) {
	for len(queues) < takeBackMax && m.leases.len() > 0 && m.leases.top().deadline <= now && m.Full == nil {
		ls := m.leases.pop()
		if q := ls.job.lane.queue; q.live { // a deleted queue's leases went with it
			m.takeBackOne(ls.job, q == pulled || pulled == nil && !q.spec.Pull, now)
			queues = append(queues, q.name)
		}
	}
	return queues
}

func (m *Machine) takeBackOne(j *job, visits bool, now leaky.Instant) {
	q, ls := j.lane.queue, j.lease
	b := q.leaseLost(ls, now)
	o := &leaseOutcome{job: j, visited: visits}
	q.counters.Expired++
	m.noteFailure(q, now, j.id, b.reason)
	if b.state == queue.Dead {
		d := m.newEndedJob(j, queue.Dead, now)
		d.attempts, d.reason = b.attempts, b.reason
		m.endLeased(o, d, b.timeline, now)
		return
	}
	next := *ls
	next.attempts, next.reason, next.timeline = b.attempts, b.reason, b.timeline
	next.heapIndex, next.fence, next.persisted = -1, fence{}, false
	if b.state == queue.Held {
		next.due = now
	}
	m.returnLeased(o, &next, b.state, nil, now)
}

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
func (m *Machine) persistLease(g *grant, j *job) {
	j.lease.persisted, j.lease.onFile = true, true
	m.current.putLease(j.seq, queue.Leased, j.lease)
	j.lease.commit = m.wait()
	g.wait = j.lease.commit
}

// TakeBackPersisted takes back leases that were on file when the store was loaded. It returns the commit to wait for,
// and whether to call it again.
func (m *Machine) TakeBackPersisted(now leaky.Instant) (wait uint64, more bool) {
	if len(m.takeBack(now, nil)) == 0 {
		return 0, false
	}
	return m.wait(), true
}

// Extend moves deadlines of leases, and returns the commit that the answers wait for.
func (m *Machine) Extend(now leaky.Instant, leases []queue.Lease) (answers []queue.Extended, wait uint64) {
	answers = make([]queue.Extended, len(leases))
	for i := range leases {
		var own uint64
		answers[i], own = m.extend(&leases[i], now)
		wait = max(wait, own)
	}
	return answers, wait
}

func (m *Machine) extend(lease *queue.Lease, now leaky.Instant) (answer queue.Extended, wait uint64) {
	q := m.queues[lease.Queue]
	if q == nil {
		return answer, 0
	}
	j := q.jobs[lease.ID]
	if j == nil || j.state != queue.Leased || j.lease.fence != parseFence(lease.Fence) {
		return answer, 0
	}
	ls := j.lease
	ls.deadline = max(ls.deadline, now.Add(q.spec.Lease.D()))
	m.leases.fix(ls.heapIndex)
	answer.Left = ls.deadline.Sub(now)
	answer.Effect, wait = m.noteSlow(q, ls, now)
	return answer, wait
}

// Reasons of jobs whose lease ran out.
const (
	ranOut        = "the lease ran out"
	ranOutUnknown = "the lease ran out; it may have been sent"
)
