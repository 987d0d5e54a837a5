package deferred

import (
	"sync"
	"sync/atomic"
)

// maxAway bounds the number of queues remembered as away, whose names any caller can choose.
const maxAway = 10_000

// outage is the state of a queue whose engine does not, or did not, answer.
type outage struct {
	away   bool   // the engine is not asked about it
	strays uint64 // number of jobs put on the overflow without the engine's knowledge
	ending bool   // the engine answers, and is about to learn of the strays
}

// outages has the outages by queue. Queues may be on different servers, and the queues of a working server must not
// suffer.
type outages struct {
	count atomic.Int64 // number of queues: without outages a check costs nothing
	wake  chan struct{}

	mu     sync.Mutex
	queues map[string]*outage
}

func newOutages() *outages {
	return &outages{wake: make(chan struct{}, 1), queues: map[string]*outage{}}
}

// of reports whether a queue's engine is away, and whether there are strays. The engine must learn of strays before it
// is offered other deferrable jobs.
func (a *outages) of(name string) (away, strayed bool) {
	if a.count.Load() == 0 {
		return false, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil {
		return false, false
	}
	return q.away, q.strays > 0
}

// begin records that a queue's engine does not answer, and reports whether that is news.
func (a *outages) begin(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil && len(a.queues) >= maxAway {
		return false
	}
	before := q != nil && q.away
	q = a.at(name)
	q.away, q.ending = true, false
	return !before
}

// stray records that a job bypassed the engine to the overflow. It reports whether the engine will learn of it. If the
// queue's outage is over, or about to end, the caller has to announce the job itself. If such jobs prolonged the
// outage, it would never end under load.
func (a *outages) stray(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil || q.ending {
		return false
	}
	q.strays++
	return true
}

// untold records that the engine does not know of a stray.
func (a *outages) untold(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(name).strays++
}

// at returns the outage of a queue and wakes Run. mu is held.
func (a *outages) at(name string) *outage {
	q := a.queues[name]
	if q == nil {
		q = &outage{}
		a.queues[name] = q
		a.count.Store(int64(len(a.queues)))
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return q
}

// all returns the names, in no particular order.
func (a *outages) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, 0, len(a.queues))
	for name := range a.queues {
		names = append(names, name)
	}
	return names
}

// strays returns how many jobs of the queue have strayed.
func (a *outages) strays(name string) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[name]; q != nil {
		return q.strays
	}
	return 0
}

// answered records that the engine answers and has learned of that many strays. It reports whether the engine was
// away, and whether it has yet to learn of more. Until then the outage continues: the callers of those jobs were
// answered, and their next jobs must not overtake them.
func (a *outages) answered(name string, heard uint64) (was, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil {
		return false, false
	}
	was, more = q.away, q.strays != heard
	if q.away, q.ending = false, true; !more {
		delete(a.queues, name)
		a.count.Store(int64(len(a.queues)))
	}
	return was, more
}

// unheard records that the engine answers, but has not learned of the strays.
func (a *outages) unheard(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[name]; q != nil {
		q.away = false
	}
}
