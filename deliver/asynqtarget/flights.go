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

// flightTasks is the maximum number of tasks in a flight.
const flightTasks = 128

// flights sends the scripts of asynq's client, for tasks whose gates open together, in one pipeline: a flight. A task
// does not wait for earlier flights to land. If no flight is boarding, the task opens one, yields to other goroutines,
// and departs with all tasks that have boarded meanwhile. So a lone task departs at once, and under load one round trip
// carries many.
//
// Each task has its own answer. After a lost connection, every task without an answer may have been released.
type flights struct {
	redis.UniversalClient
	mu       sync.Mutex
	boarding *flight
}

// flight is one pipeline. The mutex of flights guards its seats until it departs.
type flight struct {
	seats  []*seat
	landed chan struct{} // closed when each seat has its answer
}

// seat is the place of a task in a flight.
type seat struct {
	gate drain.Gate
	kept error // why it was not sent: its window was over when the flight departed, or it was interrupted

	ctx    context.Context
	sha    string
	keys   []string
	args   []any
	answer *redis.Cmd
}

type seatKey struct{}

// seated returns a context that assigns the script called with it to a seat.
func seated(ctx context.Context, s *seat) context.Context {
	return context.WithValue(ctx, seatKey{}, s)
}

// EvalSha sends the script of a seated task with the next flight, and other scripts directly.
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

// board assigns a seat, and reports whether it is the first of its flight.
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

// fly sends the tasks that may still leave. It ignores their contexts, because a canceled task must not affect the
// others.
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
