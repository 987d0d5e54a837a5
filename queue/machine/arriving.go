package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// reservePlace gives a job its place and its turn, and raises the ceilings by which it may leave soon.
func (m *Machine) reservePlace(j *job, in *queue.Job, now leaky.Instant) {
	q, cost := j.lane.queue, int64(j.cost)
	j.turn = turnOf(q.turn, in.Priority)
	q.turn += cost
	q.noteCost(cost)
	q.plain = q.plain && !notPlain(in)
	q.addJob(j)
	q.setExpiry(j, instantOf(in.ExpiresAt))
	q.addIncoming(j, scheduledUntil(in, m.wall(now)))
	m.raiseWithAppend(q, now, cost)
}

// arriving reports whether a job's commit is not durable yet: it has a place and a turn, and is in no lane.
func (j *job) arriving() bool { return j.state == queue.StateNone && j.lane.queue.jobs[j.id] == j }

// stateToBe is a job's state, of an arriving one that which it will have.
func (j *job) stateToBe() queue.State {
	switch {
	case j.state != queue.StateNone:
		return j.state
	case j.lease != nil:
		return queue.Scheduled
	}
	return queue.Waiting
}

// incoming is what a queue has reserved for arriving jobs. Decisions count those that will wait as waiting.
type incoming struct {
	all     int64 // places
	waiting int64 // jobs that will wait, with
	cost    int64
	lanes   int           // lanes with such jobs in which none waits yet
	later   *heap[*lease] // jobs that will be scheduled
}

// scheduled is how many incoming jobs will be scheduled.
func (c *incoming) scheduled() int64 {
	if c.later == nil {
		return 0
	}
	return int64(c.later.len())
}

// addIncoming reserves a place in the queue and the job's lane. dueAt is 0 unless the job is scheduled.
func (q *queueState) addIncoming(j *job, dueAt leaky.Instant) {
	c := &q.incoming
	c.all++
	q.addToLane(j)
	if dueAt != 0 {
		j.ensureLease().due = dueAt
		if c.later == nil {
			later := newLater()
			c.later = &later
		}
		c.later.push(j.lease)
		return
	}
	if j.lane.empty() {
		c.lanes++
	}
	c.waiting++
	c.cost += int64(j.cost)
	*j.lane.incomingOf(j.priority())++
	if q.group != nil {
		q.group.addIncoming(q, 1)
	}
}

// removeIncoming takes a job out of the incoming ones.
func (q *queueState) removeIncoming(j *job) {
	c := &q.incoming
	c.all--
	if j.lease != nil {
		c.later.remove(j.lease.heapIndex)
		return
	}
	c.waiting--
	c.cost -= int64(j.cost)
	if q.group != nil {
		q.group.addIncoming(q, -1)
	}
	*j.lane.incomingOf(j.priority())--
	if j.lane.empty() {
		c.lanes--
	}
}

// empty reports whether no jobs wait in the lane or are about to.
func (ln *lane) empty() bool { return ln.waiting.len() == 0 && ln.incomingTotal() == 0 }
