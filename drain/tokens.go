package drain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

// tokens counts the free handlers, which all partitions share. Waiting partitions are served in order of arrival, and
// each leaves a fair share to those behind it: a partition with a long backlog cannot starve the others.
type tokens struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // the first that is not away is rung when a token is free
	observe func(free int)
}

// waiter keeps its place in line while it is away.
type waiter struct {
	bell chan struct{}
	away bool
}

// pingEvery is how often a waiting partition pings the engine.
const pingEvery = queue.SeenFor / 4

func newTokens(n int, observe func(int)) *tokens {
	return &tokens{free: n, observe: observe}
}

// acquire waits for a free token and acquires at least one, at most limit. It returns 0 if ctx ends first. While it
// waits it calls ping every pingEvery.
func (t *tokens) acquire(ctx context.Context, limit int, ping func()) int {
	t.mu.Lock()
	if t.free > 0 && len(t.waiting) == 0 {
		defer t.mu.Unlock()
		return t.cut(limit)
	}
	w := &waiter{bell: make(chan struct{}, 1)}
	t.waiting = append(t.waiting, w)
	t.ring()
	t.mu.Unlock()

	timer := time.NewTimer(pingEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			t.leaveFor(w, ping)
			timer.Reset(pingEvery)
		case <-w.bell:
			// More tokens may be free by now. Several at once make one large request instead of many small ones.
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

// cut acquires a fair share of the free tokens. mu is held.
func (t *tokens) cut(limit int) int {
	heads := len(t.waiting) + 1
	n := min(limit, (t.free+heads-1)/heads)
	t.free -= n
	t.observe(t.free)
	return n
}

// tryAcquire acquires at most limit tokens without waiting, possibly none.
func (t *tokens) tryAcquire(limit int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := max(0, min(limit, t.free))
	t.free -= n
	t.observe(t.free)
	return n
}

// release returns n tokens.
func (t *tokens) release(n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.free += n
	t.observe(t.free)
	t.ring()
	t.mu.Unlock()
}

// ring wakes the first waiter that is not away, if a token is free. mu is held.
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

// leaveFor calls do, and lets others go first meanwhile.
func (t *tokens) leaveFor(w *waiter, do func()) {
	setAway := func(away bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.away = away
		t.ring()
	}
	setAway(true)
	do()
	setAway(false)
}

func (t *tokens) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(w)
	t.ring()
}

// remove removes a waiter from the line. mu is held.
func (t *tokens) remove(w *waiter) {
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}
