package queue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Limits of one flight of a Coalescer.
const (
	FlightItems = 500
	FlightBytes = 1 << 20
)

// Coalescer lets concurrent callers share round trips, as a database's group
// commit does: the first calls fly at once, and those that arrive while all
// lanes are taken travel together in the next flight. There is no timer: a lone
// caller waits for nobody, and flies himself if his context never ends. With two
// lanes the engine works on one flight while the callers prepare the other.
//
// A flight has a context of its own, so that a caller who gives up does not
// touch the others. Items of one call stay in order, over flights too: a call's
// next items board when its last have landed.
type Coalescer[Q, A any] struct {
	send    func(context.Context, []Q) ([]A, error)
	fail    func(Q, error) A
	size    func(Q) int
	timeout time.Duration
	lanes   int

	mu      sync.Mutex
	pending []*call[Q, A]
	flying  int
	closed  bool
	flights sync.WaitGroup
	base    context.Context
	cancel  context.CancelFunc
}

// call is one Do. Its fields are guarded by the coalescer's mutex until done is
// closed; then they are the caller's.
type call[Q, A any] struct {
	items   []Q
	answers []A
	taken   int // items that have boarded a flight
	landed  int
	failed  int
	err     error
	done    chan struct{}
}

// NewCoalescer returns a Coalescer that calls send, in up to lanes goroutines, with
// up to FlightItems items or about FlightBytes as measured by size. send must
// answer every item in order, or return an error that concerns them all; fail
// makes that error an answer. Each flight may take up to timeout.
func NewCoalescer[Q, A any](lanes int, timeout time.Duration, size func(Q) int, send func(context.Context, []Q) ([]A, error), fail func(Q, error) A) *Coalescer[Q, A] {
	c := &Coalescer[Q, A]{send: send, fail: fail, size: size, timeout: timeout, lanes: lanes}
	c.base, c.cancel = context.WithCancel(context.Background())
	return c
}

// Do sends items and returns their answers in order. The error is not nil when
// nothing could be decided: it is the flight's, when that befell every item, or
// wraps ErrOutcomeUnknown when ctx ended while items were under way, or is
// ctx's alone when none had left yet.
func (c *Coalescer[Q, A]) Do(ctx context.Context, items []Q) ([]A, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := &call[Q, A]{items: items, answers: make([]A, len(items)), done: make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.pending = append(c.pending, k)
	free := c.flying < c.lanes
	if free {
		c.flying++
		c.flights.Add(1)
	}
	// One who may give up has to be answered at once when he does, whatever keeps the flight.
	alone := free && len(c.pending) == 1 && ctx.Done() == nil
	c.mu.Unlock()
	switch {
	case alone:
		c.flyAlone()
	case free:
		go c.fly()
	}

	select {
	case <-k.done:
	case <-ctx.Done():
		return c.abandon(ctx, k)
	}
	if k.failed == len(items) {
		return k.answers, k.err
	}
	return k.answers, nil
}

// abandon withdraws what has not boarded.
func (c *Coalescer[Q, A]) abandon(ctx context.Context, k *call[Q, A]) ([]A, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.pending {
		if p == k {
			c.pending = append(c.pending[:i], c.pending[i+1:]...)
			break
		}
	}
	switch {
	case k.landed == len(k.items): // at the same moment
		if k.failed == len(k.items) {
			return k.answers, k.err
		}
		return k.answers, nil
	case k.taken == 0:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
}

// seat is a run of a call's items in one flight.
type seat[Q, A any] struct {
	call     *call[Q, A]
	from, to int
}

// flyAlone is the flight of a caller with whom nobody travels and who cannot give up, on his own goroutine: to change to another
// and back costs as much as an engine's work on him. Those who came meanwhile fly on.
func (c *Coalescer[Q, A]) flyAlone() {
	if !c.flight() {
		c.flights.Done()
		return
	}
	c.mu.Lock()
	waiting := len(c.pending) > 0
	if !waiting {
		c.flying--
	}
	c.mu.Unlock()
	if waiting {
		go c.fly()
	} else {
		c.flights.Done()
	}
}

// fly runs flights until nobody waits.
func (c *Coalescer[Q, A]) fly() {
	defer c.flights.Done()
	for c.flight() {
		// Those who were just answered often come straight back: let them run, so
		// that they travel together and not one ahead of the others.
		runtime.Gosched()
	}
}

// flight runs one flight; it returns false if nobody waits, and the lane is free.
func (c *Coalescer[Q, A]) flight() bool {
	items, seats := c.board()
	if len(items) == 0 {
		return false
	}
	if c.base.Err() != nil { // closed before these left
		c.land(seats, nil, ErrClosed)
		return true
	}
	ctx, cancel := context.WithTimeout(c.base, c.timeout)
	answers, err := c.send(ctx, items)
	cancel()
	if err == nil && len(answers) != len(items) {
		err = fmt.Errorf("%w: %d answers to %d items", ErrCorrupt, len(answers), len(items))
	}
	c.land(seats, answers, err)
	return true
}

// board takes the next flight's items from those who wait, or ends this lane's
// flying.
func (c *Coalescer[Q, A]) board() (items []Q, seats []seat[Q, A]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, full := 0, false
	waiting := c.pending[:0]
	for _, k := range c.pending {
		if full || k.taken > k.landed {
			waiting = append(waiting, k)
			continue
		}
		from := k.taken
		for k.taken < len(k.items) {
			n := c.size(k.items[k.taken])
			if len(items) == FlightItems || len(items) > 0 && bytes+n > FlightBytes {
				full = true
				break
			}
			bytes += n
			items = append(items, k.items[k.taken])
			k.taken++
		}
		if k.taken > from {
			seats = append(seats, seat[Q, A]{k, from, k.taken})
		}
		if k.taken < len(k.items) {
			waiting = append(waiting, k)
		}
	}
	clear(c.pending[len(waiting):])
	c.pending = waiting
	if len(items) == 0 {
		c.flying--
	}
	return items, seats
}

func (c *Coalescer[Q, A]) land(seats []seat[Q, A], answers []A, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := 0
	for _, s := range seats {
		k := s.call
		for i := s.from; i < s.to; i++ {
			if err != nil {
				k.answers[i] = c.fail(k.items[i], err)
				k.failed++
				k.err = err
			} else {
				k.answers[i] = answers[at]
			}
			at++
		}
		k.landed += s.to - s.from
		if k.landed == len(k.items) {
			close(k.done)
		}
	}
}

// Close refuses new calls, cancels the flight under way and waits for it. Calls
// that still wait get ErrClosed or the flight's error.
func (c *Coalescer[Q, A]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.flights.Wait()
}
