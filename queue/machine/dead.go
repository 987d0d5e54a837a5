package machine

import (
	"strings"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// deadIndex is the dead jobs of all names.
type deadIndex struct {
	deadJobs      map[string]*deadJobs // for each name with dead jobs, or with a retention on file
	namesWithDead sorted[*deadJobs]    // names that have dead jobs, sorted
	deadCount     int64
	deadCursor    string // the name whose dead jobs were trimmed last
}

// deadJobs is the dead jobs of a name. They outlive the queue.
type deadJobs struct {
	name string
	byID map[string]*endedJob
	dead sorted[*endedJob]
	// bytes is the size of the dead jobs. Each counts as much as while it held a place.
	bytes int64
	// retention is the retention of the deleted queue; nil while the queue exists.
	retention *queue.Retention
}

func byName(a, b *deadJobs) bool { return a.name < b.name }

// deadJobsOf returns the dead jobs of a name, created on first use.
func (m *Machine) deadJobsOf(name string) *deadJobs {
	dead := m.deadJobs[name]
	if dead == nil {
		dead = &deadJobs{name: name, byID: map[string]*endedJob{}, dead: sorted[*endedJob]{less: byEndTime}}
		m.deadJobs[name] = dead
	}
	return dead
}

func (m *Machine) deadCountOf(name string) int64 {
	if dead := m.deadJobs[name]; dead != nil {
		return int64(dead.dead.len())
	}
	return 0
}

func (m *Machine) deadBytesOf(name string) int64 {
	if dead := m.deadJobs[name]; dead != nil {
		return dead.bytes
	}
	return 0
}

// retention returns how long, and how many, dead jobs of a name are kept.
func (m *Machine) retention(dead *deadJobs) queue.Retention {
	if q := m.queues[dead.name]; q != nil {
		return q.spec.Retention
	}
	if dead.retention != nil {
		return *dead.retention
	}
	return queue.Retention{}
}

// addDead adds a dead job. If a deleted queue left one with the same id, the later one replaces it.
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

// removeDead removes a dead job, which must be there.
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

// dropDead forgets the oldest dead job of a name; q is the queue of that name, or nil.
func (m *Machine) dropDead(dead *deadJobs, q *queueState) {
	d := dead.dead.top()
	m.removeDead(dead, d)
	if q != nil && q.endedJobs.byID[d.id] == d { // the id may have been used again
		delete(q.endedJobs.byID, d.id)
	}
	m.forgotten = append(m.forgotten, d)
}

// hasDead reports whether a name has dead jobs that are not too old.
func (m *Machine) hasDead(name string, now leaky.Instant) bool {
	dead := m.deadJobs[name]
	return dead != nil && dead.dead.len() > 0 && !tooOld(dead.dead.at(dead.dead.len()-1), m.retention(dead), now)
}

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

// DeadQueues returns up to limit names with dead jobs, after a name.
func (m *Machine) DeadQueues(now leaky.Instant, after string, limit int) (list []queue.DeadQueue) {
	budget := sweepMax
	for len(list) < limit {
		dead := m.nextWithDead(after)
		if dead == nil {
			break
		}
		after = dead.name
		budget -= m.trimDead(dead, now, budget) // so that the counts are right
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

func (m *Machine) nextWithDead(name string) *deadJobs {
	for dead := range m.namesWithDead.from(func(dead *deadJobs) bool { return dead.name > name }) {
		return dead
	}
	return nil
}

// deadRecord is what a Replay needs of a dead job's record.
type deadRecord struct {
	costs      *string
	seq        uint64
	job        queue.Job // without its payload
	laneDigest queue.LaneDigest
	size       int
	broken     bool
}

// Replaying is a list of dead jobs to replay, and what their records say.
type Replaying struct {
	queue string
	ids   []string
	kept  []*deadRecord // nil where there was no dead job when the call began
}

// FindDead begins a Replay. Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) FindDead(now leaky.Instant, name string, ids []string) (*Replaying, error) {
	if _, err := m.liveQueue(name); err != nil {
		return nil, err
	}
	if err := check.IDs(ids); err != nil {
		return nil, err
	}
	r := &Replaying{queue: name, ids: ids, kept: make([]*deadRecord, len(ids))}
	for i, id := range ids {
		if d := m.deadJob(name, id, now); d != nil {
			r.kept[i] = &deadRecord{seq: d.seq}
		}
	}
	return r, nil
}

// Read reads the records. It needs no machine.
func (r *Replaying) Read(tx Transaction) {
	for _, k := range r.kept {
		if k != nil {
			k.read(&tables{tx})
		}
	}
}

func (k *deadRecord) read(t *tables) {
	record, err := t.getRecord(k.seq)
	if err == nil {
		err = jobrecord.Unpack(record, &k.job)
	}
	if err != nil {
		k.broken = true
		return
	}
	if h, err := jobrecord.UnpackHead(record); err == nil && h.Costs != "" {
		k.costs = &h.Costs
	}
	k.size, k.laneDigest = len(record), queue.DigestLane(k.job.Lane)
	k.job.Payload, k.job.Headers = nil, nil // they share memory with the file
	k.job.Lane, k.job.Batch = strings.Clone(k.job.Lane), strings.Clone(k.job.Batch)
}

// Replay puts dead jobs back into their queue, under new keys, and returns the commit that the answers wait for.
// Errors: queue.ErrUnknownQueue, or that the store is full.
func (m *Machine) Replay(
	now leaky.Instant, actor audit.Actor, r *Replaying,
) (outcomes []queue.ReplayOutcome, wait uint64, err error) {
	m.expire(now)
	q, act := m.queues[r.queue], &jobAct{what: changekind.Replayed, actor: actor}
	if q == nil {
		return nil, 0, unknownQueue(r.queue)
	}
	outcomes = make([]queue.ReplayOutcome, len(r.ids))
	for i, id := range r.ids {
		if outcomes[i], err = m.replay(q, id, r.kept[i], act, now); err != nil {
			return nil, m.lastWait(), err
		}
	}
	return outcomes, m.lastWait(), nil
}

func (m *Machine) replay(
	q *queueState, id string, k *deadRecord, act *jobAct, now leaky.Instant,
) (queue.ReplayOutcome, error) {
	d := m.deadJob(q.name, id, now)
	if d == nil {
		return queue.NotDead, nil
	}
	// A dead job of a deleted queue stays dead while this queue knows another job of that id.
	if own := q.endedJobs.find(id, q.spec.Retention, now); q.jobs[id] != nil || own != nil && own != d {
		return queue.NotDead, nil
	}
	if _, deferral := q.deferral(id, now); deferral != nil {
		return queue.NotDead, nil
	}
	if k == nil || k.seq != d.seq {
		return queue.NotDead, nil // it died after the call began
	}
	if k.broken {
		return queue.Broken, nil
	}
	ln := q.lane(k.job.Lane, k.laneDigest)
	switch {
	case k.job.Batch != "" && !m.batchFits(q, k.job.Batch, now):
		return queue.NoRoom, nil
	case m.staysDead(jobsize.Of(d.id, k.size), &k.job, ln, now):
		return queue.NoRoom, nil
	case m.Full != nil:
		return 0, m.Full
	}
	m.store.seq++
	own, label := q.endedJobs.byID[d.id] == d, k.job.Batch
	j := &job{
		id: d.id, lane: ln, seq: m.store.seq, appended: now, fingerprint: d.fingerprint, size: uint32(k.size),
		cost: d.cost, costs: k.costs,
	}
	q.endedJobs.take(d)
	m.removeDead(m.deadJobs[q.name], d)
	m.reservePlace(j, &k.job, now)
	var b *batch
	switch {
	case label == "":
	case own:
		b = m.rejoinBatch(q, label, queue.Dead, d.appended, now, now)
	default: // an earlier queue counted its death
		b = m.joinBatch(q, label, now, now)
	}
	m.holdBatch(j, b, scheduledUntil(&k.job, m.wall(now)))
	c := m.touch(q)
	q.counters.Replayed++
	c.logJobAct(act, q.name, q.revision, j.id, false, m.wall(now))
	c.moveJob(j, d.seq)
	c.dropEnded(d)
	m.arrive(arrival{job: j}, nil)
	c.bytes += k.size
	return queue.Replayed, nil
}

// staysDead reports whether the queue has no room for a dead job.
func (m *Machine) staysDead(needs int64, j *queue.Job, ln *lane, now leaky.Instant) bool {
	q := ln.queue
	size := q.size()
	if size >= q.spec.Capacity ||
		q.hasBacklog() && size-q.overflow.readmitted >= max(1, q.spec.Capacity-q.spec.Mark()) {
		return true
	}
	rule := ln.rule()
	if rule.Capacity > 0 && int64(ln.size) >= rule.Capacity ||
		rule.MaxBytes > 0 && ln.bytes+needs > int64(rule.MaxBytes) {
		return true
	}
	if q.bytes+needs > m.byteLimit(q) {
		return true
	}
	return scheduledUntil(j, q.env.wall(now)) != 0 && q.spec.MaxScheduled > 0 &&
		q.counts[queue.Scheduled]+q.incoming.scheduled() >= q.spec.MaxScheduled
}

// Forget drops dead jobs for good. It reports which were dropped, and returns the commit that the answer waits for.
// Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Forget(
	now leaky.Instant, actor audit.Actor, name string, ids []string,
) (dropped []bool, wait uint64, err error) {
	q, err := m.liveQueue(name)
	if err != nil && !m.hasDead(name, now) {
		return nil, 0, err
	}
	if err := check.IDs(ids); err != nil {
		return nil, 0, err
	}
	revision, act := int64(0), &jobAct{what: changekind.Forgotten, actor: actor}
	if q != nil {
		revision = q.revision
	}
	dropped = make([]bool, len(ids))
	for i, id := range ids {
		d := m.deadJob(name, id, now)
		if d == nil {
			continue
		}
		if q != nil {
			q.endedJobs.take(d)
		}
		m.removeDead(m.deadJobs[name], d)
		m.current.logJobAct(act, name, revision, id, q == nil, m.wall(now))
		m.current.dropEnded(d)
		dropped[i], wait = true, m.wait()
		m.deletedBy = wait
	}
	return dropped, max(wait, m.lastWait()), nil
}
