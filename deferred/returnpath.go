package deferred

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// headPause is how often the head is looked at while nothing can come back: what has
	// become too old must not wait for room.
	headPause = 10 * time.Second
	// firstPause and longestPause bound how long a look waits that found nothing where
	// something should be, or failed.
	firstPause   = 20 * time.Millisecond
	longestPause = 10 * time.Second
)

// returnPath is the way back of one queue, or of a subject that is no queue's.
type returnPath struct {
	r       *Readmitter
	subject string
	name    string // of the queue; empty if the subject is none's

	// Guarded by the Readmitter's mutex.
	running bool
	rung    bool
	timer   *time.Timer
	idle    bool // waits for something to come, and not for room
	sure    bool // something has come since the last look
	failed  bool // the last look did

	// The others belong to the look that is under way.
	stream  string    // the identity of the stream when it was last looked at
	doubt   string    // see doubtful
	trusted int64     // the order as this process left it, if nothing has happened since that throws doubt on it
	contact uint64    // how often NATS had been connected to then
	each    int       // about how many jobs a message has
	behind  int64     // how many jobs are on the overflow, at the least: a message counts as one until it is read
	now     time.Time // of the engine's last answer
	asOf    time.Time // what that was when the overflow was last looked at
	held    time.Time
	head    time.Time // when the head was last handed in
	spec    spec
	unknown time.Time // since when there is no such queue
	tries   int       // in vain, one after the other

	// What came back while the stream had no leader, and is not removed yet.
	ahead     uint64 // the sequence behind its last message; 0: nothing did
	unremoved int64  // how many jobs
}

func newReturnPath(r *Readmitter, subject string) *returnPath {
	w := &returnPath{r: r, subject: subject, each: 8, idle: true}
	if name, ok := r.stream.subjects.queueOf(subject); ok {
		w.name = name
	}
	return w
}

// stopTimer is called with the Readmitter's mutex held.
func (w *returnPath) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// busy notes that a look is under way, and reports whether something has come.
func (w *returnPath) busy() (sure bool) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	sure, w.idle, w.sure = w.sure, false, false
	return sure
}

// wait notes that it now waits for something to come, and not for room.
func (w *returnPath) wait() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.idle = true
}

// look takes back what there is room for. It returns when to look again, and whether
// there is anything left to look for.
func (w *returnPath) look(ctx context.Context) (pause time.Duration, left bool) {
	if w.busy() {
		w.behind = max(1, w.behind)
	}
	pause, left, err := w.pass(ctx)
	w.fails(err != nil)
	if err == nil {
		return pause, left
	}
	w.trusted = 0
	w.busy() // what is put from now on must not have it tried again at once
	w.tries++
	if ctx.Err() == nil && w.tries&(w.tries-1) == 0 { // seldom, if it goes on
		w.r.log.Warn("jobs do not come back from the overflow; trying again", "subject", w.subject, "tries", w.tries,
			"error", fmt.Sprint(err))
	}
	return jittered(w.backoff(2)), true
}

// fails notes whether a look failed.
func (w *returnPath) fails(failed bool) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.failed = failed
}

// backoff is the pause after so many tries in vain.
func (w *returnPath) backoff(from int) time.Duration {
	return min(firstPause*time.Duration(from)<<min(w.tries, 12), longestPause)
}

// jittered keeps processes that wait for the same from coming at once.
func jittered(d time.Duration) time.Duration { return d + mathrand.N(d/4+1) }

func (w *returnPath) pass(ctx context.Context) (pause time.Duration, left bool, err error) {
	if w.name == "" {
		return w.foreign(ctx)
	}
	if w.behind == 0 { // were something said to be behind, a queue that has none would have a backlog
		return w.empty(ctx)
	}
	a, err := w.readmit(ctx, queue.ReadmitRequest{Behind: w.behind})
	if err == nil && a.Busy == 0 {
		w.spec, err = w.r.specs.Get(ctx, w.name)
	}
	if errors.Is(err, queue.ErrUnknownQueue) {
		return w.orphans(ctx)
	}
	w.unknown = time.Time{}
	for first := true; err == nil && a.Busy == 0; first = false {
		open := w.spec.window.Open(a.Now)
		if first && (a.Room == 0 || !open) && time.Since(w.head) < w.r.pace {
			return w.full(a.Now), true, nil
		}
		var t takeResult
		if t, err = w.take(ctx, a, open); err != nil {
			break
		}
		a = t.last
		switch {
		case a.Busy > 0:
		case t.nothing:
			return w.empty(ctx)
		case t.stuck:
			return w.full(a.Now), true, nil
		}
		if err = ctx.Err(); err == nil {
			w.spec, err = w.r.specs.Get(ctx, w.name)
		}
	}
	if err != nil {
		return 0, true, err
	}
	w.lost()
	w.clearStuck()
	return a.Busy + mathrand.N(queue.ReadmitFor/10), true, nil
}

