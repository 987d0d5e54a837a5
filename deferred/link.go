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
		}
		up = err == nil
		select {
		case <-ctx.Done():
			return
		case status := <-changes:
			if status != nats.CONNECTED {
				up = false
				s.linked.Store(&failure{disconnected(status)})
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
