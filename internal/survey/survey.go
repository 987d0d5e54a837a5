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
	// Step is how often the queues are read while nobody watches, and that of the fine history.
	Step = 5 * time.Second
	// watchedEvery is how often they are read while somebody does.
	watchedEvery = time.Second
	// hurried is how soon after a reading the next one may be, when somebody knows that something has changed.
	hurried = watchedEvery / 4
	// readCost is how much of that time a queue takes: 10,000 are read once a second, so that the store spends a
	// tenth of its time at it at most.
	readCost = 100 * time.Microsecond
	// maxWhole is how many queues are read whole at a time.
	maxWhole = 1000
	// maxAge is how old what is known of an idle queue may become.
	maxAge = time.Minute
	// patience bounds one reading.
	patience = 10 * time.Second
)

// Options are the settings of a Survey. Zero fields mean what is said beside them.
type Options struct {
	// MaxQueues is how many queues have a history: 10,000. Those that are seen later have none until others are deleted.
	MaxQueues int
	// MaxEvents is how many events are remembered, for streams that are resumed: 4,096.
	MaxEvents int
	// Now is the clock: time.Now.
	Now    func() time.Time
	Logger *slog.Logger // discards
}

// Survey is what is known of all queues. It is safe for use by many goroutines.
type Survey struct {
	engine   queue.Watch
	o        Options
	instance string

	latest   atomic.Pointer[Snapshot]
	watching atomic.Int64
	dropped  atomic.Int64
	hurry    chan struct{} // of one place: somebody wants a reading now

	reading chan struct{} // of one place: who reads has it
	mu      sync.Mutex    // of what follows
	tracks  map[string]*track
	clock   clock
	kept    int // tracks with a history
	log     eventLog

	readings uint64 // how many there were
}

// New returns a Survey that has read nothing. Run reads.
func New(engine queue.Watch, o Options) *Survey {
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

// Instance names this Survey: what it remembers another does not.
func (s *Survey) Instance() string { return s.instance }

// Latest is the last reading; before the first one it is empty, and At zero.
func (s *Survey) Latest() *Snapshot { return s.latest.Load() }

// ReadAt is when that was.
func (s *Survey) ReadAt() time.Time { return s.Latest().At }

// Watch has the queues read once a second, and soon, until leave is called.
func (s *Survey) Watch() (leave func()) {
	s.watching.Add(1)
	s.Hurry()
	return sync.OnceFunc(func() { s.watching.Add(-1) })
}

// Watching is how many do.
func (s *Survey) Watching() int64 { return s.watching.Load() }

// Drop counts one who watched and did not read what there was.
func (s *Survey) Drop() { s.dropped.Add(1) }

// Dropped is how many were.
func (s *Survey) Dropped() int64 { return s.dropped.Load() }

// Hurry asks for a reading soon, for somebody knows that something has changed. It does not wait for it.
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
		if err != nil && ctx.Err() == nil && !failing { // once, not at every reading
			s.o.Logger.Warn("queues cannot be read for the overview", "error", err)
		}
		failing = err != nil
		if !s.wait(ctx) {
			return nil
		}
	}
}

// wait returns when the next reading is due, and whether there is to be one.
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
			every = hurried // however often somebody hurries
		case <-timer.C:
			return true
		}
	}
}
