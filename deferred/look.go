package deferred

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamState describes one of the overflow's two streams: of jobs, and of dead letters.
type StreamState struct {
	Name    string
	Missing bool // created when a process first opens the overflow
	// Err says why the stream would lose or refuse jobs, or nil.
	Err             error
	Messages        uint64
	Bytes, MaxBytes int64
	Oldest          time.Time // time of the oldest message, or zero
	// Time is the clock of NATS. It was read between Asked and Answered on this machine's clock.
	Time, Asked, Answered time.Time
}

// Look returns the state of the streams without creating or changing anything. Its errors are those of Open.
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
