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
)

// Engine is a queue.Engine on one bbolt file. Make one with Open.
type Engine struct {
	opts  Options
	log   *slog.Logger
	path  string
	file  os.FileInfo // as opened, to notice that it was replaced
	db    *bbolt.DB
	ended chan struct{} // closed when the committer has ended

	mu    sync.Mutex
	work  sync.Cond // something is pending, or the engine closes; its L is mu
	clock clock
	epoch uint64

	queues     map[string]*queueState
	queueNames []string // of live queues, sorted
	// children is how many children a name has, those on their way to disk included.
	children map[string]int
	agenda   heap[*agendaEntry]
	// timers is the queues with scheduled jobs.
	timers heap[*queueState]
	// pulled and pulledRipening are the same of pull queues.
	pulled        heap[*agendaEntry]
	pulledTimers  heap[*queueState]
	expiring      heap[*queueState] // with jobs that wait or are scheduled, and expire
	leases        heap[*lease]
	idleLanes     heap[*lane] // that hold nothing, but have a bucket
	counts        [queue.Expired + 1]int64
	deadCount     int64
	deadJobs      map[string]*deadJobs // of every name that has dead jobs, or a retention on file
	namesWithDead sorted[*deadJobs]    // that have some, by name
	deadCursor    string               // whose dead were looked at last

	store           storeRecord // the counters on file, ahead of it while commits are under way
	lastFence       uint64
	pending         []change
	forgotten       []*endedJob // memory that is gone and records that are not
	lapsedDeferrals []uint64    // the same of deferred jobs
	garbage         []*garbage
	leftPaces       map[string]paces // of deleted queues
	calendarsDue    leaky.Instant    // when the first calendar is to be
	trimCursor      int              // index in names of the queue whose memory is looked at next
	closing         bool
	broken          error     // why the file can no longer be trusted
	fullUntil       time.Time // no appends before: the file had no room
	// used is about how much of the file is, and fileSize all of it.
	used, fileSize atomic.Int64
	disk           disk

	clients map[string]*client
	// lastReserve is when a drainer last asked for jobs, 0 if none has since the file was opened.
	lastReserve   leaky.Instant
	watch         watch
	wakeListeners listeners[queue.Wakeup]

	rules          map[string]*rule
	ruleNames      []string       // of live rules, sorted
	ruleUses       map[string]int // rules that queues of their group name, by how many, Puts on their way to disk included
	anyRuleUsed    atomic.Bool    // there is one
	rulesVersion   uint64         // grows with every change of rules, and of who names them; no queue knows of 0
	tallySets      heap[*tallySet]
	lastTally      uint64                   // the last key of one
	lastTallySet   uint64                   // the last number of a book
	dirtyTallies   chunkList[*tally]        // that are not on file as they are
	droppedTallies chunkList[uint64]        // records of tallies that are gone
	attending      map[string]leaky.Instant // when each process last took part in admission
	saveWanted     chan struct{}            // something is to be saved
	closingCh      chan struct{}            // closed when the engine closes
	saverEnded     chan struct{}            // closed when the saver has ended

	withBacklog   map[*queueState]struct{} // the queues that have one
	roomListeners listeners[string]
}

var (
	_ queue.Engine = (*Engine)(nil)
	_ queue.Mover  = (*Engine)(nil)
)

// usable returns why the engine cannot decide anything, if so.
func (e *Engine) usable() error {
	if e.closing {
		return queue.ErrClosed
	}
	if e.broken != nil {
		return fmt.Errorf("%w: %s failed and is left alone until it is opened again: %w", queue.ErrUnavailable, e.path, e.broken)
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

// Close commits what is pending, and the exact pace, and lets go of the file.
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

// setState takes a job from one state to another, as counted.
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

// idle reports whether a job in that state waits, for its turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// putWaiting puts a job into the FIFO of its lane, and reports whether none waited there.
func (e *Engine) putWaiting(j *job, now leaky.Instant) (first bool) {
	q := j.lane.queue
	first = q.pushWaiting(j)
	e.setState(j, queue.Waiting)
	q.placeLane(j.lane, first, now)
	return first
}

// leaveFlight takes a job out of flight that does not wait, and reports whether something may
// depart that could not for its sake.
func (e *Engine) leaveFlight(j *job, to queue.State, now leaky.Instant) (freed bool) {
	q := j.lane.queue
	crowded := q.atMaxInFlight()
	e.setState(j, to)
	return q.unblock(j.lane, now) || crowded && !q.atMaxInFlight()
}

// enterJob lets a job in that is on disk, and reports whether the queue is to be looked at.
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

// clock is the engine's clock: it follows a source that may jump and never runs
// back itself. It is guarded by the engine's mutex.
type clock struct {
	source func() leaky.Instant
	offset leaky.Instant // grows by what the source jumped back
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