// full is how long to wait while the queue has no room, or its window is closed: room
// rings.
func (w *returnPath) full(now time.Time) time.Duration {
	pause := jittered(max(0, w.r.pace-time.Since(w.head)))
	if opens := w.spec.window.Opens(now).Sub(now); opens > 0 {
		pause = min(pause, opens)
	}
	return max(pause, time.Millisecond)
}

// empty asks the stream's leader whether there is nothing, and tells the engine.
func (w *returnPath) empty(ctx context.Context) (pause time.Duration, left bool, err error) {
	w.wait() // before the look: what is put from now on rings
	w.asOf = w.now
	subjects, err := w.r.stream.count(ctx, w.subject)
	if err != nil {
		return 0, true, err
	}
	if n := subjects[w.subject]; n > 0 {
		again := w.behind == 0 // this was the first look
		w.behind = int64(n)
		if again {
			return 0, true, nil
		}
		// On a replica that lags; or here and taken, and not removed: then, from the
		// beginning.
		if w.tries++; w.tries > 3 {
			w.trusted = 0
		}
		return w.backoff(1), true, nil
	}
	w.behind = 0
	w.clearStuck()
	a, err := w.readmit(ctx, queue.ReadmitRequest{Empty: true, Leave: true})
	if errors.Is(err, queue.ErrUnknownQueue) {
		return 0, false, nil
	}
	if err != nil {
		return 0, true, err
	}
	w.lost()
	if a.Busy > 0 {
		return a.Busy + mathrand.N(queue.ReadmitFor/10), true, nil
	}
	// Those that are recorded are on their way, or are given up in time. What was announced
	// came after the look, or before the engine first answered.
	w.tries++
	return w.backoff(1), a.Deferred > 0 || a.Behind > 0, nil
}

// readmit calls the engine, and takes note of what it says.
func (w *returnPath) readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if id := w.r.stream.identity(); id != w.stream {
		w.stream, w.doubt, w.trusted, w.ahead, w.unremoved = id, "", 0, 0, 0
	}
	begin := time.Now()
	a, err := w.r.engine.Readmit(ctx, w.request(r))
	if err != nil {
		return a, fmt.Errorf("taking jobs of %s back: %w", w.name, err)
	}
	w.now = a.Now
	if a.Missing > 0 {
		w.r.observer.Missing(w.name, int(a.Missing))
		w.r.log.Error("jobs were recorded as deferred, and the overflow does not have them", "queue", w.name,
			"jobs", a.Missing)
	}
	if a.Busy == 0 && !r.Leave {
		w.held = begin.Add(queue.ReadmitFor)
	}
	return a, nil
}

func (w *returnPath) request(r queue.ReadmitRequest) queue.ReadmitRequest {
	r.Queue, r.Holder, r.Overflow, r.AsOf = w.name, w.r.holder, w.stream+w.doubt, w.asOf
	return r
}

// trusts reports whether an order is as this process left it. If so, what lies below was
// taken and removed by it.
func (w *returnPath) trusts(order int64) bool {
	return order > 0 && order == w.trusted && w.contact == w.r.stream.nc.Stats().Reconnects
}

func (w *returnPath) trust(order int64) {
	w.trusted, w.contact = order, w.r.stream.nc.Stats().Reconnects
}

// suspects reports whether the first message lies where the order says that all was
// taken and removed; the message that the order is in may be half taken, but then by
// this process.
func (w *returnPath) suspects(first uint64, order int64) bool {
	in := uint64(order) / stride
	return first < in || first == in && !w.trusts(order)
}

// doubtful is called when the stream's leader has a message that the order says was taken. Usually a process was killed
// before it removed what it had taken, or the stream had no leader. But a NATS that lost its last writes with the power
// assigns their sequences again, to jobs that were never taken. So the order is not believed: under another name the
// engine begins anew, and judges each job by its id, which it remembers for the retention.
func (w *returnPath) doubtful() { w.doubt = "~" + rand.Text()[:10] }

// lost notes that the way back is not, or not any more, this process's.
func (w *returnPath) lost() {
	w.held = time.Time{}
	w.show(0, time.Time{})
}

func (w *returnPath) show(jobs int64, oldest time.Time) {
	if w.name != "" {
		w.r.observer.Depth(w.name, jobs, oldest)
	}
}
