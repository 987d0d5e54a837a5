package pull

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
)

const (
	maxPause = time.Second // between two checks of the memory while it is short
	// idleTime is how long the loop of a queue without requests is kept, so that workers that soon come back are the same
	// client to the engine.
	idleTime = time.Minute
	// maxGranted limits the bytes of a queue's jobs that wait for their departure.
	maxGranted = 8 << 20
	// maxClients is the number of workers that a loop remembers; beyond it, all of them are forgotten.
	maxClients = 100
)

// loop reserves the jobs of one queue, and hands them to waiting requests. mu guards the fields from waiting to bell,
// Dispatcher.mu guards count, and the goroutine in run owns all other fields.
type loop struct {
	d    *Dispatcher
	name string

	count int // requests, including those whose answers are being written

	mu      sync.Mutex
	waiting []*waiter
	fresh   bool // a request came, or the engine has more jobs
	bell    chan struct{}

	clients map[string]*client // by worker
	client  *client            // of the last request to the engine
	spec    *queue.Spec        // nil until it was read

	clock   departure.Clock // of the request under way
	asking  bool            // a request to the engine is under way
	replies chan reply
	repeat  bool // the last request must be repeated under its number
	askAt   time.Time
	backoff departure.Backoff
	failed  error // of the last request
	tries   int   // since the dispatcher was stopped

	granted []*job    // waiting jobs, by the instant from which they may be handed over
	bytes   int       // of the granted jobs
	handAt  time.Time // when the first job can be handed over, if a request waits for it
	idle    time.Time // since when there is nothing to do
	stopped bool
	over    bool
}

func newLoop(d *Dispatcher, name string) *loop {
	return &loop{
		d: d, name: name, bell: make(chan struct{}, 1), replies: make(chan reply, 1),
		clock: departure.Clock{Usual: true}, idle: time.Now(), clients: map[string]*client{},
	}
}

func (l *loop) enter(w *waiter) {
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	l.wake()
}

// leave removes a request. It returns false if the request has been answered.
func (l *loop) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, w)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// wake has the loop look for more to do.
func (l *loop) wake() {
	l.mu.Lock()
	l.fresh = true
	l.mu.Unlock()
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run reserves and hands over jobs until the queue has had no requests for a while, has no jobs to give, or the
// dispatcher stops.
func (l *loop) run() {
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
			l.answered(r)
		case <-stop:
			l.stopped, stop = true, nil
			l.giveBack(len(l.granted), Stopping)
		}
	}
}

// step does everything that is due now, and returns the time until something else is.
func (l *loop) step(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOver(now)
	l.dismiss(now)
	l.ask(now)
	if len(l.waiting)+len(l.granted) > 0 || l.asking || l.repeat {
		l.idle = now
	} else if l.stopped || now.Sub(l.idle) >= idleTime {
		l.over = l.end()
	}
	return max(0, l.due(now).Sub(now))
}

// due returns when there is something to do again.
func (l *loop) due(now time.Time) time.Time {
	at := l.idle.Add(idleTime)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if len(l.granted) > 0 {
		sooner(l.granted[0].latest.Add(time.Microsecond))
		if len(l.waiting) > 0 {
			sooner(l.handAt)
		}
	}
	if l.d.full() {
		sooner(now.Add(maxPause))
	}
	for _, w := range l.waiting {
		if w.until.After(now) { // otherwise it waits for the engine's answer
			sooner(w.until)
		}
	}
	if n, _ := l.wants(); !l.asking && (l.repeat || n > 0) {
		sooner(l.askAt)
	}
	return at
}

// end ends the loop, unless a request has come. Requests lock mu after the dispatcher's mu, so end must do so too.
func (l *loop) end() bool {
	l.mu.Unlock()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.mu.Lock()
	if len(l.waiting) > 0 {
		return false
	}
	delete(l.d.queues, l.name)
	l.d.specs.Forget(l.name) // later requests read the spec anew
	return true
}
