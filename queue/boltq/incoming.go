package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// reservePlace reserves a job's place and turn, and returns the ceilings to raise along with its append.
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

// exit gives up what reservePlace reserved.
func (m *machine) exit(j *job, now leaky.Instant) {
	q := j.lane.queue
	j.busy = nil
	q.removeIncoming(j)
	m.removeJob(j, now)
	if q.turn == j.turnBase()+int64(j.cost) {
		q.turn = j.turnBase()
	}
}

// incoming is what a queue has reserved for jobs whose appends are not on disk yet. Decisions count those that will
// wait as waiting.
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
	j.lane.incoming[j.priority()]++
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
	j.lane.incoming[j.priority()]--
	if j.lane.empty() {
		c.lanes--
	}
}

// empty reports whether no jobs wait in the lane or are about to.
func (ln *lane) empty() bool { return ln.waiting.len() == 0 && ln.incomingTotal() == 0 }
