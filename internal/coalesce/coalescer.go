// Package coalesce joins the calls of many callers, so that one round trip or commit serves them all.
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

// yields is how often a sender yields to other goroutines between two batches. More did not make batches larger.
const yields = 3

// Coalescer lets concurrent callers share round trips, like a database's group commit. The first calls are sent at
// once. Calls that arrive while all senders are busy go together in the next batch. There is no timer: a lone caller
// does not wait, and sends its own batch if its context never ends. With two senders the engine works on one batch
// while the callers prepare the next.
//
// A batch has its own context, so that a caller who gives up does not affect the others. The items of a call stay in
// order, even across batches: its next items are sent once the previous ones are answered.
type Coalescer[Q, A any] struct {
	send    func(context.Context, []Q) ([]A, error)
	fail    func(Q, error) A
	size    func(Q) int
	timeout time.Duration
	senders int // maximum number of senders

	mu      sync.Mutex
	pending []*call[Q, A]
	running int // senders at work
	closed  bool
	batches sync.WaitGroup
	base    context.Context
	cancel  context.CancelFunc

	// Reused by later calls and batches.
	calls, spare sync.Pool // *call, *batch
}

// call is one Do. The coalescer's mutex guards its fields until ready receives a value; then they are the caller's.
type call[Q, A any] struct {
	items    []Q
	answers  []A
	batched  int // items that were put into a batch
	answered int
	failed   int
	err      error
	ready    chan struct{} // receives one value when all items are answered; buffered
}

// batch has the items sent together. It belongs to one goroutine.
type batch[Q, A any] struct {
	items []Q
	parts []callSlice[Q, A]
}

// New returns a Coalescer that calls send from up to senders goroutines, with up to MaxItems items or about MaxBytes as
// measured by size. send must answer every item in order, or return an error that concerns all of them. It must not
// keep the slice. fail turns such an error into an answer. A batch may take up to timeout.
func New[Q, A any](
	senders int, timeout time.Duration, size func(Q) int, send func(context.Context, []Q) ([]A, error),
	fail func(Q, error) A,
) *Coalescer[Q, A] {
	c := &Coalescer[Q, A]{send: send, fail: fail, size: size, timeout: timeout, senders: senders}
	c.base, c.cancel = context.WithCancel(context.Background())
	c.calls.New = func() any { return &call[Q, A]{ready: make(chan struct{}, 1)} }
	c.spare.New = func() any { return new(batch[Q, A]) }
	return c
}

// Do sends items and returns their answers in order. It returns an error only if no item was decided. The error is the
// batch's if that failed every item. If ctx ended while items were being sent, it wraps ErrOutcomeUnknown. If no item
// had been sent yet, it is ctx's error alone.
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
	free := c.running < c.senders
	if free {
		c.running++
		c.batches.Add(1)
	}
	// A caller who may give up needs an answer at once when it does, no matter how long the batch takes.
	alone := free && len(c.pending) == 1 && ctx.Done() == nil
	c.mu.Unlock()
	switch {
	case alone:
		c.runAlone()
	case free:
		go c.run()
	}

	select {
	case <-k.ready:
	case <-ctx.Done():
		return c.abandon(ctx, k)
	}
	answers, err := k.outcome()
	*k = call[Q, A]{ready: k.ready}
	c.calls.Put(k)
	return answers, err
}

// outcome returns the result of an answered call.
func (k *call[Q, A]) outcome() ([]A, error) {
	if k.failed == len(k.items) {
		return k.answers, k.err
	}
	return k.answers, nil
}

// abandon withdraws the items that have not been sent.
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
	case k.batched == 0:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, ctx.Err())
}

// callSlice is the part of a call's items in one batch.
type callSlice[Q, A any] struct {
	call     *call[Q, A]
	from, to int
	last     bool // whether it completes the call's answers
}

// runAlone sends the batch of a lone caller who cannot give up, on the caller's own goroutine: switching to another
// goroutine and back costs as much as the engine's work. Calls that arrived meanwhile get a goroutine.
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

// run sends batches until no call waits.
func (c *Coalescer[Q, A]) run() {
	defer c.batches.Done()
	for c.runBatch() {
		// Callers who were just answered often come straight back. Yielding lets them run, so that they share the next
		// batch. A single yield is too few when they run on several threads.
		for range yields {
			runtime.Gosched()
		}
	}
}

// runBatch sends one batch. If no call waits it ends the sender and returns false.
func (c *Coalescer[Q, A]) runBatch() bool {
	b := c.spare.Get().(*batch[Q, A])
	defer func() {
		clear(b.items)
		clear(b.parts)
		b.items, b.parts = b.items[:0], b.parts[:0]
		c.spare.Put(b)
	}()
	c.fill(b)
	if len(b.items) == 0 {
		return false
	}
	if c.base.Err() != nil { // closed before this batch was sent
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

// fill fills b with items of the waiting calls. If there are none it ends the sender.
func (c *Coalescer[Q, A]) fill(b *batch[Q, A]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, full := 0, false
	waiting := c.pending[:0]
	for _, k := range c.pending {
		if full || k.batched > k.answered {
			waiting = append(waiting, k)
			continue
		}
		from := k.batched
		for k.batched < len(k.items) {
			n := c.size(k.items[k.batched])
			if len(b.items) == MaxItems || len(b.items) > 0 && bytes+n > MaxBytes {
				full = true
				break
			}
			bytes += n
			b.items = append(b.items, k.items[k.batched])
			k.batched++
		}
		if k.batched > from {
			b.parts = append(b.parts, callSlice[Q, A]{call: k, from: from, to: k.batched})
		}
		if k.batched < len(k.items) {
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
	// Not under the mutex, as callers come straight back to it. From then on the call belongs to its caller.
	for i := range parts {
		if parts[i].last {
			parts[i].call.ready <- struct{}{}
		}
	}
}

// answer distributes the answers of a batch, and marks the part that completes each call.
func (c *Coalescer[Q, A]) answer(parts []callSlice[Q, A], answers []A, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := 0
	for i := range parts {
		s := &parts[i]
		k, n := s.call, s.to-s.from
		if err == nil && n == len(k.items) { // the usual case, without copying
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

// Close refuses new calls, cancels the batches in progress and waits for them. Waiting calls get ErrClosed or the
// batch's error.
func (c *Coalescer[Q, A]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.batches.Wait()
}
