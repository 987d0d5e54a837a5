// Package coalesce joins the calls of many callers, so that each round trip and each commit serves all who wait for it.
package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

// Limits of one batch of a Coalescer.
const (
	MaxItems = 500
	MaxBytes = 1 << 20
)

// yields is how often a lane lets others run between two batches. With more, batches were measured to be no larger.
const yields = 3

// Coalescer lets concurrent callers share round trips, as a database's group commit does: the first calls are sent at
// once, and those that arrive while all lanes are taken go together in the next batch. There is no timer: a lone
// caller waits for nobody, and sends its own batch if its context never ends. With two lanes the engine works on one
// batch while the callers prepare the other.
//
// A batch has a context of its own, so that a caller who gives up does not affect the others. Items of one call stay
// in order, even across batches: a call's next items are sent when its previous ones are answered.
type Coalescer[Q, A any] struct {
	send    func(context.Context, []Q) ([]A, error)
	fail    func(Q, error) A
	size    func(Q) int
	timeout time.Duration
	lanes   int

	mu      sync.Mutex
	pending []*call[Q, A]
	running int
	closed  bool
	batches sync.WaitGroup
	base    context.Context
	cancel  context.CancelFunc

	// What is used again by the next call and batch.
	calls, spare sync.Pool // *call, *batch
}

// call is one Do. Its fields are guarded by the coalescer's mutex until done is
// told; then they are the caller's.
type call[Q, A any] struct {
	items    []Q
	answers  []A
	taken    int // items that were put into a batch
	answered int
	failed   int
	err      error
	done     chan struct{} // has room for the one thing that is told
}

// batch is what is sent together. It is of one goroutine.
type batch[Q, A any] struct {
	items []Q
	parts []callSlice[Q, A]
}

// New returns a Coalescer that calls send, in up to lanes goroutines, with up to MaxItems items or about MaxBytes as
// measured by size. send must answer every item in order, or return an error that concerns them all, and keeps no hold
// of the slice; fail makes that error an answer. Each batch may take up to timeout.
func New[Q, A any](
	lanes int, timeout time.Duration, size func(Q) int, send func(context.Context, []Q) ([]A, error),
	fail func(Q, error) A,
) *Coalescer[Q, A] {
	c := &Coalescer[Q, A]{send: send, fail: fail, size: size, timeout: timeout, lanes: lanes}
	c.base, c.cancel = context.WithCancel(context.Background())
	c.calls.New = func() any { return &call[Q, A]{done: make(chan struct{}, 1)} }
	c.spare.New = func() any { return new(batch[Q, A]) }
	return c
}

// Do sends items and returns their answers in order. The error is not nil when
// nothing could be decided: it is the batch's if that failed every item, wraps
// ErrOutcomeUnknown if ctx ended while items were under way, or is ctx's alone
// if none had been sent yet.
func (c *Coalescer[Q, A]) Do(ctx context.Context, items []Q) ([]A, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := c.calls.Get().(*call[Q, A])
	k.items = items
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, queue.ErrClosed
	}
	c.pending = append(c.pending, k)
	free := c.running < c.lanes
	if free {
		c.running++
		c.batches.Add(1)
	}
	// A caller who may give up must be answered at once when it does, however long the batch takes.
	alone := free && len(c.pending) == 1 && ctx.Done() == nil
	c.mu.Unlock()
	switch {
	case alone:
		c.runAlone()
	case free:
		go c.run()
	}

	select {
	case <-k.done:
	case <-ctx.Done():
		return c.abandon(ctx, k)
	}
	answers, err := k.outcome()
	*k = call[Q, A]{done: k.done}
	c.calls.Put(k)
	return answers, err
}

// outcome is what a call that was answered returns.
func (k *call[Q, A]) outcome() ([]A, error) {
	if k.failed == len(k.items) {
		return k.answers, k.err
	}
	return k.answers, nil
}

// abandon withdraws what has not been sent.
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
	case k.answered == len(k.items): // at the same moment
		return k.outcome()
	case k.taken == 0:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, ctx.Err())
}

// callSlice is a part of a call's items in one batch.
type callSlice[Q, A any] struct {
	call     *call[Q, A]
	from, to int
	last     bool // of the call's items to be answered
}

