package pull

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	minPause   = 10 * time.Millisecond
	maxPause   = time.Second
	leastPause = time.Millisecond // between two requests of which the first brought nothing
	stopTries  = 4                // of a request whose outcome is unknown, when the desk stops
	// idleTime is how long a line without requests is kept: those who ask again soon are the
	// same client to the engine.
	idleTime = time.Minute
	heldMax  = 8 << 20 // bytes of jobs that wait for their departure
	// partyMax is how many workers a line remembers; then it begins anew with other clients.
	partyMax = 100
)

// party is a client of the engine: all that ask under one worker's name, so that a job's timeline
// has it.
type party struct {
	queue.Client
	number uint64
}

// line is the requests that wait for jobs of one queue, and the one loop that asks for them. The
// fields below mu are guarded by it, all others are the loop's.
type line struct {
	d    *Desk
	name string

	count int // requests, those included whose answer is under way; guarded by d.mu

	mu      sync.Mutex
	waiting []*request
	fresh   bool // somebody came, or the engine said that there is more
	bell    chan struct{}

	parties  map[string]*party // by worker
	asker    *party            // of the last request
	spec     *queue.Spec
	revision int64

	flying  bool
	replies chan reply
	again   bool // the last request is to be repeated under its number
	askAt   time.Time
	pause   time.Duration
	failed  error
	tries   int // since the desk stops

	held    []*job // by the instant from which they may be handed over
	bytes   int
	handAt  time.Time // when the first can be, if somebody waits for it
	idle    time.Time // since when there is nothing to do
	stopped bool
	over    bool
}

func newLine(d *Desk, name string) *line {
	return &line{
		d: d, name: name, bell: make(chan struct{}, 1), replies: make(chan reply, 1), pause: minPause, idle: time.Now(),
		parties: map[string]*party{},
	}
}

func (l *line) enter(r *request) {
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	l.fresh = true
	l.mu.Unlock()
	l.ring()
}

// leave takes a request out, unless it has its answer.
func (l *line) leave(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, r)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// woken is told that there may be more.
func (l *line) woken() {
	l.mu.Lock()
	l.fresh = true
	l.mu.Unlock()
	l.ring()
}

func (l *line) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run asks and hands over until nobody has asked for a while, the queue cannot be asked for, or
// the desk stops.
func (l *line) run() {
	defer l.d.loops.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop := l.d.stop.Done()
	for {
		timer.Reset(l.step(time.Now()))
		if l.over {
			return
		}
		select {
		case <-timer.C:
		case <-l.bell:
		case r := <-l.replies:
			l.land(r)
		case <-stop:
			l.stopped, stop = true, nil
			l.give(len(l.held), nil, Stopping)
		}
	}
}

// step does what is to be done now, and returns for how long there is nothing.
func (l *line) step(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOver(now)
	l.dismiss(now)
	l.fly(now)
	if len(l.waiting)+len(l.held) > 0 || l.flying || l.again {
		l.idle = now
	} else if l.stopped || now.Sub(l.idle) >= idleTime {
		l.over = l.vanish()
	}
	return max(0, l.due(now).Sub(now))
}

// due is when something is to be done again.
func (l *line) due(now time.Time) time.Time {
	at := l.idle.Add(idleTime)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if len(l.held) > 0 {
		sooner(l.held[0].latest.Add(time.Microsecond))
		if len(l.waiting) > 0 {
			sooner(l.handAt)
		}
	}
	if l.d.full() {
		sooner(now.Add(maxPause))
	}
	for _, r := range l.waiting {
		if r.until.After(now) { // of one whose wait is over something else is awaited
			sooner(r.until)
		}
	}
	if n, _ := l.wants(); !l.flying && (l.again || n > 0) {
		sooner(l.askAt)
	}
	return at
}

// handOver gives jobs that may start to those who wait, the first come first. A request that takes
// several gets those that may start within half of what is left of the first one's window.
func (l *line) handOver(now time.Time) {
	for len(l.held) > 0 {
		j, r := l.held[0], l.first()
		if now.After(j.latest) {
			why := Late
			if r == nil {
				why = Unclaimed
			}
			l.give(1, nil, why)
			continue
		}
		if r == nil || now.Before(j.earliest) {
			l.handAt = j.earliest
			if r == nil {
				l.handAt = j.latest
			}
			return
		}
		until := now
		if half := j.earliest.Add(j.latest.Sub(j.earliest) / 2); half.After(now) && !l.spec.Rate.Unlimited() {
			until = half
		}
		n := 1
		for n < min(r.Max, len(l.held)) && !l.held[n].earliest.After(until) {
			n++
		}
		if last := l.held[n-1].earliest; last.After(now) {
			l.handAt = last
			return
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(o *request) bool { return o == r })
		l.give(n, r, 0)
	}
}

// first is the first request whose client is still there.
func (l *line) first() *request {
	for _, r := range l.waiting {
		if r.ctx.Err() == nil {
			return r
		}
	}
	return nil
}

// give gives the first n jobs to a request, or back.
func (l *line) give(n int, r *request, why Reason) {
	if n == 0 {
		return
	}
	jobs := slices.Clone(l.held[:n])
	l.held = slices.Delete(l.held, 0, n)
	for _, j := range jobs {
		l.bytes -= len(j.text)
	}
	if r != nil {
		r.answer <- answer{jobs: jobs}
		return
	}
	l.d.loops.Add(1)
	go func() {
		defer l.d.loops.Done()
		l.d.giveBack(jobs, why)
	}()
}

// dismiss answers those whose wait is over with nothing, or with what went wrong. One for which a job
// is held stays for that.
func (l *line) dismiss(now time.Time) {
	jobs := len(l.held)
	l.waiting = slices.DeleteFunc(l.waiting, func(r *request) bool {
		if jobs > 0 && !l.stopped {
			jobs -= l.useful(r.Max)
			return false
		}
		wrong := l.failed != nil && !l.flying
		if !l.stopped && (now.Before(r.until) || !r.seen && !wrong && !l.d.full()) {
			return false
		}
		var a answer
		if wrong && !l.stopped {
			a.err = l.failed
		}
		r.answer <- a
		return true
	})
}
