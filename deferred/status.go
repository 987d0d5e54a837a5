package deferred

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// ErrUnfit means that NATS answers but cannot hold the overflow until NATS or the Options are changed: see Open.
var ErrUnfit = errors.New("unfit for the overflow")

// Errors of Put besides queue.ErrOutcomeUnknown. They mean that the job was definitely not stored.
var (
	// ErrUnavailable means that NATS or JetStream cannot be reached, or that the Stream is not open. It is a
	// queue.ErrUnavailable.
	ErrUnavailable = fmt.Errorf("overflow: %w", queue.ErrUnavailable)
	// ErrFull means that the stream, the account or the server is at its limit.
	ErrFull = errors.New("the overflow is full")
	// ErrTooLarge means that the job exceeds max_payload of NATS.
	ErrTooLarge = errors.New("too large for the overflow")
)

// Status is the state of the overflow.
type Status struct {
	Connected bool
	Open      bool   // the streams exist and are fit
	Deferred  string // name of the stream of jobs
	Dead      string // name of the stream of dead letters
	// Err says why the overflow is not open, or why the last call to NATS failed; nil if it succeeded.
	Err error
	// Stuck is the result of Stream.Stuck.
	Stuck error
}

// Status returns the known state of the overflow without asking NATS.
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

// Connected returns nil, or why nothing can be put on the overflow now. It does not ask NATS.
func (s *Stream) Connected() error {
	if err := s.reachable(); err != nil {
		return err
	}
	return s.writeError()
}

// reachable is Connected without the check for write failures: a batch makes that one again.
func (s *Stream) reachable() error {
	if err := s.link(); err != nil {
		return err
	}
	if !s.isOpen() {
		return s.closed()
	}
	return nil
}

// closed returns why the overflow is not open. It is always an ErrUnavailable, because the job may come again.
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

// note records the result of the last call. A caller's own cancellation says nothing about NATS.
func (s *Stream) note(err error) error {
	switch {
	case err == nil:
		s.failure.Store(nil)
	case !errors.Is(err, context.Canceled):
		s.failure.Store(&failure{err})
	}
	return err
}
