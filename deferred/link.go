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

// calling bounds a call to NATS: by its time, and by its connection, for where that broke no answer comes.
func (s *Stream) calling(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	s.mu.Lock()
	contact := s.contact
	s.mu.Unlock()
	stop := context.AfterFunc(contact, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// brokenOff makes of the error of a call one that says so, if it was its connection that ended it.
func brokenOff(call context.Context, err error) error {
	if err != nil && errors.Is(call.Err(), context.Canceled) && !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// breakOff ends the calls under way: their connection broke.
func (s *Stream) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broke()
	s.contact, s.broke = context.WithCancel(context.Background())
}

// back has what failed while NATS was away tried again now.
func (s *Stream) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.listeners {
		r.back()
	}
}
