package deferred

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/coalesce"
)

const (
	// ackTimeout is how long a message may take to be acknowledged.
	ackTimeout = 5 * time.Second
	// callTimeout bounds every other call to NATS, and to the engine.
	callTimeout = 5 * time.Second

	lanes = 2 // batches of jobs under way at a time
)

// Stream is the overflow as NATS keeps it: a stream of deferred jobs and one of dead
// letters. Its methods are safe for use by many goroutines. Make one with NewStream.
type Stream struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	observer Observer
	patience time.Duration
	subjects subjects
	name     string // of the stream of jobs
	deadName string // of that of dead letters
	puts     *coalesce.Coalescer[packedJob, error]
	created  atomic.Int64 // when the stream of jobs was made, by which it is told from another of its name
	failure  atomic.Pointer[failure]
	stuck    *stuck

	linked    atomic.Pointer[failure] // see link
	connected chan struct{}           // has something when it was connected a moment ago
	suspected chan struct{}           // wakes watchLeader

	wants, wantsDead      jetstream.StreamConfig // as they are made
	opening               sync.Mutex             // held while somebody opens it
	opened                chan struct{}          // closed when it is open: jobs is set then, and created
	unopened              atomic.Pointer[failure]
	awayPause, unfitPause time.Duration // the constants of that name
	jobs                  jetstream.Stream

	writeFailure atomic.Pointer[writeFailure]

	mu        sync.Mutex
	listeners map[*Readmitter]struct{} // who wants to know what was put
	contact   context.Context          // ends when the connection breaks or the leader changes
	broke     context.CancelFunc
	leader    leadership
}

// failure is why something failed.
type failure struct{ err error }

// NewStream returns the overflow on a connection to NATS. It asks NATS nothing, which may
// be away: Run opens the overflow as soon as it can be, or Open at once. Until then
// nothing can be put on it.
//
// The connection stays the caller's, to close after Run. Make it with
// nats.ReconnectBufSize(-1): what NATS cannot be given now is refused now, and not kept
// back to be stored after its producer was told that it was not. With
// nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort()
// it does not give up either.
func NewStream(nc *nats.Conn, o Options) (*Stream, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("deferred: %w", err)
	}
	s := &Stream{
		nc: nc, js: js, log: o.Logger, observer: o.Observer, patience: o.Patience, subjects: newSubjects(o.Prefix),
		stuck:     newStuck(),
		listeners: map[*Readmitter]struct{}{},
		opened:    make(chan struct{}), connected: make(chan struct{}, 1), suspected: make(chan struct{}, 1),
		awayPause: awayPause, unfitPause: unfitPause,
	}
	s.broke = func() {}
	s.renewContact()
	s.wants, s.wantsDead = settings(o)
	s.name, s.deadName = s.wants.Name, s.wantsDead.Name
	s.puts = coalesce.New(lanes, ackTimeout+time.Second, packedJob.size, s.send,
		func(_ packedJob, err error) error { return err })
	return s, nil
}

// Run opens the overflow, unless Open has, and tries for as long as that takes. When ctx
// ends it waits for what is being put, refuses more, and returns nil. It is called once;
// an Appender and a Readmitter on the Stream should end before it does.
//
// What keeps the overflow from being opened is logged once, and told by Connected and
// Status.
func (s *Stream) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.watchLink(ctx) })
	running.Go(func() { s.keepOpening(ctx) })
	running.Go(func() { s.watchLeader(ctx) })
	<-ctx.Done()
	running.Wait()
	s.puts.Close()
	s.js.CleanupPublisher()
	return nil
}

// identity tells this stream from another of its name, in which the sequence begins
// anew.
func (s *Stream) identity() string { return strconv.FormatInt(s.created.Load(), 36) }

// listen has r told of every queue that something is put for, until forget.
func (s *Stream) listen(r *Readmitter) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[r] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, r)
	}
}

func (s *Stream) tell(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.listeners {
		r.put(queue)
	}
}
