package deferred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// linkPause is how often the connection is checked without news: the reason why it fails may have changed.
const linkPause = time.Second

// watchLink keeps the state of the connection up to date until ctx ends. Callers that must not wait cannot ask the
// client itself: it does not answer while it connects. If the machine is down, that takes its whole timeout, again and
// again.
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

// link returns why there is no connection, as far as is known, or nil.
func (s *Stream) link() error {
	if l := s.linked.Load(); l != nil {
		return l.err
	}
	return s.askLink() // watchLink does not run yet
}

// askLink asks the client. A closed connection never comes back, and neither does one whose login is refused.
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

// calling returns the context of a call to NATS. It ends after the timeout, or with the contact: then no answer can
// come.
func (s *Stream) calling(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	contact := s.contact
	s.mu.Unlock()
	return within(ctx, contact, timeout)
}

// asking returns the context of a call to the stream's leader. It ends after leaderCallTimeout, or when the leader is
// gone. A call that waits long makes watchLeader look for the leader.
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

// brokenOff returns the error of a call: an ErrUnavailable if the call ended with its contact or its leader.
func brokenOff(call context.Context, err error) error {
	if err == nil || !errors.Is(call.Err(), context.Canceled) || errors.Is(err, ErrUnavailable) {
		return err
	}
	if cause := context.Cause(call); errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// breakOff ends the calls in progress because their connection broke.
func (s *Stream) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewContact()
}

// back retries what failed while NATS was away.
func (s *Stream) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.listeners {
		r.back()
	}
}
