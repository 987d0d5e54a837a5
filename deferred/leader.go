package deferred

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// NATS does not tell clients that the leader of a stream died, and a dead leader answers no call. So a call that waits
// long makes watchLeader look for the leader. The call ends when the leader is gone, or when another node leads.

const (
	// leaderCallTimeout bounds a call to the leader. Calls are repeated: after an unnoticed change of leaders no
	// answer may come.
	leaderCallTimeout = 2 * time.Second
	// suspectAfter is how long a call waits before watchLeader looks for the leader.
	suspectAfter = 500 * time.Millisecond
	// leaderTimeout is how long the leader may take to answer that it is there.
	leaderTimeout = 500 * time.Millisecond
	// leaderPause is the time between two requests while there is no leader.
	leaderPause = 100 * time.Millisecond
	// leaderAge is how often watchLeader looks in any case. Otherwise it could take an old change for a new one, and
	// end calls that the present leader will answer.
	leaderAge = 10 * time.Second
)

// errNoLeader ends calls to a leader that does not answer.
var errNoLeader = fmt.Errorf("%w: the stream has no leader", ErrUnavailable)

// leadership is the state of the leader of the stream of jobs. The mutex of the Stream guards it.
type leadership struct {
	name string          // empty while unknown, and outside a cluster
	ctx  context.Context // ends when the leader is gone or the contact ends
	lose context.CancelCauseFunc
	gone time.Time // when the leader was found gone; zero while there is one
}

// suspect makes watchLeader look for the leader now.
func (s *Stream) suspect() {
	select {
	case s.suspected <- struct{}{}:
	default:
	}
}

// watchLeader looks for the leader when a call waits long, until there is one. It ends when ctx does.
func (s *Stream) watchLeader(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.opened:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.suspected:
		case <-time.After(leaderAge):
		}
		for s.link() == nil && !s.findLeader(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(leaderPause):
			}
		}
	}
}

// findLeader asks which node leads the stream, and reports whether an answer came. Without an answer it ends the calls
// to the leader.
func (s *Stream) findLeader(ctx context.Context) bool {
	call, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	info, err := s.jobs.Info(call)
	var answer *jetstream.APIError
	switch {
	case ctx.Err() != nil:
		return true
	case err == nil && hasLeader(info):
		s.answered(info)
		return true
	case errors.As(err, &answer) && !slices.Contains(passing, answer.ErrorCode):
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader.name == "" { // a single server is just slow: there is no other to elect
		return true
	}
	if s.leader.gone.IsZero() {
		s.leader.gone = time.Now()
		s.leader.lose(errNoLeader)
	}
	return false
}

// hasLeader reports whether the stream has a leader, as a node of its cluster sees it.
func hasLeader(info *jetstream.StreamInfo) bool {
	return info.Cluster == nil || info.Cluster.Leader != ""
}

// answered records the leader's answer about the stream. During an election a node without a leader may answer, too.
func (s *Stream) answered(info *jetstream.StreamInfo) {
	if !hasLeader(info) {
		return
	}
	s.created.Store(info.Created.UnixNano())
	name := "" // outside a cluster
	if info.Cluster != nil {
		name = info.Cluster.Leader
	}
	if s.setLeader(name) {
		s.back()
	}
}

// setLeader records which node leads the stream, and reports whether failed looks may succeed now.
func (s *Stream) setLeader(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, gone := s.leader.name != "" && name != s.leader.name, !s.leader.gone.IsZero()
	s.leader.name = name
	if changed {
		s.renewContact() // the former leader answers no call any more
	} else if gone {
		s.renewLeader()
	}
	return changed || gone
}

// leaderless returns when the stream lost its leader, or zero while it has one.
func (s *Stream) leaderless() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader.gone
}

// renewContact ends all calls in progress. mu is held.
func (s *Stream) renewContact() {
	s.broke()
	s.contact, s.broke = context.WithCancel(context.Background())
	s.renewLeader()
}

// renewLeader allows calls to the leader again. mu is held.
func (s *Stream) renewLeader() {
	s.leader.ctx, s.leader.lose = context.WithCancelCause(s.contact)
	s.leader.gone = time.Time{}
}
