package deferred

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// Errors of Put, besides queue.ErrOutcomeUnknown. With these a job was not stored, for
// certain.
var (
	// ErrUnavailable: NATS, or JetStream, cannot be reached. It is a queue.ErrUnavailable.
	ErrUnavailable = fmt.Errorf("overflow: %w", queue.ErrUnavailable)
	// ErrFull: the stream, the account or the server is at its limit.
	ErrFull = errors.New("the overflow is full")
	// ErrTooLarge: the job is larger than NATS' max_payload.
	ErrTooLarge = errors.New("too large for the overflow")
)

// Status is how the overflow is doing.
type Status struct {
	Connected bool
	Deferred  string // the name of the stream of jobs
	Dead      string // and of that of dead letters
	// Err is why the last call to NATS failed; nil when it succeeded.
	Err error
}

// Status tells how the overflow is doing, from what is known: it asks nobody.
func (s *Stream) Status() Status {
	st := Status{Connected: s.nc.IsConnected(), Deferred: s.name, Dead: s.deadName}
	if f := s.failure.Load(); f != nil {
		st.Err = f.err
	}
	return st
}

// Connected returns nil, or why nothing can be put on the overflow now. It asks
// nobody.
func (s *Stream) Connected() error {
	if !s.nc.IsConnected() {
		return fmt.Errorf("%w: not connected to NATS (%s)", ErrUnavailable, s.nc.Status())
	}
	return nil
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