// runAlone is the batch of a lone caller who cannot give up, on its own goroutine: switching to another and back costs
// as much as the engine's work. Calls that came meanwhile are sent by a goroutine.
func (c *Coalescer[Q, A]) runAlone() {
	if !c.runBatch() {
		c.batches.Done()
		return
	}
	c.mu.Lock()
	waiting := len(c.pending) > 0
	if !waiting {
		c.running--
	}
	c.mu.Unlock()
	if waiting {
		go c.run()
	} else {
		c.batches.Done()
	}
}

// run runs batches until nobody waits.
func (c *Coalescer[Q, A]) run() {
	defer c.batches.Done()
	for c.runBatch() {
		// Callers who were just answered often come straight back: let them run, so that they share the next
		// batch instead of one going ahead. To yield once lets too few of them run where threads share them.
		for range yields {
			runtime.Gosched()
		}
	}
}

// runBatch runs one batch. It returns false, with the lane free, if nobody waits.
func (c *Coalescer[Q, A]) runBatch() bool {
	b := c.spare.Get().(*batch[Q, A])
	defer func() {
		clear(b.items)
		clear(b.parts)
		b.items, b.parts = b.items[:0], b.parts[:0]
		c.spare.Put(b)
	}()
	c.take(b)
	if len(b.items) == 0 {
		return false
	}
	if c.base.Err() != nil { // closed before these were sent
		c.finish(b.parts, nil, queue.ErrClosed)
		return true
	}
	ctx, cancel := context.WithTimeout(c.base, c.timeout)
	answers, err := c.send(ctx, b.items)
	cancel()
	if err == nil && len(answers) != len(b.items) {
		err = fmt.Errorf("%w: %d answers to %d items", queue.ErrCorrupt, len(answers), len(b.items))
	}
	c.finish(b.parts, answers, err)
	return true
}

// take puts into b what the calls that wait have for the next batch, or frees this lane.
func (c *Coalescer[Q, A]) take(b *batch[Q, A]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, full := 0, false
	waiting := c.pending[:0]
	for _, k := range c.pending {
		if full || k.taken > k.answered {
			waiting = append(waiting, k)
			continue
		}
		from := k.taken
		for k.taken < len(k.items) {
			n := c.size(k.items[k.taken])
			if len(b.items) == MaxItems || len(b.items) > 0 && bytes+n > MaxBytes {
				full = true
				break
			}
			bytes += n
			b.items = append(b.items, k.items[k.taken])
			k.taken++
		}
		if k.taken > from {
			b.parts = append(b.parts, callSlice[Q, A]{call: k, from: from, to: k.taken})
		}
		if k.taken < len(k.items) {
			waiting = append(waiting, k)
		}
	}
	clear(c.pending[len(waiting):])
	c.pending = waiting
	if len(b.items) == 0 {
		c.running--
	}
}

func (c *Coalescer[Q, A]) finish(parts []callSlice[Q, A], answers []A, err error) {
	c.answer(parts, answers, err)
	// Outside of the mutex, for who is told comes back to it at once. From then on the call is another's.
	for i := range parts {
		if parts[i].last {
			parts[i].call.done <- struct{}{}
		}
	}
}

// answer hands out the answers of a batch, and marks the last part of each call that has all of its own.
func (c *Coalescer[Q, A]) answer(parts []callSlice[Q, A], answers []A, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := 0
	for i := range parts {
		s := &parts[i]
		k, n := s.call, s.to-s.from
		if err == nil && n == len(k.items) { // mostly: nothing needs to be copied
			k.answers = answers[at : at+n : at+n]
		} else if k.answers == nil {
			k.answers = make([]A, len(k.items))
		}
		if err != nil {
			for i := s.from; i < s.to; i++ {
				k.answers[i] = c.fail(k.items[i], err)
			}
			k.failed, k.err = k.failed+n, err
		} else if n < len(k.items) {
			copy(k.answers[s.from:s.to], answers[at:])
		}
		at += n
		k.answered += n
		s.last = k.answered == len(k.items)
	}
}

// Close refuses new calls, cancels the batches under way and waits for them. Calls that still wait get ErrClosed or
// the batch's error.
func (c *Coalescer[Q, A]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.batches.Wait()
}
