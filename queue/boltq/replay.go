package boltq

import (
	"context"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/internal/jobsize"
	"github.com/penstock/penstock/queue/jobrecord"
)

// replayItem is one job of a Replay or a Forget.
type replayItem struct {
	queue, id string
	kept      *deadRecord // of a Replay; nil if the job was not dead when the call began
	act       *jobAct     // to be logged
	outcome   queue.ReplayOutcome
	forgotten bool
	err       error
}

// deadRecord is what a Replay needs of a dead job's record.
type deadRecord struct {
	seq        uint64
	job        queue.Job // without its payload
	laneDigest queue.LaneDigest
	size       int
	broken     bool
}

// Replay implements queue.Jobs.
func (e *Engine) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	items, err := e.newReplayItems(ctx, name, ids, false, changekind.Replayed)
	if err != nil {
		return nil, err
	}
	if err := e.readDeadRecords(name, items); err != nil {
		return nil, err
	}
	if err := decideAll(ctx, e, items, afterExpiry(e.machine, e.decideReplay)); err != nil {
		return nil, err
	}
	outcomes := make([]queue.ReplayOutcome, len(ids))
	for i, it := range items {
		if it.err != nil {
			return nil, it.err
		}
		outcomes[i] = it.outcome
	}
	return outcomes, nil
}

// Forget implements queue.Jobs.
func (e *Engine) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	items, err := e.newReplayItems(ctx, name, ids, true, changekind.Forgotten)
	if err != nil {
		return nil, err
	}
	if err := decideAll(ctx, e, items, e.decideForget); err != nil {
		return nil, err
	}
	dropped := make([]bool, len(ids))
	for i, it := range items {
		if it.err != nil {
			return nil, it.err
		}
		dropped[i] = it.forgotten
	}
	return dropped, nil
}

// newReplayItems checks a call and makes its items. former says that dead jobs of a deleted queue will do.
func (e *Engine) newReplayItems(
	ctx context.Context, name string, ids []string, former bool, what changekind.Kind,
) ([]*replayItem, error) {
	actor, err := queue.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	e.lock()
	defer e.unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	if _, err := e.liveQueue(name); err != nil && (!former || e.deadOfDeleted(name) == nil) {
		return nil, err
	}
	if err := check.IDs(ids); err != nil {
		return nil, err
	}
	items, d := make([]*replayItem, len(ids)), &jobAct{what: what, actor: actor}
	for i, id := range ids {
		items[i] = &replayItem{queue: name, id: id, act: d}
	}
	return items, nil
}

// readDeadRecords reads what is needed of the records, outside the mutex.
func (e *Engine) readDeadRecords(name string, items []*replayItem) error {
	e.lock()
	now := e.now()
	for _, it := range items {
		if d := e.deadJob(name, it.id, now); d != nil {
			it.kept = &deadRecord{seq: d.seq}
		}
	}
	e.unlock()
	return e.db.view(func(t *tables) error {
		for _, it := range items {
			if it.kept != nil {
				it.kept.read(t)
			}
		}
		return nil
	})
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
	k.size, k.laneDigest = len(record), queue.DigestLane(k.job.Lane)
	k.job.Payload, k.job.Headers = nil, nil // they share memory with the file
	k.job.Lane = strings.Clone(k.job.Lane)
}

// changeFor returns the change under way that decides what becomes of an id; nil if there is none.
func (q *queueState) changeFor(id string) *call {
	if q.busy != nil {
		return q.busy
	}
	if j := q.jobs[id]; j != nil && j.busy != nil {
		return j.busy
	}
	return q.changeOf(id)
}

// decideReplay decides about a job, unless that depends on a change under way.
func (m *machine) decideReplay(it *replayItem, c *call, now leaky.Instant) (busy *call) {
	q, d := m.queues[it.queue], m.deadJob(it.queue, it.id, now)
	if q == nil {
		it.err = unknownQueue(it.queue)
		return nil
	}
	if busy := q.changeFor(it.id); busy != nil || d == nil {
		return busy
	}
	// A dead job of a deleted queue stays dead while this queue knows another job of that id.
	if own := q.endedJobs.find(it.id, q.spec.Retention, now); q.jobs[it.id] != nil || own != nil && own != d {
		return nil
	}
	if _, deferral := q.deferral(it.id, now); deferral != nil {
		return nil
	}
	k := it.kept
	if k == nil || k.seq != d.seq {
		return nil // it died after the call began
	}
	if k.broken {
		it.outcome = queue.Broken
		return nil
	}
	ln := q.lane(k.job.Lane, k.laneDigest)
	switch {
	case m.staysDead(jobsize.Of(d.id, k.size), &k.job, ln, now):
		it.outcome = queue.NoRoom
		return nil
	case m.room.full != nil:
		it.err = m.room.full
		return nil
	}
	m.store.seq++
	j := &job{
		id: d.id, lane: ln, seq: m.store.seq, appended: now, fingerprint: d.fingerprint, busy: c, size: uint32(k.size),
		cost: d.cost,
	}
	w := &replayChange{call: c, job: j, dead: d, item: it, ofThisQueue: q.endedJobs.byID[d.id] == d}
	q.endedJobs.take(d)
	m.removeDead(m.deadJobs[it.queue], d)
	w.raises = q.reservePlace(j, &k.job, c, now)
	m.enqueue(c, w)
	return nil
}

