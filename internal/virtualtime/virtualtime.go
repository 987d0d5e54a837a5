// Package virtualtime has an engine whose clock can be advanced, so that tests need not sleep. Between advances it runs
// like the wall clock.
//
// Advancing goes from event to event, and waits at each until drainers and workers have done what is due. So jobs leave
// in the order and at the instants at which they would have left if the time had passed, and none of their slots is
// lost.
package virtualtime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/machine"
)

// MaxAdvance is the longest time that the clock can be advanced by at once.
const MaxAdvance = 366 * 24 * time.Hour

const (
	// patience is how long the clock waits at an event, in real time, for clients to ask for jobs and to settle them.
	patience = time.Second
	// look is the pause between two looks.
	look = 200 * time.Microsecond
	// recent is how long a client counts as alive after it asked. For that long, an engine waits for its first client.
	recent = 3 * time.Second
)

// Engine is an embedded engine in memory by a clock of its own.
type Engine struct {
	*boltq.Engine
	opened time.Time
	ahead  atomic.Int64 // how far its clock is ahead of the wall clock, in microseconds

	advancing sync.Mutex // held by Advance

	mu      sync.Mutex
	steps   uint64            // number of steps of the clock
	clients map[client]*state // those that ask for jobs
	wakes   map[chan queue.Wakeup]struct{}
}

// client is a drainer, or a puller of a queue.
type client struct{ id, queue string }

// state is what is known of a client.
type state struct {
	asked time.Time // when it asked last
	idle  uint64    // the number of the last step after which nothing was due for it, from 1; 0 if none
}

// Open opens an engine in memory.
func Open(ctx context.Context, o boltq.Options) (*Engine, error) {
	e := &Engine{opened: time.Now(), clients: map[client]*state{}, wakes: map[chan queue.Wakeup]struct{}{}}
	o.Now, o.Simulated = e.now, true
	store, err := boltq.OpenMemory(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open an engine in memory: %w", err)
	}
	e.Engine = store
	return e, nil
}

func (e *Engine) now() leaky.Instant {
	return leaky.Instant(time.Now().UnixMicro() + e.ahead.Load())
}

// Now returns the time by the engine's clock.
func (e *Engine) Now() time.Time { return e.now().Time() }

// Reserve implements queue.Outflow.
func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	c, begun := client{r.Client.ID, r.Queue}, time.Now()
	e.mu.Lock()
	step := e.steps + 1
	s := e.clients[c]
	if s == nil {
		s = &state{}
		e.clients[c] = s
	}
	s.asked = begun
	e.mu.Unlock()
	out, err := e.Engine.Reserve(ctx, r)
	if err == nil && r.Max > 0 && out.Next > 0 { // it got all that is due
		e.mu.Lock()
		s.idle = max(s.idle, step)
		e.mu.Unlock()
	}
	return out, err
}

// Wake implements queue.Outflow. It also wakes all clients when the clock is advanced.
func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup {
	from, to := e.Engine.Wake(ctx), make(chan queue.Wakeup, 16)
	steps := make(chan queue.Wakeup, 1024)
	e.mu.Lock()
	e.wakes[steps] = struct{}{}
	e.mu.Unlock()
	go func() {
		defer close(to)
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.wakes, steps)
		}()
		for {
			var w queue.Wakeup
			var open bool
			select {
			case w, open = <-from:
				if !open {
					return
				}
			case w = <-steps:
			case <-ctx.Done():
				return
			}
			select {
			case to <- w:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// Advance advances the clock, and returns the time that it then shows. It returns when what came due meanwhile has been
// handed out and, unless that takes long, settled. Errors: ctx's and the engine's; the clock may then have gone part of
// the way.
func (e *Engine) Advance(ctx context.Context, by time.Duration) (time.Time, error) {
	e.advancing.Lock()
	defer e.advancing.Unlock()
	for target := e.now().Add(by); ; {
		next, err := e.settle(ctx)
		if err != nil {
			return e.Now(), err
		}
		left := target.Sub(e.now())
		if left <= 0 {
			return e.Now(), nil
		}
		if next.Known {
			left = min(left, next.In)
		}
		e.step(left)
	}
}

// step sets the clock ahead and wakes everyone.
func (e *Engine) step(by time.Duration) {
	e.ahead.Add(max(1, by.Microseconds()))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps++
	pulled := map[string]struct{}{"": {}}
	for c, s := range e.clients {
		if s.alive() {
			pulled[c.queue] = struct{}{}
		}
	}
	for wakes := range e.wakes {
		for q := range pulled {
			select {
			case wakes <- queue.Wakeup{Queue: q}:
			default: // it has enough to wake up for
			}
		}
	}
}

// settle waits until nothing is due for any client, and nothing is being worked on. It returns what comes next.
func (e *Engine) settle(ctx context.Context) (machine.Upcoming, error) {
	begun := time.Now()
	for {
		// Leases are counted last: a job handed out in between must show as one.
		next, err := e.Upcoming(ctx, e.asks)
		if err != nil {
			return next, err
		}
		idle := e.idle()
		t, err := e.Totals(ctx)
		if err != nil || idle && t.Leased == 0 && !next.Due || time.Since(begun) > patience {
			return next, err
		}
		select {
		case <-ctx.Done():
			return next, ctx.Err()
		case <-time.After(look):
		}
	}
}

// asks reports whether a client asks for the jobs of a pull queue or, if its name is empty, of all other queues.
func (e *Engine) asks(pulled string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, s := range e.clients {
		if c.queue == pulled && s.alive() {
			return true
		}
	}
	return false
}

func (s *state) alive() bool { return time.Since(s.asked) <= recent }

// idle reports whether all clients have asked since the last step, and nothing was due for them. An engine without
// clients is not idle at first: a drainer may be about to ask.
func (e *Engine) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.clients) == 0 {
		return time.Since(e.opened) > recent
	}
	for _, s := range e.clients {
		if s.idle <= e.steps && s.alive() {
			return false
		}
	}
	return true
}
