package drain

import (
	"context"
	"sync"
)

// tokens counts free handlers, shared by all partitions. Whoever waits is served
// in order of arrival, and leaves a fair share to those who wait behind: a
// partition with a long backlog cannot starve the others.
type tokens struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // the first is rung when something is free
	observe func(free int)
}

func newTokens(n int, observe func(int)) *tokens {
	return &tokens{free: n, observe: observe}
}

// take waits until a handler is free and takes up to limit of them, at least one. It
// returns 0 when ctx ended first.
func (t *tokens) take(ctx context.Context, limit int) int {
	t.mu.Lock()
	if t.free > 0 && len(t.waiting) == 0 {
		defer t.mu.Unlock()
		return t.cut(limit)
	}
	bell := make(chan struct{}, 1)
	t.waiting = append(t.waiting, bell)
	if len(t.waiting) == 1 {
		t.ring()
	}
	t.mu.Unlock()

	for {
		select {
		case <-bell:
			// By now more may be free than what rang the bell. Taking it all in one
			// makes large grants of small jobs.
			t.mu.Lock()
			if t.free == 0 {
				t.mu.Unlock()
				continue
			}
			t.waiting = t.waiting[1:]
			n := t.cut(limit)
			t.ring()
			t.mu.Unlock()
			return n
		case <-ctx.Done():
			t.leave(bell)
			return 0
		}
	}
}

// cut takes a share of what is free. t.mu is held.
func (t *tokens) cut(limit int) int {
	heads := len(t.waiting) + 1
	n := min(limit, (t.free+heads-1)/heads)
	t.free -= n
	t.observe(t.free)
	return n
}

// tryTake takes up to limit, perhaps none, without waiting.
func (t *tokens) tryTake(limit int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := max(0, min(limit, t.free))
	t.free -= n
	t.observe(t.free)
	return n
}

func (t *tokens) put(n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.free += n
	t.observe(t.free)
	t.ring()
	t.mu.Unlock()
}

// ring wakes the first in line if there is something for it. t.mu is held.
func (t *tokens) ring() {
	if t.free > 0 && len(t.waiting) > 0 {
		select {
		case t.waiting[0] <- struct{}{}:
		default:
		}
	}
}

func (t *tokens) leave(bell chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting {
		if w == bell {
			t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
			break
		}
	}
	t.ring()
}
