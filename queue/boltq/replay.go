package boltq

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// replay is one job of a Replay or a Forget.
type replay struct {
	queue, id string
	kept      *kept   // of a replay; nil if it was not dead when the call came
	act       *jobAct // that is recorded
	outcome   queue.ReplayOutcome
	forgotten bool
	err       error
}

// kept is what is read of the record of a dead job.
type kept struct {
	seq    uint64
	job    queue.Job // without its payload
	digest queue.LaneDigest
	size   int
	broken bool
}

// Replay implements queue.Keeper.
func (e *Engine) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	items, err := e.the(ctx, name, ids, false, queue.DidReplay)
	if err != nil {
		return nil, err
	}
	if err := e.readKept(name, items); err != nil {
		return nil, err
	}
	if err := rounds(ctx, e, items, behindExpiry(e, e.replay)); err != nil {
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

// Forget implements queue.Keeper.
func (e *Engine) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	items, err := e.the(ctx, name, ids, true, queue.DidForget)
	if err != nil {
		return nil, err
	}
	if err := rounds(ctx, e, items, e.drop); err != nil {
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

// the makes items of ids, if the queue is there, or dead jobs of a former one will do and are.
func (e *Engine) the(ctx context.Context, name string, ids []string, former bool, what queue.ChangeKind) ([]*replay, error) {
	by, err := queue.By(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return nil, err
	}
	if _, err := e.live(name); err != nil && (!former || e.former(name) == nil) {
		return nil, err
	}
	if err := queue.ValidateIDs(ids); err != nil {
		return nil, err
	}
	items, d := make([]*replay, len(ids)), &jobAct{what: what, by: by}
	for i, id := range ids {
		items[i] = &replay{queue: name, id: id, act: d}
	}
	return items, nil
}

// readKept reads what is needed of the records, outside the mutex.
func (e *Engine) readKept(name string, items []*replay) error {
	e.mu.Lock()
	now := e.now()
	for _, it := range items {
		if d := e.letter(name, it.id, now); d != nil {
			it.kept = &kept{seq: d.seq}
		}
	}
	e.mu.Unlock()
	return e.db.View(func(tx *bbolt.Tx) error {
		t := &tables{tx: tx}
		for _, it := range items {
			if it.kept != nil {
				it.kept.read(t)
			}
		}
		return nil
	})
}

func (k *kept) read(t *tables) {
	record, err := t.getRecord(k.seq)
	if err == nil {
		err = queue.UnpackRecord(record, &k.job)
	}
	if err != nil {
		k.broken = true
		return
	}
	k.size, k.digest = len(record), queue.DigestLane(k.job.Lane)
	k.job.Payload, k.job.Headers = nil, nil // they share memory with the file
	k.job.Lane = strings.Clone(k.job.Lane)
}

// deciding returns the change under way on which it depends what becomes of an id, if there is one.
func (l *line) deciding(id string) *call {
	if l.busy != nil {
		return l.busy
	}
	if j := l.jobs[id]; j != nil && j.busy != nil {
		return j.busy
	}
	return l.moving(id)
}

// replay decides about a job, unless it depends on changes under way.
func (e *Engine) replay(it *replay, c *call, now leaky.Instant) (busy *call) {
	l, d := e.lines[it.queue], e.letter(it.queue, it.id, now)
	if l == nil {
		it.err = unknownQueue(it.queue)
		return nil
	}
	if busy := l.deciding(it.id); busy != nil || d == nil {
		return busy
	}
	// One of a former queue stays dead while this one knows another of that id.
	if own := l.ended.find(it.id, l.spec.Retention, now); l.jobs[it.id] != nil || own != nil && own != d {
		return nil
	}
	if _, aside := l.deferral(it.id, now); aside != nil {
		return nil
	}
	k := it.kept
	if k == nil || k.seq != d.seq {
		return nil // it died since the call came
	}
	if k.broken {
		it.outcome = queue.Broken
		return nil
	}
	ln := l.lane(k.job.Lane, k.digest)
	switch {
	case e.noRoomFor(queue.SizeOf(d.id, k.size), &k.job, ln, now):
		it.outcome = queue.NoRoom
		return nil
	case e.full():
		it.err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
		return nil
	}
	e.store.seq++
	j := &job{id: d.id, lane: ln, seq: e.store.seq, appended: now, print: d.print, busy: c, size: uint32(k.size), cost: d.cost}
	w := &reviving{call: c, job: j, was: d, asked: it, own: l.ended.byID[d.id] == d}
	l.ended.take(d)
	e.lift(e.letters[it.queue], d)
	w.raise = l.enter(j, &k.job, c, now)
	e.enqueue(c, w)
	return nil
}

// noRoomFor reports whether a dead job must stay so.
func (e *Engine) noRoomFor(needs int64, j *queue.Job, ln *lane, now leaky.Instant) bool {
	l := ln.line
	size := l.size()
	if size >= l.spec.Capacity || l.backlog() && size-l.aside.back >= max(1, l.spec.Capacity-l.spec.Mark()) {
		return true
	}
	rule := ln.rule()
	if rule.Capacity > 0 && ln.held >= rule.Capacity || rule.MaxBytes > 0 && ln.bytes+needs > int64(rule.MaxBytes) {
		return true
	}
	if l.bytes+needs > e.byteLimit(l) {
		return true
	}
	return later(j, now) != 0 && l.spec.MaxScheduled > 0 && l.count[queue.Scheduled]+l.coming.scheduled() >= l.spec.MaxScheduled
}

// reviving puts a dead job back into its queue, under a new key.
type reviving struct {
	call  *call
	job   *job
	was   *ended
	own   bool // it died in this queue, and no former one
	raise raises
	asked *replay
}

func (c *reviving) tally(b *batch) {
	l := c.job.lane.line
	b.of(l).counters.replayed++
	b.raise(l, c.raise)
	b.did(c.asked.act, l.spec.Name, l.revision, c.job.id, false, c.job.appended)
}

func (c *reviving) write(t *tables) error {
	record, err := t.getRecord(c.was.seq)
	if err != nil {
		return err
	}
	if err := t.putJob(c.job, record); err != nil {
		return err
	}
	return t.dropEnded(c.was)
}

func (c *reviving) done(e *Engine, now leaky.Instant) {
	c.job.busy = nil
	if e.arrive(c.job, now) {
		e.due(c.job.lane.line, now)
	}
	c.asked.outcome = queue.Replayed
	c.call.settle(nil)
}

func (c *reviving) undone(e *Engine, err error) {
	l := c.job.lane.line
	e.exit(c.job, e.now())
	if c.own {
		l.ended.add(c.was)
	}
	e.lay(l.spec.Name, c.was)
	c.asked.err = err
	c.call.settle(err)
}

func (c *reviving) frees() bool { return false }

// drop decides about a job that is to be forgotten.
func (e *Engine) drop(it *replay, c *call, now leaky.Instant) (busy *call) {
	l, d := e.lines[it.queue], e.letter(it.queue, it.id, now) // the last dead of a former queue goes with the name
	if l != nil {
		if busy := l.deciding(it.id); busy != nil {
			return busy
		}
	}
	if d == nil {
		return nil
	}
	w := &dropping{call: c, was: d, asked: it, at: now, gone: l == nil}
	if l != nil {
		w.revision = l.revision
	}
	if l != nil && l.ended.byID[d.id] == d {
		w.line = l
		l.ended.take(d)
		l.start(d.id, c)
	}
	e.lift(e.letters[it.queue], d)
	e.enqueue(c, w)
	return nil
}

// dropping drops a dead job.
type dropping struct {
	call  *call
	line  *line // in which it died; nil if that is a former one
	was   *ended
	asked *replay
	// For the record: when, at which revision of the queue, and whether there is none.
	at       leaky.Instant
	revision int64
	gone     bool
}

func (c *dropping) tally(b *batch) {
	b.did(c.asked.act, c.asked.queue, c.revision, c.was.id, c.gone, c.at)
}

func (c *dropping) write(t *tables) error { return t.dropEnded(c.was) }

func (c *dropping) done(*Engine, leaky.Instant) {
	if c.line != nil {
		c.line.stop(c.was.id)
	}
	c.asked.forgotten = true
	c.call.settle(nil)
}

func (c *dropping) undone(e *Engine, err error) {
	if c.line != nil {
		c.line.stop(c.was.id)
		c.line.ended.add(c.was)
	}
	e.lay(c.asked.queue, c.was)
	c.asked.err = err
	c.call.settle(err)
}

func (c *dropping) frees() bool { return true }
