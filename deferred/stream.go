package deferred

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

const (
	// ackTimeout is how long a message may take to be acknowledged.
	ackTimeout = 5 * time.Second
	// callTimeout bounds every other call to NATS, and to the engine.
	callTimeout = 5 * time.Second

	lanes = 2 // flights of jobs under way at a time
)

// Stream is the overflow as NATS keeps it: a stream of deferred jobs and one of dead
// letters. Its methods are safe for use by many goroutines.
type Stream struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	observer Observer
	subjects subjects
	name     string // of the stream of jobs
	deadName string // of that of dead letters
	jobs     jetstream.Stream
	puts     *queue.Coalescer[parcel, error]
	created  atomic.Int64 // when the stream of jobs was made, by which it is told from another of its name
	failure  atomic.Pointer[failure]

	mu   sync.Mutex
	ears map[*Readmitter]struct{} // who wants to know what was put
}

// failure is why the last call failed.
type failure struct{ err error }

// Open makes the two streams where they are not there, and checks them where they are;
// it changes none. Any number of processes may do that at once. The connection stays
// the caller's, to close after the Stream; it should be made with
// nats.ReconnectBufSize(-1): what NATS cannot be given now is refused now, and not kept
// back to be stored after its producer was told that it was not.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Stream, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("deferred: %w", err)
	}
	if err := checkServer(ctx, nc, js); err != nil {
		return nil, fmt.Errorf("deferred: %w", err)
	}
	s := &Stream{nc: nc, js: js, log: o.Logger, observer: o.Observer, subjects: newSubjects(o.Prefix), ears: map[*Readmitter]struct{}{}}
	jobs, dead := settings(o)
	s.name, s.deadName = jobs.Name, dead.Name
	s.puts = queue.NewCoalescer(lanes, ackTimeout+time.Second, parcel.size, s.send, func(_ parcel, err error) error { return err })
	if s.jobs, err = s.open(ctx, jobs); err != nil {
		return nil, err
	}
	if _, err = s.open(ctx, dead); err != nil {
		return nil, err
	}
	s.created.Store(s.jobs.CachedInfo().Created.UnixNano())
	return s, nil
}

// checkServer refuses a NATS without JetStream, or without reading many messages at
// once.
func checkServer(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	account, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("the NATS server at %s has no JetStream: start it with --jetstream, or name another", nc.ConnectedUrlRedacted())
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the account on NATS at %s has no JetStream: enable it for the account, or use another", nc.ConnectedUrlRedacted())
	case err != nil:
		return fmt.Errorf("asking NATS about JetStream: %w", err)
	case account.API.Level < 1:
		return fmt.Errorf("nats-server %s is too old: 2.11 or newer is needed", nc.ConnectedServerVersion())
	}
	return nil
}

// open looks a stream up, or makes it.
func (s *Stream) open(ctx context.Context, wants jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, wants.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = s.js.CreateStream(ctx, wants)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made meanwhile, with other settings
			stream, err = s.js.Stream(ctx, wants.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("deferred: stream %s with num_replicas %d and max_bytes %d: %w", wants.Name, wants.Replicas, wants.MaxBytes, err)
	}
	has := stream.CachedInfo().Config
	if d := differences(has, wants, s.nc.MaxPayload()); len(d) > 0 {
		return nil, fmt.Errorf("deferred: stream %s would lose or refuse jobs: %s; it was left as it is: change it with nats stream edit, or choose another prefix",
			wants.Name, strings.Join(d, "; "))
	}
	if has.MaxBytes > 0 && has.MaxBytes < wants.MaxBytes {
		s.log.Warn("a stream of the overflow holds less than asked for; it was made so, and is left as it is",
			"stream", wants.Name, "max_bytes", has.MaxBytes, "asked", wants.MaxBytes)
	}
	return stream, nil
}

// Close waits for what is being put. It does not close the connection.
func (s *Stream) Close() {
	s.puts.Close()
	s.js.CleanupPublisher()
}

// identity tells this stream from another of its name, in which the sequence begins
// anew.
func (s *Stream) identity() string { return strconv.FormatInt(s.created.Load(), 36) }

// listen has r told of every queue that something is put for, until forget.
func (s *Stream) listen(r *Readmitter) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ears[r] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ears, r)
	}
}

func (s *Stream) tell(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.ears {
		r.put(queue)
	}
}
