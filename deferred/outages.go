package deferred

import (
	"sync"
	"sync/atomic"
)

// maxAway bounds how many queues are remembered as away, which anybody can name.
const maxAway = 10_000

// outage is that of a queue whose engine does not answer, or did not.
type outage struct {
	away   bool   // nothing is asked about it
	strays uint64 // how often a job was put on the overflow that the engine knows nothing of
	ending bool   // the engine answers, and is about to hear of those strays
}

// outages are all of them. Each queue has its own: where the queues are on several
// servers, those of one that works are not kept from it.
type outages struct {
	count atomic.Int64 // of queues, so that it costs nothing while there are none
	wake  chan struct{}

	mu     sync.Mutex
	queues map[string]*outage
}

func newOutages() *outages {
	return &outages{wake: make(chan struct{}, 1), queues: map[string]*outage{}}
}

// of tells whether a queue's engine is away, and whether jobs strayed that the
// engine must hear of before it is offered others that may wait.
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

// begin notes that a queue's engine does not answer, and reports whether it did before.
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

// stray notes that a job was put on the overflow past the engine. It reports whether
// the engine will be told; if the queue is not absent any more, or is about not to be,
// whoever put the job has to see to that himself: were such jobs to keep the queue absent,
// under load it would never cease to be.
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

// untold notes that the engine does not know of a job that strayed.
func (a *outages) untold(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(name).strays++
}

// at is called with mu held.
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

// all returns the names, in no order.
func (a *outages) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, 0, len(a.queues))
	for name := range a.queues {
		names = append(names, name)
	}
	return names
}

// strays is how often a job of the queue has strayed.
func (a *outages) strays(name string) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[name]; q != nil {
		return q.strays
	}
	return 0
}

// answered notes that the engine answers, and has heard of so many strays. It reports
// whether the engine was away, and whether it has yet to hear of some. Until it has, the
// queue stays absent: who put those was answered, and his next job must not overtake them.
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

// unheard notes that the engine answers, but has not heard of the strays.
func (a *outages) unheard(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[name]; q != nil {
		q.away = false
	}
}
