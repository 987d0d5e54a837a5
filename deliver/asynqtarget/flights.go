package asynqtarget

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
)

// answerTime is how long Redis may take to answer a flight.
const answerTime = 5 * time.Second

// flightTasks is how many tasks leave together at most.
const flightTasks = 128

// flights sends the scripts that asynq's client calls for tasks whose gates opened together in one pipeline. Nobody
// waits for another's flight to land: who finds none boarding begins one, lets those run that are ready to, and leaves
// with all who came meanwhile. So a lone task leaves at once, and under load a round trip carries many.
//
// Each has an answer of its own. When a connection is lost each that has none may have been carried out.
type flights struct {
	redis.UniversalClient
	mu       sync.Mutex
	boarding *flight
}

// flight is one pipeline. Its seats are guarded by the mutex of flights until it leaves.
type flight struct {
	seats  []*seat
	landed chan struct{} // closed when each seat has its answer
}

// seat is a task's in a flight.
type seat struct {
	gate drain.Gate
	kept error // why it was not sent, if it was not: its window was over when the flight left, or it was interrupted

	ctx    context.Context
	sha    string
	keys   []string
	args   []any
	answer *redis.Cmd
}

type seatKey struct{}

// seated returns a context that leads the script called with it to a seat.
func seated(ctx context.Context, s *seat) context.Context {
	return context.WithValue(ctx, seatKey{}, s)
}

// EvalSha calls a script in the next flight if a task's, else as ever.
func (f *flights) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok {
		return f.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	s.ctx, s.sha, s.keys, s.args = ctx, sha, keys, args
	here, first := f.board(s)
	if !first {
		<-here.landed
		return s.answer
	}
	runtime.Gosched()
	f.mu.Lock()
	if f.boarding == here {
		f.boarding = nil
	}
	f.mu.Unlock()
	f.fly(here)
	return s.answer
}

// board finds a seat, and reports whether it is the first of its flight.
func (f *flights) board(s *seat) (here *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boarding == nil {
		f.boarding, first = &flight{landed: make(chan struct{})}, true
	}
	here = f.boarding
	here.seats = append(here.seats, s)
	if len(here.seats) == flightTasks {
		f.boarding = nil
	}
	return here, first
}

// fly sends what may still leave. It heeds nobody's context once it left: the others are not to be touched by one who
// gives up.
func (f *flights) fly(here *flight) {
	defer close(here.landed)
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	pipe := f.Pipeline()
	for _, s := range here.seats {
		switch {
		case time.Now().After(s.gate.Closes()):
			s.kept = errOver
		case s.ctx.Err() != nil:
			s.kept = interrupted(s.ctx)
		default:
			s.answer = pipe.EvalSha(ctx, s.sha, s.keys, s.args...)
			continue
		}
		s.answer = redis.NewCmd(ctx)
		s.answer.SetErr(s.kept)
	}
	// each answer has its own error, but none if a connection was refused by Redis and not by the network
	_, err := pipe.Exec(ctx)
	for _, s := range here.seats {
		if err != nil && s.answer.Err() == nil && s.answer.Val() == nil {
			s.answer.SetErr(err)
		}
	}
}
