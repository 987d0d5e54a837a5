package drain

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// fullPause is how long to wait with the next request while as many jobs wait to start as may.
	fullPause = 5 * time.Millisecond
	// Nothing is asked for during a pause, which lasts longer each time that even a single job comes too late.
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
)

// appetite bounds how many jobs wait to start that a drainer was granted: one more for each round of them that starts
// in time, and half as many when one comes too late for its window, or its timer fires too late. What a busy process is
// granted beyond what it can start is only released, and that keeps it and the engine from better work. It is the
// additive increase and multiplicative decrease of V. Jacobson, "Congestion Avoidance and Control", 1988.
type appetite struct {
	waiting atomic.Int64
	whole   atomic.Bool // most is queue.MaxReserve

	mu     sync.Mutex
	most   int
	inTime int // that started since most last grew
	pause  time.Duration
	cut    time.Time // when most was halved last
}

func newAppetite() *appetite {
	a := &appetite{most: queue.MaxReserve}
	a.whole.Store(true)
	return a
}

// granted is told of a job that waits from now on, and over when it has started or will not.
func (a *appetite) granted() { a.waiting.Add(1) }
func (a *appetite) over()    { a.waiting.Add(-1) }

// late halves the appetite. What was granted together is late together, so it does that once a horizon.
func (a *appetite) late(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.cut) < queue.Horizon {
		return
	}
	a.cut, a.inTime = now, 0
	a.whole.Store(false)
	if a.most == 1 {
		a.pause = min(max(2*a.pause, leastPause), mostPause)
	}
	// What was too much is what waits, if that is less than may.
	a.most = max(1, min(a.most, int(a.waiting.Load()))/2)
}

// started is told of each job that starts in time.
func (a *appetite) started() {
	if a.whole.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pause = 0
	if a.inTime++; a.inTime < a.most {
		return
	}
	a.most, a.inTime = a.most+1, 0
	a.whole.Store(a.most >= queue.MaxReserve)
}

// asks returns how many jobs to ask for at most, and how long to wait before the next request, or before this one if it
// is for none.
func (a *appetite) asks() (most int, pause time.Duration) {
	if a.whole.Load() {
		return queue.MaxReserve, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if room := a.most - int(a.waiting.Load()); room > 0 {
		return room, a.pause
	}
	return 0, max(fullPause, a.pause)
}
