package deferred

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamState is one of the overflow's two streams: of jobs, and of dead letters.
type StreamState struct {
	Name    string
	Missing bool // it is made when a process first opens the overflow
	// Err is why it would lose or refuse jobs, nil if it would not.
	Err             error
	Messages        uint64
	Bytes, MaxBytes int64
	Oldest          time.Time // when the oldest message was stored; zero if there is none
	// Time is the clock of NATS, and Asked and Answered the instants of this machine between which it was read.
	Time, Asked, Answered time.Time
}

// Look tells how the streams are, and makes and changes nothing. Its errors are those of Open.
func (s *Stream) Look(ctx context.Context) ([]StreamState, error) {
	if err := s.askLink(); err != nil {
		return nil, err
	}
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	var all []StreamState
	for _, wants := range []jetstream.StreamConfig{s.wants, s.wantsDead} {
		asked := time.Now()
		stream, err := s.js.Stream(ctx, wants.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			all = append(all, StreamState{Name: wants.Name, Missing: true})
			continue
		case err != nil:
			return nil, s.judge(fmt.Errorf("stream %s: %w", wants.Name, err))
		}
		has := stream.CachedInfo()
		one := StreamState{
			Name: wants.Name, Err: s.fit(has.Config, wants), Messages: has.State.Msgs, Bytes: int64(has.State.Bytes),
			MaxBytes: has.Config.MaxBytes, Time: has.TimeStamp, Asked: asked, Answered: time.Now(),
		}
		if one.Messages > 0 {
			one.Oldest = has.State.FirstTime
		}
		all = append(all, one)
	}
	return all, nil
}
