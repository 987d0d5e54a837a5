package deferred

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// looks is how many return paths are looked at concurrently.
	looks = 64
	// maxPaths bounds the number of return paths; further queues wait until one of these is empty.
	maxPaths = 200_000
	// leaveTimeout is how long a stopping Readmitter tries to give up its return paths.
	leaveTimeout = 2 * time.Second
	leavers      = 16 // at a time
)

// Readmitter takes deferred jobs back into their queues as room appears. Any number of processes may run one. Create
// one with NewReadmitter.
type Readmitter struct {
	engine   Engine
	stream   *Stream
	log      *slog.Logger
	observer Observer
	specs    specs
	holder   string
	memory   *memory
	looks    chan struct{}
	grace    time.Duration // unknownGrace; pace is headPause; tests change both
	pace     time.Duration

	mu      sync.Mutex
	ctx     context.Context        // of Run; nil before and after
	paths   map[string]*returnPath // by subject
	running sync.WaitGroup
}

// NewReadmitter returns a Readmitter. Run runs it.
func NewReadmitter(engine Engine, stream *Stream) *Readmitter {
	return &Readmitter{
		engine: engine, stream: stream, log: stream.log, observer: stream.observer, holder: "r-" + queue.NewID(),
		specs:  newSpecs(engine.Get, callTimeout, readmitAge),
		memory: newMemory(), looks: make(chan struct{}, looks), grace: unknownGrace, pace: headPause,
		paths: map[string]*returnPath{},
	}
}

// Run takes jobs back until ctx ends. Then it gives up its return paths, so that another process continues at once,
// and returns nil. It is called once.
//
// Between two looks at a queue it keeps only the position, so memory does not depend on how much is deferred. A killed
// process only leaves its hold on the return paths, for queue.ReadmitFor.
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
	for _, p := range r.paths {
		p.stopTimer()
	}
	r.mu.Unlock()
	r.running.Wait()
	r.specs.Close()
	r.leave()
	return nil
}

// ring looks at a queue now: there is room, and recently there were jobs to fill it.
func (r *Readmitter) ring(name string) { r.wake(r.stream.subjects.of(name), room) }

// put reports that a job was put on the overflow.
func (r *Readmitter) put(name string) { r.wake(r.stream.subjects.of(name), something) }

// back looks at the return paths whose last look failed: NATS is connected again.
func (r *Readmitter) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	for _, p := range r.paths {
		switch {
		case p.running:
			p.rung = true
		case p.failed:
			p.tries = 0
			r.start(p)
		}
	}
}

// news is the reason to look at a subject.
type news uint8

const (
	room      news = iota // there is room, and recently there were jobs to fill it
	something             // there is a message
	recorded              // the engine believes that there is a message
)

// wake starts a look at a subject, or schedules another one after the present one. A path that waits for room is left
// alone for any other reason.
func (r *Readmitter) wake(subject string, why news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	p := r.paths[subject]
	if p == nil {
		if len(r.paths) >= maxPaths {
			return
		}
		p = newReturnPath(r, subject)
		r.paths[subject] = p
	}
	p.sure = p.sure || why == something
	switch {
	case why != room && !p.idle:
	case p.running:
		p.rung = true
	case p.failed: // room does not fix that: its timer is set, and back tries it sooner
	default:
		r.start(p)
	}
}

// start starts a look. mu is held.
func (r *Readmitter) start(p *returnPath) {
	p.stopTimer()
	p.running, p.rung = true, false
	ctx := r.ctx
	r.running.Go(func() {
		r.looks <- struct{}{} // a look ends soon when ctx does
		pause, left := p.look(ctx)
		<-r.looks
		r.rest(p, pause, left)
	})
}

// rest lets a path rest until its time comes or it is rung. It forgets a path with nothing left.
func (r *Readmitter) rest(p *returnPath, pause time.Duration, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.running = false
	switch {
	case r.ctx == nil:
	case p.rung:
		r.start(p)
	case !left:
		delete(r.paths, p.subject)
	default:
		p.timer = time.AfterFunc(pause, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.ctx != nil && !p.running && r.paths[p.subject] == p {
				r.start(p)
			}
		})
	}
}

// leave gives up the return paths still held.
func (r *Readmitter) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	var leaving sync.WaitGroup
	slots := make(chan struct{}, leavers)
	for _, p := range r.paths {
		if p.name == "" || !time.Now().Before(p.held) {
			continue
		}
		slots <- struct{}{}
		leaving.Go(func() {
			defer func() { <-slots }()
			// If it fails, the hold runs out.
			_, _ = r.engine.Readmit(ctx, p.request(queue.ReadmitRequest{Behind: max(1, p.behind), Leave: true}))
		})
	}
	leaving.Wait()
	for _, p := range r.paths {
		p.show(0, time.Time{})
		p.clearStuck()
	}
	clear(r.paths)
}
