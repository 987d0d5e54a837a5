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

	lines map[string]*line
	names []string // of live queues, sorted
	// children is how many children a name has, those on their way to disk included.
	children map[string]int
	agenda   heap[*outlet]
	// ripening is the queues with scheduled jobs.
	ripening heap[*line]
	// pulled and pulledRipening are the same of pull queues.
	pulled         heap[*outlet]
	pulledRipening heap[*line]
	expiring       heap[*line] // with jobs that wait or are scheduled, and expire
	leases         heap[*flight]
	fading         heap[*lane] // that hold nothing, but have a bucket
	count          [queue.Expired + 1]int64
	dead           int64
	letters        map[string]*letters // of every name that has dead jobs, or a retention on file
	mourned        sorted[*letters]    // that have some, by name
	mourner        string              // whose dead were looked at last

	store    storeRecord // the counters on file, ahead of it while commits are under way
	fences   uint64
	pending  []change
	forget   []*ended // memory that is gone and records that are not
	expunged []uint64 // the same of deferred jobs
	garbage  []*rubbish
	left     map[string]paces // of deleted queues
	renews   leaky.Instant    // when the first calendar is to be
	patrol   int              // index in names of the queue whose memory is looked at next
	closing  bool
	broken   error     // why the file can no longer be trusted
	fullTill time.Time // no appends before: the file had no room
	// used is about how much of the file is, and fileSize all of it.
	used, fileSize atomic.Int64
	disk           disk

	clients map[string]*client
	// reserved is when a drainer last asked for jobs, 0 if none has since the file was opened.
	reserved leaky.Instant
	watch    watch
	ears     audience[queue.Wakeup]

	rules     map[string]*rule
	ruleNames []string       // of live rules, sorted
	named     map[string]int // rules that queues of their group name, by how many, Puts on their way to disk included
	asking    atomic.Bool    // there is one
	ruled     uint64         // grows with every change of rules, and of who names them; no queue knows of 0
	tallies   withering
	lastTally uint64                   // the last key of one
	lastBook  uint64                   // the last number of a book
	dirty     pile[*tally]             // that are not on file as they are
	dropped   pile[uint64]             // records of tallies that are gone
	attending map[string]leaky.Instant // when each process last took part in admission
	stirred   chan struct{}            // something is to be saved
	leaving   chan struct{}            // closed when the engine closes
	saved     chan struct{}            // closed when the saver has ended

	backlogs map[*line]struct{} // the queues that have one
	rooms    audience[string]
}

var (
	_ queue.Engine   = (*Engine)(nil)
	_ queue.Overflow = (*Engine)(nil)
	_ queue.Keeper   = (*Engine)(nil)
	_ queue.Mover    = (*Engine)(nil)
	_ queue.Rules    = (*Engine)(nil)
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

// full reports whether the file had no room a moment ago, or its disk has little. Each failed commit
// costs bbolt a look at the whole file, so they are not tried in a row.
func (e *Engine) full() bool {
	return time.Now().Before(e.fullTill) || e.opts.MaxBytes == 0 && e.space().Full()
}

const fullPause = 250 * time.Millisecond

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
	e.ears.dismiss()
	e.rooms.dismiss()
	close(e.leaving)
	e.mu.Unlock()
	<-e.saved
	<-e.ended
	if err := e.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", e.path, err)
	}
	return nil
}

// move takes a job from one state to another, as counted.
func (e *Engine) move(j *job, to queue.State) {
	for _, c := range []*[queue.Expired + 1]int64{&e.count, &j.lane.line.count} {
		if j.state != queue.StateNone {
			c[j.state]--
		}
		if !to.Ended() {
			c[to]++
		}
	}
	if j.flight != nil {
		j.lane.track(j.flight, to)
	}
	if idle(j.state) != idle(to) {
		e.mind(j, idle(to))
	}
	if l := j.lane.line; l.kin != nil {
		if j.state == queue.Waiting {
			l.kin.waits(l, -1)
		}
		if to == queue.Waiting {
			l.kin.waits(l, 1)
		}
	}
	j.state = to
}

// idle reports whether a job in that state waits, for its turn or for an instant.
func idle(s queue.State) bool { return s == queue.Waiting || s == queue.Scheduled }

// wait puts a job into the FIFO of its lane, and reports whether none waited there.
func (e *Engine) wait(j *job, now leaky.Instant) (first bool) {
	l := j.lane.line
	first = l.stand(j)
	e.move(j, queue.Waiting)
	l.place(j.lane, first, now)
	return first
}

// land takes a job out of flight that does not wait, and reports whether something may
// depart that could not for its sake.
func (e *Engine) land(j *job, to queue.State, now leaky.Instant) (freed bool) {
	l := j.lane.line
	crowded := l.crowded()
	e.move(j, to)
	return l.unblock(j.lane, now) || crowded && !l.crowded()
}

// arrive lets a job in that is on disk, and reports whether the queue is to be looked at.
func (e *Engine) arrive(j *job, now leaky.Instant) bool {
	l := j.lane.line
	l.arrived(j)
	first := true
	if j.flight == nil {
		first = e.wait(j, now)
	} else {
		e.schedule(j)
	}
	e.heed(j, now)
	return first
}

// schedule puts a job among those of its queue that wait for an instant.
func (e *Engine) schedule(j *job) {
	e.move(j, queue.Scheduled)
	j.lane.line.later.push(j.flight)
}

func (e *Engine) now() leaky.Instant {
	now := e.clock.now()
	if now >= e.renews {
		e.renewCalendars(now)
	}
	return now
}
