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

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/move"
)

// Engine is a queue.Engine on one bbolt file. Make one with Open.
type Engine struct {
	opts Options
	log  *slog.Logger
	storeFile
	mu    sync.Mutex // guards all that follows
	clock clock
	epoch uint64
	committer
	saver
	closing   bool
	closingCh chan struct{} // closed when the engine closes

	queues     map[string]*queueState
	queueNames []string // of live queues, sorted
	// children counts the children of each name, including those whose creation is not on disk yet.
	children map[string]int
	counts   [queue.Expired + 1]int64
	schedules
	leases       heap[*lease]
	lastFence    uint64
	idleLanes    heap[*lane]   // lanes without jobs whose bucket still delays
	calendarsDue leaky.Instant // when the next calendar must be renewed
	drainers
	rulebook
	deadIndex
	leftovers
	withBacklog   map[*queueState]struct{} // queues with jobs on the overflow
	roomListeners listeners[string]
	// documentCalls has the call that decides about a document, or whose change of it is under way.
	documentCalls map[string]*call
}

// storeFile is the file and what is known of its disk.
type storeFile struct {
	path      string
	file      os.FileInfo // as opened, to notice that it was replaced
	db        *bbolt.DB
	broken    error     // why the file can no longer be trusted
	fullUntil time.Time // no appends before then: the file had no room
	// auditWarned is when the log last said that the audit log is full.
	auditWarned time.Time
	// used is about how much of the file is in use, fileSize its size.
	used, fileSize atomic.Int64
	disk           disk
}

var (
	_ queue.Engine    = (*Engine)(nil)
	_ queue.Documents = (*Engine)(nil)
	_ queue.AuditLog  = (*Engine)(nil)
	_ move.Mover      = (*Engine)(nil)
)

// usable returns why the engine cannot decide anything, or nil.
func (e *Engine) usable() error {
	if e.closing {
		return queue.ErrClosed
	}
	if e.broken != nil {
		return fmt.Errorf(
			"%w: %s failed and is left alone until it is opened again: %w", queue.ErrUnavailable, e.path, e.broken,
		)
	}
	return nil
}

// Check implements queue.Engine.
func (e *Engine) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	err := e.usable()
	e.mu.Unlock()
	if err != nil {
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
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		<-e.ended
		return nil
	}
	e.closing = true
	e.work.Signal()
	e.wakeListeners.closeAll()
	e.roomListeners.closeAll()
	close(e.closingCh)
	e.mu.Unlock()
	<-e.saverEnded
	<-e.ended
	if err := e.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", e.path, err)
	}
	return nil
}

// setState moves a job to another state and keeps all counts in step.
func (e *Engine) setState(j *job, to queue.State) {
	for _, c := range []*[queue.Expired + 1]int64{&e.counts, &j.lane.queue.counts} {
		if j.state != queue.StateNone {
			c[j.state]--
		}
		if !to.Ended() {
			c[to]++
		}
	}
	if j.lease != nil {
		j.lane.trackInFlight(j.lease, to)
	}
	if idle(j.state) != idle(to) {
		e.trackDeadline(j, idle(to))
	}
	if q := j.lane.queue; q.group != nil {
		if j.state == queue.Waiting {
			q.group.addWaiting(q, -1)
		}
		if to == queue.Waiting {
			q.group.addWaiting(q, 1)
		}
	}
	j.state = to
}

// idle reports whether jobs in that state wait, for their turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// putWaiting puts a job among the waiting ones of its lane, and reports whether the lane had none.
func (e *Engine) putWaiting(j *job, now leaky.Instant) (first bool) {
	q := j.lane.queue
	first = q.pushWaiting(j)
	e.setState(j, queue.Waiting)
	q.placeLane(j.lane, first, now)
	return first
}

// leaveFlight takes a leased job to a state other than waiting, and reports whether that unblocked its lane or its
// queue.
func (e *Engine) leaveFlight(j *job, to queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	crowded := q.atMaxInFlight()
	e.setState(j, to)
	return q.unblock(j.lane, now) || crowded && !q.atMaxInFlight()
}

// enterJob makes a job visible whose append is on disk, and reports whether the queue needs a look.
func (e *Engine) enterJob(j *job, now leaky.Instant) bool {
	q := j.lane.queue
	q.removeIncoming(j)
	first := true
	if j.lease == nil {
		first = e.putWaiting(j, now)
	} else {
		e.putScheduled(j)
	}
	e.wakeForExpiry(j, now)
	return first
}

func (e *Engine) now() leaky.Instant {
	now := e.clock.now()
	if now >= e.calendarsDue {
		e.renewCalendars(now)
	}
	return now
}

// clock is the engine's clock: it follows a source that may jump either way, but never runs back itself. The
// engine's mutex guards it.
type clock struct {
	source func() leaky.Instant
	offset leaky.Instant // the sum of all jumps back of the source
	last   leaky.Instant
}

func (c *clock) now() leaky.Instant {
	t := c.source() + c.offset
	if t < c.last {
		c.offset += c.last - t
		t = c.last
	}
	c.last = t
	return t
}