// staysDead reports whether the queue has no room for a dead job.
func (m *machine) staysDead(needs int64, j *queue.Job, ln *lane, now leaky.Instant) bool {
	q := ln.queue
	size := q.size()
	if size >= q.spec.Capacity ||
		q.hasBacklog() && size-q.overflow.readmitted >= max(1, q.spec.Capacity-q.spec.Mark()) {
		return true
	}
	rule := ln.rule()
	if rule.Capacity > 0 && ln.size >= rule.Capacity || rule.MaxBytes > 0 && ln.bytes+needs > int64(rule.MaxBytes) {
		return true
	}
	if q.bytes+needs > m.byteLimit(q) {
		return true
	}
	return scheduledUntil(j, now) != 0 && q.spec.MaxScheduled > 0 &&
		q.counts[queue.Scheduled]+q.incoming.scheduled() >= q.spec.MaxScheduled
}

// replayChange puts a dead job back into its queue, under a new key.
type replayChange struct {
	call        *call
	job         *job
	dead        *endedJob
	ofThisQueue bool // it died in this queue, not in a deleted one of that name
	raises      ceilingRaises
	item        *replayItem
}

func (c *replayChange) prepare(b *batch) {
	q := c.job.lane.queue
	b.deltaOf(q).counters.Replayed++
	b.raise(q, c.raises)
	b.logJobAct(c.item.act, q.spec.Name, q.revision, c.job.id, false, c.job.appended)
	b.moveJob(c.job, c.dead.seq)
	b.dropEnded(c.dead)
}

func (c *replayChange) apply(m *machine, now leaky.Instant) {
	c.job.busy = nil
	if m.enterJob(c.job, now) {
		m.armAndWake(c.job.lane.queue, now)
	}
	c.item.outcome = queue.Replayed
	c.call.finish(nil)
}

func (c *replayChange) rollBack(m *machine, now leaky.Instant, err error) {
	q := c.job.lane.queue
	m.exit(c.job, now)
	if c.ofThisQueue {
		q.endedJobs.add(c.dead)
	}
	m.addDead(q.spec.Name, c.dead)
	c.item.err = err
	c.call.finish(err)
}

func (c *replayChange) freesSpace() bool { return false }

// decideForget decides about a dead job that is to be forgotten.
func (m *machine) decideForget(it *replayItem, c *call, now leaky.Instant) (busy *call) {
	q, d := m.queues[it.queue], m.deadJob(it.queue, it.id, now) // the queue may be deleted: nil
	if q != nil {
		if busy := q.changeFor(it.id); busy != nil {
			return busy
		}
	}
	if d == nil {
		return nil
	}
	w := &forgetChange{call: c, job: d, item: it, at: now, gone: q == nil}
	if q != nil {
		w.revision = q.revision
	}
	if q != nil && q.endedJobs.byID[d.id] == d {
		w.queue = q
		q.endedJobs.take(d)
		q.claim(d.id, c)
	}
	m.removeDead(m.deadJobs[it.queue], d)
	m.enqueue(c, w)
	return nil
}

// forgetChange deletes a dead job.
type forgetChange struct {
	call  *call
	queue *queueState // in which it died; nil if that is deleted
	job   *endedJob
	item  *replayItem
	// For the log: when, at which revision, and whether the queue is deleted.
	at       leaky.Instant
	revision int64
	gone     bool
}

func (c *forgetChange) prepare(b *batch) {
	b.logJobAct(c.item.act, c.item.queue, c.revision, c.job.id, c.gone, c.at)
	b.dropEnded(c.job)
}

func (c *forgetChange) apply(*machine, leaky.Instant) {
	if c.queue != nil {
		c.queue.unclaim(c.job.id)
	}
	c.item.forgotten = true
	c.call.finish(nil)
}

func (c *forgetChange) rollBack(m *machine, now leaky.Instant, err error) {
	if c.queue != nil {
		c.queue.unclaim(c.job.id)
		c.queue.endedJobs.add(c.job)
	}
	m.addDead(c.item.queue, c.job)
	c.item.err = err
	c.call.finish(err)
}

func (c *forgetChange) freesSpace() bool { return true }
