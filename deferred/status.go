package deferred

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// ErrUnfit says that NATS is there, but the overflow cannot be on it, as long as nobody changes NATS
// or the Options: see Open.
var ErrUnfit = errors.New("unfit for the overflow")

// Errors of Put, besides queue.ErrOutcomeUnknown. With these a job was not stored, for
// certain.
var (
	// ErrUnavailable: NATS, or JetStream, cannot be reached; or the Stream is not open. It is a queue.ErrUnavailable.
	ErrUnavailable = fmt.Errorf("overflow: %w", queue.ErrUnavailable)
	// ErrFull: the stream, the account or the server is at its limit.
	ErrFull = errors.New("the overflow is full")
	// ErrTooLarge: the job is larger than NATS' max_payload.
	ErrTooLarge = errors.New("too large for the overflow")
)

// Status is how the overflow is doing.
type Status struct {
	Connected bool
	Open      bool   // the streams were found fit
	Deferred  string // the name of the stream of jobs
	Dead      string // and of that of dead letters
	// Err is why it is not open; or why the last call to NATS failed, nil when it succeeded.
	Err error
	// Stuck is what Stream.Stuck returns.
	Stuck error
}

// Status tells how the overflow is doing, from what is known: it asks nobody.
func (s *Stream) Status() Status {
	st := Status{Connected: s.link() == nil, Open: s.isOpen(), Deferred: s.name, Dead: s.deadName, Stuck: s.Stuck()}
	if f := s.failure.Load(); f != nil {
		st.Err = f.err
	}
	if !st.Open {
		st.Err = s.closed()
	}
	return st
}

// Connected returns nil, or why nothing can be put on the overflow now. It asks
// nobody.
func (s *Stream) Connected() error {
	if err := s.reachable(); err != nil {
		return err
	}
	return s.writeError()
}

// reachable is the same, but for a stream that cannot write: a batch asks that again.
func (s *Stream) reachable() error {
	if err := s.link(); err != nil {
		return err
	}
	if !s.isOpen() {
		return s.closed()
	}
	return nil
}

// closed says why the overflow is not open: an ErrUnavailable in any case, for a job that
// finds it so may come again.
func (s *Stream) closed() error {
	f := s.unopened.Load()
	switch {
	case f == nil:
		return fmt.Errorf("%w: not open yet", ErrUnavailable)
	case errors.Is(f.err, ErrUnavailable):
		return f.err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, f.err)
}

// note remembers how the last call went. Whoever gave up by himself learnt nothing.
func (s *Stream) note(err error) error {
	switch {
	case err == nil:
		s.failure.Store(nil)
	case !errors.Is(err, context.Canceled):
		s.failure.Store(&failure{err})
	}
	return err
}
