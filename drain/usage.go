package drain

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// QueueUse is what a queue holds of a drainer's handlers.
type QueueUse struct {
	Queue string
	// App is the one whose share of the handlers bounds it; empty if none does.
	App      string
	Handlers int
	// Longest is how long the one has been at work that began first: behind its gate. 0 if none is.
	Longest time.Duration
	// Short: more jobs of it are due than it may have handlers for.
	Short bool
	// Hanging: it is short, and has had no answer for 10 s.
	Hanging bool
}

// Usage tells who holds the handlers of the drainer that was given it in its Options; of none while it does not run.
type Usage struct {
	mu sync.Mutex
	d  *drainer
}

// Queues returns the queues that hold handlers, those with the most first.
func (u *Usage) Queues() []QueueUse {
	u.mu.Lock()
	d := u.d
	u.mu.Unlock()
	if d == nil {
		return nil
	}
	now := time.Now()
	begun := make(map[string]time.Time)
	for _, p := range d.parts {
		for _, a := range p.leases.all() {
			a.mu.Lock()
			if first, ok := begun[a.job.Queue]; !a.passed.IsZero() && (!ok || a.passed.Before(first)) {
				begun[a.job.Queue] = a.passed
			}
			a.mu.Unlock()
		}
	}
	var list []QueueUse
	d.pool.mu.Lock()
	for _, p := range d.parts {
		for name, held := range p.uses {
			if held.held == 0 && !held.short {
				continue
			}
			q := QueueUse{Queue: name, Handlers: held.held, Short: held.short, Hanging: held.hangs(now)}
			if held.app != nil {
				q.App = held.app.name
			}
			if at, ok := begun[name]; ok {
				q.Longest = now.Sub(at)
			}
			list = append(list, q)
		}
	}
	d.pool.mu.Unlock()
	slices.SortFunc(list, func(a, b QueueUse) int {
		return cmp.Or(cmp.Compare(b.Handlers, a.Handlers), cmp.Compare(a.Queue, b.Queue))
	})
	return list
}

func (u *Usage) of(d *drainer) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.d = d
	u.mu.Unlock()
}
