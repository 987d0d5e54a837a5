package drain

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// fullPause is the time to the next request while the maximum number of jobs wait to start.
	fullPause = 5 * time.Millisecond
	// At a maximum of one job, each job that is too late causes a pause, which doubles from minPause to maxPause.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
	// waitsFor is how long after its departure a job still counts as waiting. A job that starts later waits for its
	// receiver, and not for this process.
	waitsFor = time.Second
	// One late job in inTimePerLate is no sign of overload: any process is stalled sometimes. At most sparedAtOnce are
	// spared together.
	inTimePerLate, sparedAtOnce = 100, 10
)

// appetite limits how many granted jobs wait to start. The maximum grows by one for each round of jobs that start in
// time, and is halved when more than one job in inTimePerLate misses its window or has a timer that fires too late. If
// a busy process reserved more jobs, it would only release them again, at the expense of useful work. The rule is the
// additive increase and multiplicative decrease of V. Jacobson, "Congestion Avoidance and Control", 1988.
type appetite struct {
	waiting atomic.Int64 // jobs that wait to start, including claimed ones
	whole   atomic.Bool  // most is queue.MaxReserve
	credit  atomic.Int64 // inTimePerLate for each late job that would be spared now

	mu      sync.Mutex
	most    int
	inTime  int // jobs that started in time since most last changed
	pause   time.Duration
	resumes time.Time // end of the pause
	cut     time.Time // when most was last halved
	batches []*batch  // of waiting jobs, oldest first
}

// batch is the jobs of one answer. They count as waiting until they start, or the batch expires.
type batch struct {
	of      *appetite
	waiting atomic.Int64
	expires time.Time
}

func newAppetite() *appetite {
	a := &appetite{most: queue.MaxReserve}
	a.whole.Store(true)
	a.credit.Store(sparedAtOnce * inTimePerLate)
	return a
}

// claim counts up to n jobs that are about to be requested. If there is no room it returns 0 and when to try again.
// unclaim ends the claim.
func (a *appetite) claim(n int, now time.Time) (claimed int, pause time.Duration) {
	if !a.whole.Load() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if pause = a.resumes.Sub(now); pause > 0 {
			return 0, pause
		}
		a.expire(now)
		if n = min(n, a.most-int(a.waiting.Load())); n <= 0 {
			return 0, fullPause
		}
	}
	a.waiting.Add(int64(n))
	return n, 0
}

func (a *appetite) unclaim(n int) { a.waiting.Add(-int64(n)) }

// batch counts the n jobs of an answer. The caller calls over for each job that has started, or never will.
func (a *appetite) batch(n int, now time.Time) *batch {
	b := &batch{of: a, expires: now.Add(queue.Horizon + waitsFor)}
	if n == 0 {
		return b
	}
	b.waiting.Store(int64(n))
	a.waiting.Add(int64(n))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(now)
	a.batches = append(a.batches, b)
	return b
}

func (b *batch) over() {
	if b.waiting.Add(-1) >= 0 {
		b.of.waiting.Add(-1)
	}
}

// expire drops finished and expired batches. mu is held.
func (a *appetite) expire(now time.Time) {
	for len(a.batches) > 0 && (a.batches[0].waiting.Load() == 0 || now.After(a.batches[0].expires)) {
		if left := a.batches[0].waiting.Swap(math.MinInt64 / 2); left > 0 {
			a.waiting.Add(-left)
		}
		a.batches = a.batches[1:]
	}
}

// late counts a late job. It halves the appetite unless the job is spared, at most once per horizon because jobs
// granted together are late together.
func (a *appetite) late(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.cut) < queue.Horizon || a.credit.Add(-inTimePerLate) >= 0 {
		return
	}
	a.credit.Store(0)
	a.cut, a.inTime = now, 0
	a.whole.Store(false)
	if a.most == 1 {
		a.pause = min(max(2*a.pause, minPause), maxPause)
		a.resumes = now.Add(a.pause)
	}
	// If fewer jobs wait than the maximum, even that number was too many.
	a.most = max(1, min(a.most, int(a.waiting.Load()))/2)
}

// started counts a job that started in time.
func (a *appetite) started() {
	if a.credit.Load() < sparedAtOnce*inTimePerLate {
		a.credit.Add(1)
	}
	if a.whole.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pause, a.resumes = 0, time.Time{}
	if a.inTime++; a.inTime < a.most {
		return
	}
	a.most, a.inTime = a.most+1, 0
	a.whole.Store(a.most >= queue.MaxReserve)
}
