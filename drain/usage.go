package drain

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// QueueUse describes the handlers that a queue holds.
type QueueUse struct {
	Queue string
	// App is the app whose share of the handlers limits the queue; empty if it has none.
	App      string
	Handlers int
	// Longest is how long the queue's longest-running handler has been working behind its gate; 0 if none is.
	Longest time.Duration
	// Short means that more jobs are due than the queue may have handlers for.
	Short bool
	// Hanging means that the queue is short and has had no answer for 10 s.
	Hanging bool
}

// Usage reports which queues hold the handlers of a drainer, which has it in its Options. While the drainer does not
// run, Queues returns nil.
type Usage struct {
	mu sync.Mutex
	d  *drainer
}

// Queues returns the queues that hold or want handlers, sorted by the number of handlers, largest first.
func (u *Usage) Queues() []QueueUse {
	u.mu.Lock()
	d := u.d
	u.mu.Unlock()
	if d == nil {
		return nil
	}
	now := time.Now()
	oldest := make(map[string]time.Time)
	for _, p := range d.parts {
		for _, dl := range p.leases.all() {
			dl.mu.Lock()
			if first, ok := oldest[dl.job.Queue]; !dl.passed.IsZero() && (!ok || dl.passed.Before(first)) {
				oldest[dl.job.Queue] = dl.passed
			}
			dl.mu.Unlock()
		}
	}
	var list []QueueUse
	d.pool.mu.Lock()
	for _, p := range d.parts {
		for name, use := range p.uses {
			if use.held == 0 && !use.short {
				continue
			}
			q := QueueUse{Queue: name, Handlers: use.held, Short: use.short, Hanging: use.hangs(now)}
			if use.app != nil {
				q.App = use.app.name
			}
			if at, ok := oldest[name]; ok {
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

func (u *Usage) attach(d *drainer) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.d = d
	u.mu.Unlock()
}
