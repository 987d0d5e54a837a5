package deferred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// linkPause is how often the connection is looked at though it tells of no change: why it
// cannot be made may be another reason by now.
const linkPause = time.Second

// watchLink keeps what is known of the connection, until ctx ends. The client itself cannot
// be asked by who must not wait: while a connection is being made it answers nobody, and to
// a machine that is down that takes its whole timeout, again and again.
func (s *Stream) watchLink(ctx context.Context) {
	changes := s.nc.StatusChanged()
	defer s.nc.RemoveStatusListener(changes)
	for up := false; ; {
		err := s.askLink()
		s.linked.Store(&failure{err})
		if err == nil && !up {
			select {
			case s.connected <- struct{}{}:
			default:
			}
			s.back()
		}
		up = err == nil
		select {
		case <-ctx.Done():
			return
		case status := <-changes:
			if status != nats.CONNECTED {
				up = false
				s.linked.Store(&failure{disconnected(status)})
				s.breakOff()
			}
		case <-time.After(linkPause):
		}
	}
}

// link is why there is no connection, as far as is known; nil if there is one.
func (s *Stream) link() error {
	if l := s.linked.Load(); l != nil {
		return l.err
	}
	return s.askLink() // nobody watches yet
}

// askLink asks the client. A connection that was closed comes back as little as one whose
// login is refused.
func (s *Stream) askLink() error {
	status := s.nc.Status()
	if status == nats.CONNECTED {
		return nil
	}
	err, last := disconnected(status), s.nc.LastError()
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	if status == nats.CLOSED || errors.Is(last, nats.ErrAuthorization) || errors.Is(last, nats.ErrAuthExpired) ||
		errors.Is(last, nats.ErrAuthRevoked) || errors.Is(last, nats.ErrAccountAuthExpired) {
		return unfit{err}
	}
	return err
}

func disconnected(status nats.Status) error {
	return fmt.Errorf("%w: not connected to NATS (%s)", ErrUnavailable, strings.ToLower(status.String()))
}

// calling returns the context of a call to NATS. It ends after the timeout, or when the contact ends: then no answer
// can come.
func (s *Stream) calling(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	contact := s.contact
	s.mu.Unlock()
	return within(ctx, contact, timeout)
}

// asking returns the context of a call to the leader of the stream. It ends after leaderCallTimeout, or when the leader
// is gone. A call that waits for long makes watchLeader look for the leader.
func (s *Stream) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	leader := s.leader.ctx
	s.mu.Unlock()
	ctx, end := within(ctx, leader, leaderCallTimeout)
	suspicion := time.AfterFunc(suspectAfter, s.suspect)
	return ctx, func() {
		suspicion.Stop()
		end()
	}
}

// within returns a context that ends with ctx, with other, or after the timeout.
func within(ctx, other context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, expire := context.WithTimeout(ctx, timeout)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		expire()
		cancel(nil)
	}
}

// brokenOff returns the error of a call, as an ErrUnavailable if the call ended with its contact or with the leader.
func brokenOff(call context.Context, err error) error {
	if err == nil || !errors.Is(call.Err(), context.Canceled) || errors.Is(err, ErrUnavailable) {
		return err
	}
	if cause := context.Cause(call); errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// breakOff ends the calls under way: their connection broke.
func (s *Stream) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewContact()
}

// back has what failed while NATS was away tried again now.
func (s *Stream) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.listeners {
		r.back()
	}
}
