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
	// ackTimeout is how long the acknowledgment of a message may take.
	ackTimeout = 5 * time.Second
	// callTimeout bounds every other call to NATS, and calls to the engine.
	callTimeout = 5 * time.Second

	senders = 2 // concurrent batches of jobs
)

// Stream is the overflow on NATS: a stream of deferred jobs and a stream of dead letters. Its methods are safe for
// concurrent use. Create one with NewStream.
type Stream struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	observer Observer
	patience time.Duration
	subjects subjects
	name     string // name of the stream of jobs
	deadName string // name of the stream of dead letters
	puts     *coalesce.Coalescer[packedJob, error]
	created  atomic.Int64 // when the stream of jobs was created; identifies it
	failure  atomic.Pointer[failure]
	stuck    *stuck

	linked    atomic.Pointer[failure] // see link
	connected chan struct{}           // receives a value after a connect
	suspected chan struct{}           // wakes watchLeader

	wants, wantsDead      jetstream.StreamConfig // configurations to create them
	opening               sync.Mutex             // held while opening
	opened                chan struct{}          // closed when open; jobs and created are then set
	unopened              atomic.Pointer[failure]
	awayPause, unfitPause time.Duration // the constants; shorter in tests
	jobs                  jetstream.Stream

	writeFailure atomic.Pointer[writeFailure]

	mu        sync.Mutex
	listeners map[*Readmitter]struct{} // notified of new messages
	contact   context.Context          // ends when the connection breaks or the leader changes
	broke     context.CancelFunc
	leader    leadership
}

// failure wraps an error for an atomic.Pointer.
type failure struct{ err error }

// NewStream returns the overflow on a connection to NATS. It does not ask NATS, which may be away: Run opens the
// overflow as soon as possible, Open at once. Until then nothing can be put on it.
//
// The caller keeps the connection and closes it after Run. Create it with nats.ReconnectBufSize(-1): what NATS cannot
// receive now must be refused now, not buffered and stored after its producer was told that it failed. With
// nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort() it never gives up, either.
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
	s.puts = coalesce.New(senders, ackTimeout+time.Second, packedJob.size, s.send,
		func(_ packedJob, err error) error { return err })
	return s, nil
}

// Run opens the overflow, unless Open did, and keeps trying. When ctx ends it waits for the puts in progress, refuses
// further ones, and returns nil. It is called once. Appenders and Readmitters on the Stream should end first.
//
// Errors of opening are logged once, and returned by Connected and Status.
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

// identity distinguishes this stream from another one with the same name, whose sequence starts anew.
func (s *Stream) identity() string { return strconv.FormatInt(s.created.Load(), 36) }

// listen notifies r of every queue that jobs are put for, until forget is called.
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

func (s *Stream) notify(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.listeners {
		r.put(queue)
	}
}
