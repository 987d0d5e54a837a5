package boltq

import "github.com/penstock/penstock/leaky"

// coming is what a queue has reserved for jobs on their way to disk. Those that will
// wait count as waiting for whoever is judged after them.
type coming struct {
	all     int64 // places
	waiting int64 // of jobs that will wait, with
	cost    int64
	lanes   int            // that such jobs come to, and in which none waits yet
	later   *heap[*flight] // of jobs that will be scheduled
}

// scheduled is how many are coming that will be scheduled.
func (c *coming) scheduled() int64 {
	if c.later == nil {
		return 0
	}
	return int64(c.later.len())
}

// expect reserves a place in its lane for a job.
func (l *line) expect(j *job, dueAt leaky.Instant) {
	c := &l.coming
	c.all++
	l.board(j)
	if dueAt != 0 {
		j.inFlight().due = dueAt
		if c.later == nil {
			later := newLater()
			c.later = &later
		}
		c.later.push(j.flight)
		return
	}
	if j.lane.unvisited() {
		c.lanes++
	}
	c.waiting++
	c.cost += int64(j.cost)
	j.lane.coming[j.priority()]++
	if l.kin != nil {
		l.kin.expects(l, 1)
	}
}

// arrived takes a job out of those that are coming.
func (l *line) arrived(j *job) {
	c := &l.coming
	c.all--
	if j.flight != nil {
		c.later.remove(j.flight.place)
		return
	}
	c.waiting--
	c.cost -= int64(j.cost)
	if l.kin != nil {
		l.kin.expects(l, -1)
	}
	j.lane.coming[j.priority()]--
	if j.lane.unvisited() {
		c.lanes--
	}
}

// unvisited reports whether jobs neither wait in the lane nor are about to.
func (ln *lane) unvisited() bool { return ln.fifo.len() == 0 && ln.awaited() == 0 }
