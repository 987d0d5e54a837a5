package survey

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// Step is the interval of readings without viewers, and the step of the fine history.
	Step = 5 * time.Second
	// watchedEvery is the interval of readings with viewers.
	watchedEvery = time.Second
	// hurried is the interval of readings after Hurry.
	hurried = watchedEvery / 4
	// readCost stretches the interval with the number of queues: 10,000 queues are read once per second, so that the
	// store spends at most a tenth of its time on readings.
	readCost = 100 * time.Microsecond
	// maxWhole is the maximum number of queues in one complete reading.
	maxWhole = 1000
	// maxAge is the maximum age of the complete reading of an idle queue.
	maxAge = time.Minute
	// patience is the timeout of a reading.
	patience = 10 * time.Second
)

// Options are the settings of a Survey. Zero fields mean the defaults.
type Options struct {
	// MaxQueues is the maximum number of queues with a history. Later queues get one only when others are deleted. The
	// default is 10,000.
	MaxQueues int
	// MaxEvents is the number of events kept for streams that resume. The default is 4,096.
	MaxEvents int
	// Keeper keeps histories and marks across restarts. Nil keeps them in memory only.
	Keeper Keeper
	// Version is the program's version, for marks of deployments.
	Version string
	Now     func() time.Time // the default is time.Now
	Logger  *slog.Logger     // the default discards
}

// Survey reads all queues and keeps the results. It is safe for concurrent use.
type Survey struct {
	engine   Engine
	o        Options
	instance string

	latest   atomic.Pointer[Snapshot]
	watching atomic.Int64
	dropped  atomic.Int64
	hurry    chan struct{} // capacity 1: a pending request for a reading

	reading chan struct{} // capacity 1: held during a reading
	mu      sync.Mutex    // guards the fields below
	tracks  map[string]*track
	clock   clock
	kept    int // number of tracks with a history
	log     eventLog
	marks   []Mark // oldest first, at most maxMarks
	keeping        // what the store keeps; guarded by reading

	readings uint64 // number of readings
}

// Engine is the part of an engine that a Survey reads.
type Engine interface {
	queue.Watch
	// Lineup is as in queue.Specs.
	Lineup(ctx context.Context, name string) (queue.Lineup, error)
}

// New returns a Survey without any reading yet; see Run.
func New(engine Engine, o Options) *Survey {
	if o.MaxQueues <= 0 {
		o.MaxQueues = 10_000
	}
	if o.MaxEvents <= 0 {
		o.MaxEvents = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Survey{
		engine: engine, o: o, instance: rand.Text()[:8], hurry: make(chan struct{}, 1), reading: make(chan struct{}, 1),
		tracks: map[string]*track{}, log: eventLog{most: o.MaxEvents},
	}
	s.latest.Store(&Snapshot{next: make(chan struct{})})
	return s
}

// Instance returns the id of this Survey. Event ids are valid only within it.
func (s *Survey) Instance() string { return s.instance }

// Latest returns the last snapshot. Before the first reading it is empty and its At is zero.
func (s *Survey) Latest() *Snapshot { return s.latest.Load() }

// ReadAt returns the time of the latest snapshot.
func (s *Survey) ReadAt() time.Time { return s.Latest().At }

// Watch requests a reading soon, and then once a second until leave is called.
func (s *Survey) Watch() (leave func()) {
	s.watching.Add(1)
	s.Hurry()
	return sync.OnceFunc(func() { s.watching.Add(-1) })
}

// Watching returns the number of current watchers.
func (s *Survey) Watching() int64 { return s.watching.Load() }

// Drop counts a watcher that was disconnected because it did not read.
func (s *Survey) Drop() { s.dropped.Add(1) }

// Dropped returns the number of calls of Drop.
func (s *Survey) Dropped() int64 { return s.dropped.Load() }

// Hurry requests a reading soon, after a change. It does not wait.
func (s *Survey) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// Run reads until ctx ends.
func (s *Survey) Run(ctx context.Context) error {
	for failing := false; ; {
		err := s.Read(ctx)
		if err != nil && ctx.Err() == nil && !failing { // log only the first of several failures
			s.o.Logger.Warn("queues cannot be read for the overview", "error", err)
		}
		failing = err != nil
		if !s.wait(ctx) {
			return nil
		}
	}
}

// wait waits until the next reading is due. It reports false if ctx has ended.
func (s *Survey) wait(ctx context.Context) bool {
	begun := time.Now()
	for every := Step; ; {
		if s.Watching() > 0 {
			every = min(every, max(watchedEvery, time.Duration(s.Latest().Len())*readCost))
		}
		timer := time.NewTimer(every - time.Since(begun))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.hurry:
			timer.Stop()
			every = hurried // also after many calls of Hurry
		case <-timer.C:
			return true
		}
	}
}
