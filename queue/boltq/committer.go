package boltq

import (
	"fmt"
	"slices"
	"sync"

	"github.com/penstock/penstock/queue"
)

// committer has what the committer works on.
type committer struct {
	work  sync.Cond     // signals that something is pending or the engine closes; its L is Engine.mu
	ended chan struct{} // closed when the committer has ended
	turn  sync.Mutex    // in memory: callers commit, one at a time
}

// enqueue leaves a change to the committer. All changes of a call are enqueued under the mutex at once.
func (m *machine) enqueue(c *call, ch change) {
	c.enqueued++
	c.pending++
	m.pending = append(m.pending, ch)
}

// runCommitter commits what is pending until the engine closes and nothing is left.
func (e *Engine) runCommitter() {
	defer close(e.ended)
	for {
		e.lock()
		for len(e.pending) == 0 && !e.closing {
			e.work.Wait()
		}
		if len(e.pending) == 0 {
			e.commitFinal()
			e.unlockCommitter()
			return
		}
		b := e.takeBatch(e.now())
		e.unlockCommitter()
		e.commitBatch(b)
	}
}

// commitPending commits what is pending in memory, which takes no time: whoever decided does it.
func (e *Engine) commitPending() {
	e.turn.Lock()
	defer e.turn.Unlock()
	for {
		e.lock()
		if len(e.pending) == 0 {
			e.unlockCommitter()
			return
		}
		b := e.takeBatch(e.now())
		e.unlockCommitter()
		e.commitBatch(b)
	}
}

// commitBatch commits a batch and applies it, or finds out what a failure means.
func (e *Engine) commitBatch(b *batch) {
	err := e.writeBatch(b)
	if err != nil && noRoom(err) && !e.onDisk(b) {
		b = e.withoutAppends(b, err)
		if err = nil; len(b.changes) > 0 {
			err = e.writeBatch(b)
		}
	}
	e.lock()
	defer e.unlockCommitter()
	switch {
	case err == nil:
		e.applyBatch(b, e.now())
		e.noteAuditDropped(b.auditDropped)
	case noRoom(err) && !e.onDisk(b):
		e.noteFull(err)
		e.rollBackBatch(b, e.now(), errStoreFull(e.path, err))
	default:
		// After a failed write or fsync nobody knows what is on disk: the kernel may have dropped dirty pages,
		// which a retry would not write, or may still write others later. Only opening the file again can tell.
		e.log.Error("the store failed and is closed for changes", "path", e.path, "error", err)
		if e.broken == nil {
			e.broken = err
		}
		e.rollBackBatch(b, e.now(), fmt.Errorf("%w: %s: %w", queue.ErrOutcomeUnknown, e.path, err))
		e.failPending()
	}
}

// withoutAppends rolls back the changes of a batch that need room, so that those that make room can be tried alone.
func (e *Engine) withoutAppends(b *batch, err error) *batch {
	e.lock()
	defer e.unlockCommitter()
	now := e.now()
	rest := &batch{forgotten: b.forgotten, lapsedDeferrals: b.lapsedDeferrals, droppedTallies: b.droppedTallies}
	e.returnUnsaved(b)
	for i := len(b.changes) - 1; i >= 0; i-- {
		if c := b.changes[i]; c.freesSpace() {
			rest.changes = append(rest.changes, c)
		} else {
			c.rollBack(e.machine, now, errStoreFull(e.path, err))
		}
	}
	slices.Reverse(rest.changes)
	e.noteFull(err)
	e.oweAgain(b)
	if len(rest.changes) == 0 { // it will not be written
		e.requeueForgotten(rest)
		return rest
	}
	e.prepareBatch(rest, now)
	e.addRecords(rest)
	return rest
}

// failPending fails everything that is pending in a broken store.
func (e *Engine) failPending() {
	for len(e.pending) > 0 {
		e.rollBackBatch(e.takeBatch(e.now()), e.now(), e.usableOr(queue.ErrUnavailable))
	}
}

func (e *Engine) usableOr(other error) error {
	if err := e.usable(); err != nil {
		return err
	}
	return other
}

// writeBatch writes a batch in one transaction, which ends with two fsyncs.
func (e *Engine) writeBatch(b *batch) error {
	err := e.db.update(func(t *tables) error {
		e.measure(t)
		if err := e.opts.fault(b.changes); err != nil {
			return err
		}
		if err := e.checkSpace(t, b); err != nil {
			return err
		}
		return b.write(t, &e.opts)
	})
	if err == nil {
		e.opts.synced()
	}
	return err
}

func (b *batch) write(t *tables, o *Options) error {
	if err := t.write(&b.effects); err != nil {
		return err
	}
	// each write deletes one document at most, so this keeps up
	if err := t.forgetDocuments(2*b.documents, b.now.Add(-queue.KeepDeletedDocuments)); err != nil {
		return err
	}
	if err := t.writeLog(b.logUpdates, o.KeepChanges, b.now); err != nil {
		return err
	}
	var err error
	b.auditDropped, err = t.writeAudit(b.audited, o, b.now)
	return err
}

// onDisk reports whether the file shows a batch whose commit failed: its last page may have been written before the
// fsync failed.
func (e *Engine) onDisk(b *batch) bool {
	var s storeRecord
	err := e.db.view(func(t *tables) (err error) {
		s, err = t.getStore()
		return err
	})
	return err != nil || s.commit >= b.store.commit
}

// commitFinal writes the exact pace and all counters and tallies, so that an orderly restart loses nothing. The
// mutex is held.
func (e *Engine) commitFinal() {
	if e.broken != nil {
		return
	}
	b := &batch{
		forgotten: e.forgotten, lapsedDeferrals: e.lapsedDeferrals,
		droppedTallies: slices.Concat(e.droppedTallies.chunks...),
	}
	for _, piece := range e.dirtyTallies.chunks {
		for _, t := range piece {
			b.addTally(t)
		}
	}
	e.prepareBatch(b, e.now())
	for _, q := range e.queues {
		if exact := q.ceilings(); q.live &&
			(!q.ceiling.equal(exact) || q.unsaved != queue.Counters{} || q.receiver != receiverState{}) {
			d := b.deltaOf(q)
			d.record = q.record(counted(q.saved, q.unsaved), exact, q.overflow.progress, q.receiver)
		}
	}
	e.addRecords(b)
	if err := e.writeBatch(b); err != nil {
		e.log.Warn("the last commit failed; the pace may pause for a moment on opening", "path", e.path, "error", err)
	}
}
