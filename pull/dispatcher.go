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

// Errors of Lease.
var (
	// ErrCrowded: the maximum number of requests wait for jobs of this queue.
	ErrCrowded = errors.New("too many requests wait for jobs of this queue")
	// ErrOverloaded: the maximum number of requests wait for jobs of any queue, or their jobs take too much memory.
	ErrOverloaded = errors.New("too many requests wait for jobs")
)

// Engine is the part of a queue.Engine that a Dispatcher uses.
type Engine interface {
	queue.Outflow
	queue.SpecReader
}

// Options are the settings of a Dispatcher. Zero fields mean the defaults named here.
type Options struct {
	Name     string       // of this process, for people; host:pid
	Version  string       // of the program
	Observer Observer     // by default none
	Logger   *slog.Logger // by default discards
	// Handed is called for each job that a worker got, without its payload, and with its departure, for traces. It must
	// not block. By default nothing is called.
	Handed func(job *queue.Reservation, departed time.Time)
	// Waited is called when a caller of Turns no longer waits, with the context of its call. It must not block. By default
	// nothing is called.
	Waited func(ctx context.Context, w Waited)

	MaxWaiting    int   // waiting requests of all queues; 4,096
	MaxQueue      int   // waiting requests of one queue; 1,024
	MaxHeldMemory int64 // bytes of granted jobs whose answers are not written yet; 256 MiB
	// Held is called when that memory grows or shrinks, for the process's memory budget. By default nothing is called.
	Held func(bytes int64)
}

// Dispatcher hands the jobs of pull queues to requests. It is safe for concurrent use.
type Dispatcher struct {
	engine Engine
	o      Options
	specs  *speccache.Cache[*queue.Spec]
	calls  context.Context // for calls to the engine
	stop   context.Context
	end    context.CancelFunc
	memory atomic.Int64
	clock  string // queue.ReserveRequest.Clock

	mu       sync.Mutex
	waiting  int
	queues   map[string]*loop
	stopped  bool
	loops    sync.WaitGroup // of queues, and goroutines that give jobs back
	sweeping atomic.Bool
}

// New returns a Dispatcher. It serves requests only while Run runs.
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

// Run receives the engine's wakeups until ctx ends. Then it answers waiting and later requests without jobs, and gives
// back granted jobs without a request.
func (d *Dispatcher) Run(ctx context.Context) error {
	wakeups := d.engine.Wake(d.stop)
	d.loops.Go(func() {
		for w := range wakeups {
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

// Request is a worker's request for jobs.
type Request struct {
	Queue  string
	Max    int           // 1 to queue.MaxReserve
	Wait   time.Duration // maximum wait for the first job; 0 asks the engine once
	Worker string        // the worker's name, for people; may be empty
}

// waiter is a Request that waits.
type waiter struct {
	Request
	ctx    context.Context
	until  time.Time
	asked  bool // the engine was asked since the request came
	seen   bool // and has answered
	answer chan answer
}

type answer struct {
	jobs []*job
	err  error
}

// Lease waits until jobs may start and returns them, to be written at once. It returns no jobs when the wait is over or
// the dispatcher stops. Errors: ErrCrowded, ErrOverloaded, queue.ErrUnknownQueue, an *invalid.Error if the queue is not
// a pull queue, the engine's if it does not answer before the wait is over, and ctx's.
func (d *Dispatcher) Lease(ctx context.Context, r Request) (*Batch, error) {
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
		// This goroutine was delayed until all of the jobs were late, and they were given back: wait again.
	}
}

// enter adds a request to the waiting requests of its queue. The loop is nil if the dispatcher has stopped.
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

// hold adds to the memory of granted jobs, or subtracts from it.
func (d *Dispatcher) hold(bytes int64) {
	d.memory.Add(bytes)
	d.o.Held(bytes)
}

// full reports whether granted jobs take too much memory.
func (d *Dispatcher) full() bool { return d.memory.Load() >= d.o.MaxHeldMemory }

// sweep frees what deleted queues left behind, as there may be no drainer to do it.
func (d *Dispatcher) sweep() {
	if !d.sweeping.CompareAndSwap(false, true) {
		return
	}
	d.loops.Go(func() {
		defer d.sweeping.Store(false)
		for p := range d.engine.Partitions() {
			if err := departure.Sweep(d.stop, d.engine, p); err != nil {
				return // the next answer reports it again
			}
		}
	})
}
