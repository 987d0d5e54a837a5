package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// deadIndex is the dead jobs of all names.
type deadIndex struct {
	deadJobs      map[string]*deadJobs // of every name with dead jobs, or with a retention on file
	namesWithDead sorted[*deadJobs]    // those that hold dead jobs, by name
	deadCount     int64
	deadCursor    string // the name whose dead jobs were trimmed last
}

// deadJobs are the dead jobs of a name, which outlive the queue.
type deadJobs struct {
	name string
	byID map[string]*endedJob
	dead sorted[*endedJob]
	// bytes is what they take. A job takes as much as while it held a place.
	bytes int64
	// retention is what the queue had when it was deleted; nil while there is one.
	retention *queue.Retention
}

func byName(a, b *deadJobs) bool { return a.name < b.name }

// deadJobsOf returns the dead jobs of a name, made on first use.
func (m *Machine) deadJobsOf(name string) *deadJobs {
	dead := m.deadJobs[name]
	if dead == nil {
		dead = &deadJobs{name: name, byID: map[string]*endedJob{}, dead: sorted[*endedJob]{less: byEndTime}}
		m.deadJobs[name] = dead
	}
	return dead
}

// deadCountOf is how many dead jobs a name has.
func (m *Machine) deadCountOf(name string) int64 {
	if dead := m.deadJobs[name]; dead != nil {
		return int64(dead.dead.len())
	}
	return 0
}

// deadBytesOf is what the dead jobs of a name take.
func (m *Machine) deadBytesOf(name string) int64 {
	if dead := m.deadJobs[name]; dead != nil {
		return dead.bytes
	}
	return 0
}

// retention is for how long, and how many, dead jobs of a name are kept.
func (m *Machine) retention(dead *deadJobs) queue.Retention {
	if q := m.queues[dead.name]; q != nil {
		return q.spec.Retention
	}
	if dead.retention != nil {
		return *dead.retention
	}
	return queue.Retention{}
}

// addDead adds a dead job. Of two of the same id, from a deleted queue and the present one, the later replaces the
// other.
func (m *Machine) addDead(name string, d *endedJob) {
	if dead := m.deadJobs[name]; dead != nil && dead.byID[d.id] != nil {
		old := dead.byID[d.id]
		m.removeDead(dead, old)
		m.forgotten = append(m.forgotten, old)
	}
	dead := m.deadJobsOf(name)
	if dead.dead.len() == 0 {
		m.namesWithDead.push(dead)
	}
	dead.byID[d.id] = d
	dead.dead.push(d)
	dead.bytes += d.bytes()
	m.deadCount++
}

// removeDead takes out a dead job, which must be there.
func (m *Machine) removeDead(dead *deadJobs, d *endedJob) {
	dead.dead.remove(d)
	delete(dead.byID, d.id)
	dead.bytes -= d.bytes()
	m.deadCount--
	if dead.dead.len() > 0 {
		return
	}
	m.namesWithDead.remove(dead)
	if dead.retention == nil { // else the file has the retention, which the sweeper deletes
		delete(m.deadJobs, dead.name)
	}
}

// trimDead forgets up to limit dead jobs of a name that are too old or too many.
func (m *Machine) trimDead(dead *deadJobs, now leaky.Instant, limit int) (gone int) {
	r, q := m.retention(dead), m.queues[dead.name]
	for gone < limit && dead.dead.len() > 0 && (int64(dead.dead.len()) > r.Max || tooOld(dead.dead.top(), r, now)) {
		if q != nil && !tooOld(dead.dead.top(), r, now) {
			q.count().Dropped++
		}
		m.dropDead(dead, q)
		gone++
	}
	return gone
}

// dropDead forgets the oldest dead job of a name; q is the queue of that name, nil if there is none.
func (m *Machine) dropDead(dead *deadJobs, q *queueState) {
	d := dead.dead.top()
	m.removeDead(dead, d)
	if q != nil && q.endedJobs.byID[d.id] == d { // the id may have been used again
		delete(q.endedJobs.byID, d.id)
	}
	m.forgotten = append(m.forgotten, d)
}

// deadOfDeleted returns the dead jobs of a name without a queue; nil if there are none.
func (m *Machine) deadOfDeleted(name string) *deadJobs {
	if q := m.queues[name]; q != nil {
		return nil
	}
	if dead := m.deadJobs[name]; dead != nil && dead.dead.len() > 0 {
		return dead
	}
	return nil
}

// deadJob returns a dead job, nil if there is none.
func (m *Machine) deadJob(name, id string, now leaky.Instant) *endedJob {
	dead := m.deadJobs[name]
	if dead == nil {
		return nil
	}
	d := dead.byID[id]
	if d == nil || tooOld(d, m.retention(dead), now) {
		return nil
	}
	return d
}

// DeadQueues returns up to limit of the names with dead jobs, behind a name.
func (m *Machine) DeadQueues(now leaky.Instant, after string, limit int) (list []queue.DeadQueue) {
	budget := sweepMax
	for len(list) < limit {
		dead := m.nextWithDead(after)
		if dead == nil {
			break
		}
		after = dead.name
		budget -= m.trimDead(dead, now, budget) // so that they are counted right
		if dead.dead.len() > 0 {
			q := m.queues[dead.name]
			list = append(list, queue.DeadQueue{
				Queue: dead.name, Dead: int64(dead.dead.len()), Bytes: dead.bytes, Oldest: dead.dead.top().at.Time(),
				Gone: q == nil,
			})
		}
	}
	return list
}

// nextWithDead returns the dead jobs of the next name that has some; nil if there is none.
func (m *Machine) nextWithDead(name string) *deadJobs {
	for dead := range m.namesWithDead.from(func(dead *deadJobs) bool { return dead.name > name }) {
		return dead
	}
	return nil
}
