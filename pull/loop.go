package pull

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
)

const (
	maxPause = time.Second // between two looks at the memory, when that is short
	// idleTime is how long the loop of a queue without requests is kept: those who ask again soon are the same client
	// to the engine.
	idleTime = time.Minute
	// maxGranted bounds the bytes of a queue's jobs that wait for their departure.
	maxGranted = 8 << 20
	// maxClients is how many workers a loop remembers; then it begins anew with other clients.
	maxClients = 100
)

// loop asks for the jobs of one queue, and hands them to the requests that wait. The fields from waiting to bell are
// guarded by mu, count by Dispatcher.mu, all others are those of the goroutine in run.
type loop struct {
	d    *Dispatcher
	name string

	count int // requests, those included whose answer is under way

	mu      sync.Mutex
	waiting []*waiter
	fresh   bool // somebody came, or the engine said that there is more
	bell    chan struct{}

	clients map[string]*client // by worker
	client  *client            // of the last request to the engine
	spec    *queue.Spec        // nil until it was read

	clock   departure.Clock // of the request that is under way
	asking  bool            // a request to the engine is under way
	replies chan reply
	repeat  bool // the last request is to be repeated under its number
	askAt   time.Time
	backoff departure.Backoff
	failed  error // of the last request
	tries   int   // since the dispatcher stops

	granted []*job    // that wait, by the instant from which they may be handed over
	bytes   int       // of them
	handAt  time.Time // when the first can be, if somebody waits for it
	idle    time.Time // since when there is nothing to do
	stopped bool
	over    bool
}

func newLoop(d *Dispatcher, name string) *loop {
	return &loop{
		d: d, name: name, bell: make(chan struct{}, 1), replies: make(chan reply,
			1), idle: time.Now(), clients: map[string]*client{},
	}
}

func (l *loop) enter(w *waiter) {
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	l.wake()
}

// leave takes a request out, unless it has its answer.
func (l *loop) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, w)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	return at >= 0
}

// wake is called when there may be more to do.
func (l *loop) wake() {
	l.mu.Lock()
	l.fresh = true
	l.mu.Unlock()
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run asks and hands over until nobody has asked for a while, the queue cannot be asked for, or the dispatcher stops.
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

// step does what is to be done now, and returns for how long there is nothing.
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

// due is when something is to be done again.
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
		if w.until.After(now) { // of one whose wait is over something else is awaited
			sooner(w.until)
		}
	}
	if n, _ := l.wants(); !l.asking && (l.repeat || n > 0) {
		sooner(l.askAt)
	}
	return at
}

// end ends the loop, unless somebody has come. Those who come take mu behind the dispatcher's.
func (l *loop) end() bool {
	l.mu.Unlock()
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.mu.Lock()
	if len(l.waiting) > 0 {
		return false
	}
	delete(l.d.queues, l.name)
	l.d.specs.Forget(l.name) // whoever comes later learns at once what the queue is by then
	return true
}
