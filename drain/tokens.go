package drain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

// tokens counts free handlers, shared by all partitions. Whoever waits is served
// in order of arrival, and leaves a fair share to those who wait behind: a
// partition with a long backlog cannot starve the others.
type tokens struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // the first that is there is rung when something is free
	observe func(free int)
}

// waiter keeps its place in line while it is away.
type waiter struct {
	bell chan struct{}
	away bool
}

// seenEach is how often who waits for a handler says that it is there.
const seenEach = queue.SeenFor / 4

func newTokens(n int, observe func(int)) *tokens {
	return &tokens{free: n, observe: observe}
}

// take waits until a handler is free and takes up to limit of them, at least one. It
// returns 0 when ctx ended first. While it waits it calls seen, each seenEach.
func (t *tokens) take(ctx context.Context, limit int, seen func()) int {
	t.mu.Lock()
	if t.free > 0 && len(t.waiting) == 0 {
		defer t.mu.Unlock()
		return t.cut(limit)
	}
	w := &waiter{bell: make(chan struct{}, 1)}
	t.waiting = append(t.waiting, w)
	t.ring()
	t.mu.Unlock()

	timer := time.NewTimer(seenEach)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			t.leaveFor(w, seen)
			timer.Reset(seenEach)
		case <-w.bell:
			// By now more may be free than what rang the bell. Taking it all in one
			// makes large grants of small jobs.
			t.mu.Lock()
			if t.free == 0 {
				t.mu.Unlock()
				continue
			}
			t.remove(w)
			n := t.cut(limit)
			t.ring()
			t.mu.Unlock()
			return n
		case <-ctx.Done():
			t.leave(w)
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

// ring wakes the first in line that is there, if there is something for it. t.mu is held.
func (t *tokens) ring() {
	if t.free == 0 {
		return
	}
	for _, w := range t.waiting {
		if !w.away {
			select {
			case w.bell <- struct{}{}:
			default:
			}
			return
		}
	}
}

// leaveFor lets others go first while a waiter does something else.
func (t *tokens) leaveFor(w *waiter, do func()) {
	there := func(yes bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.away = !yes
		t.ring()
	}
	there(false)
	do()
	there(true)
}

func (t *tokens) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(w)
	t.ring()
}

// remove takes a waiter out of the line. t.mu is held.
func (t *tokens) remove(w *waiter) {
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}
