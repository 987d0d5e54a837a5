package deferred

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/queue"
)

const (
	// headPause is how often the head is looked at while nothing can come back: jobs that are too old must not wait
	// for room.
	headPause = 10 * time.Second
	// firstPause and longestPause bound the pause after a look that failed, or that found nothing where jobs should
	// be.
	firstPause   = 20 * time.Millisecond
	longestPause = 10 * time.Second
)

// returnPath is the way back of one queue, or of a subject that belongs to no queue.
type returnPath struct {
	r       *Readmitter
	subject string
	name    string // of the queue; empty if the subject belongs to none

	// Guarded by the Readmitter's mutex.
	running bool
	rung    bool
	timer   *time.Timer
	idle    bool // waits for messages, not for room
	sure    bool // a message has come since the last look
	failed  bool // whether the last look failed

	// The other fields belong to the present look.
	stream  string    // identity of the stream at the last look
	doubt   string    // see doubtful
	trusted int64     // the order as this process left it; 0 if in doubt
	contact uint64    // number of reconnects to NATS at that time
	each    int       // average number of jobs per message
	behind  int64     // minimum number of jobs on the overflow: an unread message counts as one
	now     time.Time // time of the engine's last answer
	asOf    time.Time // value of now at the last look
	held    time.Time
	head    time.Time // when the engine last got the head
	spec    spec
	unknown time.Time // since when the queue is unknown
	tries   int       // failed tries in a row

	// Jobs that came back while the stream had no leader, and are not removed yet.
	ahead     uint64 // sequence after their last message, or 0
	unremoved int64  // number of jobs
}

func newReturnPath(r *Readmitter, subject string) *returnPath {
	p := &returnPath{r: r, subject: subject, each: 8, idle: true}
	if name, ok := r.stream.subjects.queueOf(subject); ok {
		p.name = name
	}
	return p
}

// stopTimer stops the timer. The Readmitter's mutex is held.
func (p *returnPath) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// busy records that a look starts, and reports whether a message has come.
func (p *returnPath) busy() (sure bool) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	sure, p.idle, p.sure = p.sure, false, false
	return sure
}

// wait records that the path waits for messages, not for room.
func (p *returnPath) wait() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.idle = true
}

// look takes back as many jobs as there is room for. It returns when to look again, and whether anything is left.
func (p *returnPath) look(ctx context.Context) (pause time.Duration, left bool) {
	if p.busy() {
		p.behind = max(1, p.behind)
	}
	pause, left, err := p.pass(ctx)
	p.fails(err != nil)
	if err == nil {
		return pause, left
	}
	p.trusted = 0
	p.busy() // messages put from now on must not cause another try at once
	p.tries++
	if ctx.Err() == nil && p.tries&(p.tries-1) == 0 { // ever more rarely
		p.r.log.Warn("jobs do not come back from the overflow; retrying", "subject", p.subject, "tries", p.tries,
			"error", fmt.Sprint(err))
	}
	return jittered(p.backoff(2)), true
}

// fails records whether a look failed.
func (p *returnPath) fails(failed bool) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.failed = failed
}

// backoff returns the pause after the present number of failed tries.
func (p *returnPath) backoff(from int) time.Duration {
	return backoff.Doubled(firstPause*time.Duration(from), longestPause, p.tries)
}

// jittered spreads out processes that wait for the same event.
func jittered(d time.Duration) time.Duration { return d + mathrand.N(d/4+1) }

func (p *returnPath) pass(ctx context.Context) (pause time.Duration, left bool, err error) {
	if p.name == "" {
		return p.foreign(ctx)
	}
	if p.behind == 0 { // claiming jobs would give an empty queue a backlog
		return p.empty(ctx)
	}
	a, err := p.readmit(ctx, queue.ReadmitRequest{Behind: p.behind})
	if err == nil && a.Busy == 0 {
		p.spec, err = p.r.specs.Get(ctx, p.name)
	}
	if errors.Is(err, queue.ErrUnknownQueue) {
		return p.orphans(ctx)
	}
	p.unknown = time.Time{}
	for first := true; err == nil && a.Busy == 0; first = false {
		open := p.spec.hours.Open(a.Now)
		if first && (a.Room == 0 || !open) && time.Since(p.head) < p.r.pace {
			return p.full(a.Now), true, nil
		}
		var t batchResult
		if t, err = p.readmitBatch(ctx, a, open); err != nil {
			break
		}
		a = t.last
		switch {
		case a.Busy > 0:
		case t.empty:
			return p.empty(ctx)
		case t.stuck:
			return p.full(a.Now), true, nil
		}
		if err = ctx.Err(); err == nil {
			p.spec, err = p.r.specs.Get(ctx, p.name)
		}
	}
	if err != nil {
		return 0, true, err
	}
	p.lost()
	p.clearStuck()
	return a.Busy + mathrand.N(queue.ReadmitFor/10), true, nil
}

