package boltq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Engine is a queue.Engine on one bbolt file. Make one with Open.
type Engine struct {
	opts Options
	log  *slog.Logger
	storeFile
	epoch uint64     // of the machine's fences
	mu    sync.Mutex // guards all that follows
	clock clock
	committer
	saver
	closing   bool
	closingCh chan struct{} // closed when the engine closes
	// machine decides. A commit that failed replaces it: see fail.
	machine *machine.Machine
	heap    heap
	wakes   listeners[queue.Wakeup]
	rooms   listeners[string]

	imported queue.SpecParser // of imported queues
}

// storeFile is the file and what is known of its disk.
type storeFile struct {
	path      string      // empty in memory
	file      os.FileInfo // as opened, to notice that it was replaced
	db        storage
	broken    error     // why the file can no longer be trusted
	unread    error     // why it could not be loaded after that; then nothing is known
	fullUntil time.Time // no appends before: the file had no room
	scarce    error     // why a queue that takes much of the store gets no more
	// used is about how much of the file is in use, fileSize its size.
	used, fileSize atomic.Int64
	disk           disk
}

var (
	_ queue.Engine       = (*Engine)(nil)
	_ document.Documents = (*Engine)(nil)
	_ audit.Log          = (*Engine)(nil)
	_ move.Mover         = (*Engine)(nil)
)

// lock takes the mutex, and updates the machine's environment before anything is decided.
func (e *Engine) lock() { e.lockKnowing(0) }

// lockKnowing is lock for a caller that knows the last instant that the clock can show.
func (e *Engine) lockKnowing(latest leaky.Instant) {
	e.mu.Lock()
	e.lookAround(latest)
}

// lookAround reads the clock, once for all decisions until the mutex is released, and updates how much room there is.
func (e *Engine) lookAround(latest leaky.Instant) {
	wall := time.Now()
	e.clock.read(wall, latest)
	space, m := e.fileSpace(wall), e.machine
	memory := e.heap.space(m.JobsKept(), wall)
	m.Environment = machine.Environment{
		Bytes: space.Limit, Memory: e.heap.room(memory), RoomHeard: len(e.rooms) > 0, Ahead: e.clock.Ahead,
	}
	if memory.Limit > 0 && (space.Limit == 0 || memory.Limit < space.Limit) {
		m.Bytes = memory.Limit
	}
	if space.Limit > 0 {
		m.Free, m.Scarce = max(1, space.Stop-space.Used-int64(m.PendingBytes())), e.scarce
	}
	if e.outOfSpace(space, wall) {
		m.Full = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
	}
}

// unlock releases the mutex, sends the machine's signals, and starts the commit of what is pending.
func (e *Engine) unlock() {
	pending := e.machine.Pending()
	e.unlockCommitter()
	switch {
	case !pending:
	case e.inMemory():
		e.commitPending()
	default:
		e.work.Signal()
	}
}

// unlockCommitter is unlock for the committer, which looks for pending commits itself.
func (e *Engine) unlockCommitter() {
	wakeups, rooms := e.machine.Signals()
	e.wakes.notify(wakeups)
	e.rooms.notify(rooms)
	if e.machine.UnsavedTallies() {
		e.wakeSaver()
	}
	e.mu.Unlock()
}

func (e *Engine) inMemory() bool { return e.path == "" }

// usable returns why the engine cannot decide anything, or nil.
func (e *Engine) usable() error {
	if e.opts.ReadOnly {
		return fmt.Errorf("%w: %s is %w", queue.ErrUnavailable, e.path, ErrReadOnly)
	}
	return e.alive()
}

// alive returns why the engine can neither be read nor changed, or nil.
func (e *Engine) alive() error {
	if e.closing {
		return queue.ErrClosed
	}
	if e.broken != nil {
		return fmt.Errorf(
			"%w: %s failed and is unusable until it is reopened: %w", queue.ErrUnavailable, e.path, e.broken,
		)
	}
	return nil
}

// Check implements queue.Engine.
func (e *Engine) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.lock()
	err := e.alive()
	e.unlock()
	if err != nil || e.inMemory() {
		return err
	}
	now, err := os.Stat(e.path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s was removed while in use", queue.ErrNoStore, e.path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	if !os.SameFile(now, e.file) {
		return fmt.Errorf("%w: %s was replaced while in use", queue.ErrNoStore, e.path)
	}
	return nil
}

// Close commits what is pending and the exact pace, and releases the file.
func (e *Engine) Close() error {
	e.lock()
	if e.closing {
		e.unlock()
		<-e.ended
		return nil
	}
	e.closing = true
	e.work.Signal()
	e.wakes.closeAll()
	e.rooms.closeAll()
	close(e.closingCh)
	e.unlock()
	<-e.saverEnded
	if e.inMemory() {
		e.commitPending()
		e.commitLast()
		close(e.ended)
	}
	<-e.ended
	if err := e.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", e.path, err)
	}
	return nil
}

// now returns the time of what is decided, as of lookAround.
func (e *Engine) now() leaky.Instant {
	now := e.clock.Last
	if err := e.machine.Tick(now); err != nil {
		e.log.Error("the calendar of a quota cannot be renewed; it repeats its last window", "path", e.path, "error", err)
	}
	return now
}

// clock is the engine's clock. The engine's mutex guards it.
type clock struct {
	machine.Clock
	source func() leaky.Instant // nil is the wall clock
	// simulated says that the source needs nobody to vouch for it.
	simulated bool
	at        time.Time // time of the last reading; setting the wall clock leaves its monotonic part alone
}

// read reads the clock. Without a source the process vouches for it by its monotonic clock. With a source the caller of
// Reserve vouches, and knows latest.
func (c *clock) read(wall time.Time, latest leaky.Instant) {
	if c.source != nil {
		if c.simulated {
			latest = 0
		}
		c.Look(c.source(), latest)
		return
	}
	if latest = 0; !c.at.IsZero() {
		latest = c.Last.Add(wall.Sub(c.at))
	}
	c.at = wall
	c.Look(leaky.Instant(wall.UnixMicro()), latest)
}
