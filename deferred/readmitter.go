package deferred

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// looks is how many return paths are looked at at a time.
	looks = 64
	// maxReturnPaths bounds how many queues are looked after; the others wait until one of these
	// has nothing left.
	maxPaths = 200_000
	// leaveTimeout is how long a Readmitter that stops gives up what it holds.
	leaveTimeout = 2 * time.Second
	leavers      = 16 // at a time
)

// Readmitter takes deferred jobs back into their queues as room comes. Any number of
// processes may run one. Make one with NewReadmitter.
type Readmitter struct {
	engine   Engine
	stream   *Stream
	log      *slog.Logger
	observer Observer
	specs    specs
	holder   string
	memory   *memory
	looks    chan struct{}
	grace    time.Duration // unknownGrace, as pace is headPause
	pace     time.Duration

	mu      sync.Mutex
	ctx     context.Context        // of Run; nil before and after
	paths   map[string]*returnPath // by subject
	running sync.WaitGroup
}

// NewReadmitter returns a Readmitter, which Run runs.
func NewReadmitter(engine Engine, stream *Stream) *Readmitter {
	return &Readmitter{
		engine: engine, stream: stream, log: stream.log, observer: stream.observer, holder: "r-" + queue.NewID(),
		specs:  newSpecs(engine.Get, callTimeout, readmitAge),
		memory: newMemory(), looks: make(chan struct{}, looks), grace: unknownGrace, pace: headPause,
		paths: map[string]*returnPath{},
	}
}

// Run takes jobs back until ctx ends; then it gives up what it has to itself, so that
// another process goes on at once, and returns nil. It is called once.
//
// Nothing is kept between two looks at a queue's overflow but where it stands: memory
// does not depend on how much is deferred, and a process that is killed leaves nothing
// behind but its hold on the return paths, for queue.ReadmitFor.
//
// It waits until the Stream is open.
func (r *Readmitter) Run(ctx context.Context) error {
	select {
	case <-r.stream.opened:
	case <-ctx.Done():
		return nil
	}
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	forget := r.stream.listen(r)
	var sources sync.WaitGroup
	sources.Go(func() { r.discover(ctx) })
	sources.Go(func() { r.remember(ctx) })
	sources.Go(func() {
		for name := range r.engine.Room(ctx) {
			r.ring(name)
		}
	})
	<-ctx.Done()
	forget()
	sources.Wait()
	r.mu.Lock()
	r.ctx = nil
	for _, w := range r.paths {
		w.stopTimer()
	}
	r.mu.Unlock()
	r.running.Wait()
	r.specs.Close()
	r.leave()
	return nil
}

// ring has a queue looked at now: there is room, and there was something to fill it.
func (r *Readmitter) ring(name string) { r.wake(r.stream.subjects.of(name), room) }

// put is told that something was put on the overflow.
func (r *Readmitter) put(name string) { r.wake(r.stream.subjects.of(name), something) }

// back has the return paths looked at whose last look failed: NATS is connected again.
func (r *Readmitter) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	for _, w := range r.paths {
		switch {
		case w.running:
			w.rung = true
		case w.failed:
			w.tries = 0
			r.start(w)
		}
	}
}

// news is why a subject is to be looked at.
type news uint8

const (
	room      news = iota // there is room; and something to fill it, a moment ago
	something             // there is something
	recorded              // the engine believes that there is something
)

// wake starts a look at a subject, or has the one under way followed by another. One
// that waits for room is left alone by anything else.
func (r *Readmitter) wake(subject string, why news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	w := r.paths[subject]
	if w == nil {
		if len(r.paths) >= maxPaths {
			return
		}
		w = newReturnPath(r, subject)
		r.paths[subject] = w
	}
	w.sure = w.sure || why == something
	switch {
	case why != room && !w.idle:
	case w.running:
		w.rung = true
	case w.failed: // room does not mend that: its timer is set, and back tries it sooner
	default:
		r.start(w)
	}
}

// start is called with mu held.
func (r *Readmitter) start(w *returnPath) {
	w.stopTimer()
	w.running, w.rung = true, false
	ctx := r.ctx
	r.running.Go(func() {
		r.looks <- struct{}{} // a look ends soon when ctx does
		pause, left := w.look(ctx)
		<-r.looks
		r.rest(w, pause, left)
	})
}

// rest lets a path be until its time comes or it is rung; one that has nothing left, for
// good.
func (r *Readmitter) rest(w *returnPath, pause time.Duration, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.running = false
	switch {
	case r.ctx == nil:
	case w.rung:
		r.start(w)
	case !left:
		delete(r.paths, w.subject)
	default:
		w.timer = time.AfterFunc(pause, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.ctx != nil && !w.running && r.paths[w.subject] == w {
				r.start(w)
			}
		})
	}
}

// leave gives up the return paths that are still held.
func (r *Readmitter) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	var leaving sync.WaitGroup
	slots := make(chan struct{}, leavers)
	for _, w := range r.paths {
		if w.name == "" || !time.Now().Before(w.held) {
			continue
		}
		slots <- struct{}{}
		leaving.Go(func() {
			defer func() { <-slots }()
			// Should it fail, the hold runs out.
			_, _ = r.engine.Readmit(ctx, w.request(queue.ReadmitRequest{Behind: max(1, w.behind), Leave: true}))
		})
	}
	leaving.Wait()
	for _, w := range r.paths {
		w.show(0, time.Time{})
		w.clearStuck()
	}
	clear(r.paths)
}
