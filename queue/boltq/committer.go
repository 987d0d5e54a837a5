package boltq

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// committer writes what the machine has decided, one commit at a time. Decisions made during a commit go into the next
// one.
type committer struct {
	work       sync.Cond     // signals that a commit is pending or the engine closes; its L is Engine.mu
	ended      chan struct{} // closed when the committer has ended
	committing sync.Mutex    // in memory, where callers commit: held by the committing caller
	awaited    map[uint64]*outcome
}

// runCommitter commits what is pending until the engine closes and nothing is left.
func (e *Engine) runCommitter() {
	defer close(e.ended)
	for {
		e.lock()
		for !e.toCommit() && !e.closing {
			e.work.Wait()
			e.lookAround(0)
		}
		if !e.toCommit() {
			e.unlockCommitter()
			e.commitLast()
			return
		}
		c := e.machine.Collect(e.now())
		e.unlockCommitter()
		e.commit(c)
	}
}

// toCommit reports whether there is something to commit. In a store that failed there is nothing.
func (e *Engine) toCommit() bool { return e.broken == nil && e.machine.Pending() }

// commitPending commits what is pending in memory, which takes no time. The caller that decided does it.
func (e *Engine) commitPending() {
	e.committing.Lock()
	defer e.committing.Unlock()
	for {
		e.lock()
		if !e.toCommit() {
			e.unlockCommitter()
			return
		}
		c := e.machine.Collect(e.now())
		e.unlockCommitter()
		e.commit(c)
	}
}

// commit writes a commit and reports it durable, or finds out what a failure means.
func (e *Engine) commit(c *machine.Commit) {
	err := e.write(c)
	e.lock()
	defer e.unlockCommitter()
	if err != nil {
		e.fail(c, err)
		return
	}
	e.machine.Durable(c.Number, e.now())
	if o := e.awaited[c.Number]; o != nil {
		close(o.known)
		delete(e.awaited, c.Number)
	}
}

// write writes a commit in one transaction, which ends with two fsyncs.
func (e *Engine) write(c *machine.Commit) error {
	o := machine.WriteOptions{KeepChanges: e.opts.KeepChanges, Mask: e.opts.Mask, AuditShares: e.opts.auditShares}
	err := e.db.update(func(tx machine.Transaction) error {
		tx, err := e.opts.fault(tx)
		if err != nil {
			return err
		}
		return c.Write(tx, o)
	})
	e.measure()
	if err == nil {
		e.opts.synced()
	}
	return err
}

// fail handles a failed commit. Nothing that it and later commits decided has been answered, so all of that is
// discarded. The mutex is held.
func (e *Engine) fail(c *machine.Commit, err error) {
	if noRoom(err) && !e.onDisk(c) {
		full := fate{err: errStoreFull(e.path, err), undone: true, hadRoom: c.HadRoom}
		later, began, why := fate{err: full.err, undone: true, hadRoom: true}, time.Now(), err
		if err = e.reload(); err == nil {
			e.noteFull(why, max(fullFor, 10*time.Since(began)))
			e.settleOutcomes(c.Number, full, later)
			return
		}
	}
	// After a failed write or fsync nobody knows what is on disk: the kernel may have dropped dirty pages, which a
	// retry would not write, or may still write others later. Only opening the file again can tell.
	e.log.Error("the store failed and refuses changes", "path", e.path, "error", err)
	if e.broken == nil {
		e.broken = err
	}
	if e.unread = e.reload(); e.unread != nil {
		e.log.Error("the store cannot be read", "path", e.path, "error", e.unread)
	}
	e.settleOutcomes(
		c.Number, fate{err: fmt.Errorf("%w: %s: %w", queue.ErrOutcomeUnknown, e.path, err)}, fate{err: e.alive()},
	)
}

// reload replaces the machine by one loaded from the file, and carries over what callers were told.
func (e *Engine) reload() error {
	began, now := time.Now(), e.now()
	next := e.machine.Successor()
	err := e.db.view(func(tx machine.Transaction) error { return next.Load(context.Background(), tx, now) })
	if err != nil {
		return err
	}
	next.CarryOver(e.machine, now)
	e.machine = next
	e.log.Warn("the store was reloaded", "path", e.path, "took", time.Since(began))
	return nil
}

// onDisk reports whether the file shows a commit that failed: its last page may have been written before the fsync
// failed.
func (e *Engine) onDisk(c *machine.Commit) bool {
	var last uint64
	err := e.db.view(func(tx machine.Transaction) (err error) {
		last, err = machine.LastCommit(tx)
		return err
	})
	return err != nil || last >= c.Number
}

// commitLast writes the exact pace and all counters and tallies, so that an orderly restart loses nothing.
func (e *Engine) commitLast() {
	e.lock()
	defer e.unlockCommitter()
	if e.broken != nil {
		return
	}
	if err := e.write(e.machine.CollectLast(e.now())); err != nil {
		e.log.Warn("the last commit failed; departures may pause for a moment after reopening", "path", e.path, "error", err)
	}
}