// full returns how long to wait while the queue has no room or its window is closed. New room rings earlier.
func (p *returnPath) full(now time.Time) time.Duration {
	pause := jittered(max(0, p.r.pace-time.Since(p.head)))
	if opens := p.spec.hours.Opens(now).Sub(now); opens > 0 {
		pause = min(pause, opens)
	}
	return max(pause, time.Millisecond)
}

// empty asks the stream's leader whether there are no messages, and tells the engine.
func (p *returnPath) empty(ctx context.Context) (pause time.Duration, left bool, err error) {
	p.wait() // before the look: messages put from now on ring
	p.asOf = p.now
	subjects, err := p.r.stream.count(ctx, p.subject)
	if err != nil {
		return 0, true, err
	}
	if n := subjects[p.subject]; n > 0 {
		again := p.behind == 0 // the first look
		p.behind = int64(n)
		if again {
			return 0, true, nil
		}
		// A lagging replica; or the messages were taken but not removed: then start from the beginning.
		if p.tries++; p.tries > 3 {
			p.trusted = 0
		}
		return p.backoff(1), true, nil
	}
	p.behind = 0
	p.clearStuck()
	a, err := p.readmit(ctx, queue.ReadmitRequest{Empty: true, Leave: true})
	if errors.Is(err, queue.ErrUnknownQueue) {
		return 0, false, nil
	}
	if err != nil {
		return 0, true, err
	}
	p.lost()
	if a.Busy > 0 {
		return a.Busy + mathrand.N(queue.ReadmitFor/10), true, nil
	}
	// Recorded jobs are on their way, or are given up in time. Announced jobs came after the look, or before the
	// engine first answered.
	p.tries++
	return p.backoff(1), a.Deferred > 0 || a.Behind > 0, nil
}

// readmit calls the engine and records its answer.
func (p *returnPath) readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if id := p.r.stream.identity(); id != p.stream {
		p.stream, p.doubt, p.trusted, p.ahead, p.unremoved = id, "", 0, 0, 0
	}
	begin := time.Now()
	a, err := p.r.engine.Readmit(ctx, p.request(r))
	if err != nil {
		return a, fmt.Errorf("readmitting jobs of %s: %w", p.name, err)
	}
	p.now = a.Now
	if a.Missing > 0 {
		p.r.observer.Missing(p.name, int(a.Missing))
		p.r.log.Error("jobs recorded as deferred are not on the overflow", "queue", p.name,
			"jobs", a.Missing)
	}
	if a.Busy == 0 && !r.Leave {
		p.held = begin.Add(queue.ReadmitFor)
	}
	return a, nil
}

func (p *returnPath) request(r queue.ReadmitRequest) queue.ReadmitRequest {
	r.Queue, r.Holder, r.Overflow, r.AsOf = p.name, p.r.holder, p.stream+p.doubt, p.asOf
	return r
}

// trusts reports whether the order is as this process left it. Then everything below was taken and removed by it.
func (p *returnPath) trusts(order int64) bool {
	return order > 0 && order == p.trusted && p.contact == p.r.stream.nc.Stats().Reconnects
}

func (p *returnPath) trust(order int64) {
	p.trusted, p.contact = order, p.r.stream.nc.Stats().Reconnects
}

// suspects reports whether the first message lies where, according to the order, everything was taken and removed. The
// message at the order itself may be half taken, but only by this process.
func (p *returnPath) suspects(first uint64, order int64) bool {
	in := uint64(order) / stride
	return first < in || first == in && !p.trusts(order)
}

// doubtful is called when the stream's leader has a message that was taken according to the order. Usually a process
// was killed before it removed what it had taken, or the stream had no leader. But a NATS that lost its last writes in
// a power failure reuses their sequences for jobs that were never taken. So the order is not trusted: under another
// name the engine starts anew and judges each job by its id, which it remembers for the retention.
func (p *returnPath) doubtful() { p.doubt = "~" + rand.Text()[:10] }

// lost records that this process does not, or no longer, have the way back.
func (p *returnPath) lost() {
	p.held = time.Time{}
	p.show(0, time.Time{})
}

func (p *returnPath) show(jobs int64, oldest time.Time) {
	if p.name != "" {
		p.r.observer.Depth(p.name, jobs, oldest)
	}
}
