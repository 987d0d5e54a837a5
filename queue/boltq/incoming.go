package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// reservePlace reserves the place and the turn of a job, and returns the ceilings that go
// with it.
func (q *queueState) reservePlace(j *job, in *queue.Job, c *call, now leaky.Instant) ceilingRaises {
	cost := int64(j.cost)
	j.turn = turnOf(q.turn, in.Priority)
	q.turn += cost
	q.noteCost(cost)
	q.plain = q.plain && !notPlain(in)
	q.jobs[j.id] = j
	q.setExpiry(j, instantOf(in.ExpiresAt))
	q.addIncoming(j, scheduledUntil(in, now))
	return q.ceilingRaises(now, cost, c)
}

// exit gives up what enter reserved.
func (e *Engine) exit(j *job, now leaky.Instant) {
	q := j.lane.queue
	j.busy = nil
	q.removeIncoming(j)
	e.removeJob(j, now)
	if q.turn == j.turnBase()+int64(j.cost) {
		q.turn = j.turnBase()
	}
}

// incoming is what a queue has reserved for jobs on their way to disk. Those that will
// wait count as waiting for whoever is judged after them.
type incoming struct {
	all     int64 // places
	waiting int64 // of jobs that will wait, with
	cost    int64
	lanes   int           // that such jobs come to, and in which none waits yet
	later   *heap[*lease] // of jobs that will be scheduled
}

// scheduled is how many are coming that will be scheduled.
func (c *incoming) scheduled() int64 {
	if c.later == nil {
		return 0
	}
	return int64(c.later.len())
}

// addIncoming reserves a place in its lane for a job.
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
	j.lane.incoming[j.priority()]++
	if q.group != nil {
		q.group.addIncoming(q, 1)
	}
}

// removeIncoming takes a job out of those that are coming.
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
	j.lane.incoming[j.priority()]--
	if j.lane.empty() {
		c.lanes--
	}
}

// empty reports whether jobs neither wait in the lane nor are about to.
func (ln *lane) empty() bool { return ln.waiting.len() == 0 && ln.incomingTotal() == 0 }
