package pull

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

// Errors of Take.
var (
	// ErrCrowded: as many requests wait for jobs of this queue as may.
	ErrCrowded = errors.New("too many requests wait for jobs of this queue")
	// ErrOverloaded: as many wait for jobs of any, or what they were handed takes too much memory.
	ErrOverloaded = errors.New("too many requests wait for jobs")
)

// Engine is what a Dispatcher needs of a queue.Engine.
type Engine interface {
	queue.Outflow
	queue.SpecReader
}

// Options of a Dispatcher. Zero fields mean what is said beside them.
type Options struct {
	Name     string       // of this process, for people: host:pid
	Version  string       // of the program
	Observer Observer     // does nothing
	Logger   *slog.Logger // discards
	// Handed is told of each job that a worker got, without its payload, and when it departed: traces are made of it. It
	// must not block. Nobody is.
	Handed func(job *queue.Reservation, departed time.Time)

	MaxWaiting    int   // requests that wait at once, of all queues: 4,096
	MaxQueue      int   // of one queue: 1,024
	MaxHeldMemory int64 // of jobs that were granted, and whose answers are not written: 256 MiB
	// Held is told by how much that grows or shrinks, where memory is counted. Nobody is.
	Held func(bytes int64)
}

// Dispatcher hands the jobs of pull queues to those who ask for them. It is safe for use by many goroutines.
type Dispatcher struct {
	engine Engine
	o      Options
	specs  *speccache.Cache[*queue.Spec]
	calls  context.Context // of calls to the engine
	stop   context.Context
	end    context.CancelFunc
	memory atomic.Int64
	clock  string // queue.ReserveRequest.Clock

	mu       sync.Mutex
	waiting  int
	queues   map[string]*loop
	stopped  bool
	loops    sync.WaitGroup // of queues, and what gives jobs back
	sweeping atomic.Bool
}

// New returns a dispatcher, which must be run.
func New(engine Engine, o Options) *Dispatcher {
	if o.Name == "" {
		o.Name = departure.ProcessName()
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 4096)
	o.MaxQueue = cmp.Or(o.MaxQueue, 1024)
	o.MaxHeldMemory = cmp.Or(o.MaxHeldMemory, 256<<20)
	if o.Held == nil {
		o.Held = func(int64) {}
	}
	d := &Dispatcher{
		engine: engine, o: o, specs: speccache.Specs(engine, departure.Timeout, 0), calls: context.Background(),
		queues: map[string]*loop{}, clock: queue.NewID(),
	}
	d.stop, d.end = context.WithCancel(context.Background())
	return d
}

// Run hears the engine's wake-ups until ctx ends. Then requests that wait are answered with
// nothing, and what was granted to nobody is given back. Later ones are answered with nothing at once.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.loops.Go(func() {
		for w := range d.engine.Wake(d.stop) {
			if w.Queue == "" {
				continue
			}
			d.mu.Lock()
			l := d.queues[w.Queue]
			d.mu.Unlock()
			if l != nil {
				l.wake()
			}
		}
	})
	<-ctx.Done()
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.end()
	d.loops.Wait()
	d.specs.Close()
	return nil
}

// Request asks for jobs.
type Request struct {
	Queue  string
	Max    int           // 1 to queue.MaxReserve
	Wait   time.Duration // for the first; 0 asks the engine once
	Worker string        // for people; may be empty
}

// waiter is a Request that waits.
type waiter struct {
	Request
	ctx    context.Context
	until  time.Time
	asked  bool // the engine was asked, or is being, since it came
	seen   bool // and has answered
	answer chan answer
}

type answer struct {
	jobs []*job
	err  error
}

// Take waits until jobs may start, and returns them then, to be written at once: none when the
// wait is over or the dispatcher stops. Errors: ErrCrowded, ErrOverloaded, queue.ErrUnknownQueue, a
// *invalid.Error if it is not a pull queue, the engine's when it does not answer until the
// wait is over, and ctx's.
func (d *Dispatcher) Take(ctx context.Context, r Request) (*Batch, error) {
	w := &waiter{Request: r, ctx: ctx, until: time.Now().Add(r.Wait), answer: make(chan answer, 1)}
	for {
		w.asked, w.seen = false, false
		l, err := d.enter(w)
		if err != nil || l == nil {
			return d.hand(nil), err
		}
		var got answer
		select {
		case got = <-w.answer:
		case <-ctx.Done():
			if l.leave(w) {
				d.left(l)
				return nil, ctx.Err()
			}
			got = <-w.answer
		}
		d.left(l)
		switch b := d.hand(got.jobs); {
		case ctx.Err() != nil:
			b.End(false)
			return nil, ctx.Err()
		case got.err != nil || len(b.jobs) > 0 || len(got.jobs) == 0:
			return b, got.err
		}
		// This goroutine was kept from running until all of them were late: they were given back.
	}
}

// enter puts a request among those that wait for its queue; nil if the dispatcher has stopped.
func (d *Dispatcher) enter(w *waiter) (*loop, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.queues[w.Queue]
	switch {
	case d.stopped:
		return nil, nil
	case d.waiting >= d.o.MaxWaiting || d.full():
		return nil, ErrOverloaded
	case l != nil && l.count >= d.o.MaxQueue:
		return nil, ErrCrowded
	case l == nil:
		l = newLoop(d, w.Queue)
		d.queues[w.Queue] = l
		d.loops.Add(1)
		go l.run()
	}
	l.count++
	d.waiting++
	d.o.Observer.Waiting(d.waiting)
	l.enter(w)
	return l, nil
}

func (d *Dispatcher) left(l *loop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.count--
	d.waiting--
	d.o.Observer.Waiting(d.waiting)
}

// hold counts what jobs take that were granted, or are gone.
func (d *Dispatcher) hold(bytes int64) {
	d.memory.Add(bytes)
	d.o.Held(bytes)
}

// full reports whether the jobs at hand take too much memory.
func (d *Dispatcher) full() bool { return d.memory.Load() >= d.o.MaxHeldMemory }

// sweep frees what deleted queues left: there may be no drainer that does.
func (d *Dispatcher) sweep() {
	if !d.sweeping.CompareAndSwap(false, true) {
		return
	}
	d.loops.Go(func() {
		defer d.sweeping.Store(false)
		for p := range d.engine.Partitions() {
			if err := departure.Sweep(d.stop, d.engine, p); err != nil {
				return // the next answer tells of it again
			}
		}
	})
}
