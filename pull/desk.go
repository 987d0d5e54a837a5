package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

// Errors of Take.
var (
	// ErrCrowded: as many requests wait for jobs of this queue as may.
	ErrCrowded = errors.New("too many requests wait for jobs of this queue")
	// ErrOverloaded: as many wait for jobs of any, or what they were handed takes too much memory.
	ErrOverloaded = errors.New("too many requests wait for jobs")
)

// Engine is what a Desk needs of a queue.Engine.
type Engine interface {
	queue.Outflow
	queue.SpecReader
}

// Options of a Desk. Zero fields mean what is said beside them.
type Options struct {
	Name     string       // of this process, for people: host:pid
	Version  string       // of the program
	Observer Observer     // does nothing
	Logger   *slog.Logger // discards

	MaxWaiting    int   // requests that wait at once, of all queues: 4,096
	MaxQueue      int   // of one queue: 1,024
	MaxHeldMemory int64 // of jobs that were granted, and whose answers are not written: 256 MiB
	// Held is told by how much that grows or shrinks, where memory is counted. Nobody is.
	Held func(bytes int64)
}

// Desk is where jobs of pull queues are asked for. It is safe for use by many goroutines.
type Desk struct {
	engine Engine
	o      Options
	calls  context.Context // of calls to the engine
	stop   context.Context
	end    context.CancelFunc
	memory atomic.Int64

	mu       sync.Mutex
	waiting  int
	queues   map[string]*line
	stopped  bool
	loops    sync.WaitGroup // of lines, and what gives jobs back
	sweeping atomic.Bool
}

// New returns a desk, which must be run.
func New(engine Engine, o Options) *Desk {
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	def(&o.MaxWaiting, 4096)
	def(&o.MaxQueue, 1024)
	def(&o.MaxHeldMemory, 256<<20)
	if o.Held == nil {
		o.Held = func(int64) {}
	}
	d := &Desk{engine: engine, o: o, calls: context.Background(), queues: map[string]*line{}}
	d.stop, d.end = context.WithCancel(context.Background())
	return d
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Run hears the engine's wake-ups until ctx ends. Then requests that wait are answered with
// nothing, and what was granted to nobody is given back. Later ones are answered with nothing at once.
func (d *Desk) Run(ctx context.Context) error {
	d.loops.Add(1)
	go func() {
		defer d.loops.Done()
		for w := range d.engine.Wake(d.stop) {
			if w.Queue == "" {
				continue
			}
			d.mu.Lock()
			l := d.queues[w.Queue]
			d.mu.Unlock()
			if l != nil {
				l.woken()
			}
		}
	}()
	<-ctx.Done()
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.end()
	d.loops.Wait()
	return nil
}

// Ask is a request for jobs.
type Ask struct {
	Queue  string
	Max    int           // 1 to queue.MaxReserve
	Wait   time.Duration // for the first; 0 asks the engine once
	Worker string        // for people; may be empty
}

// request is an Ask that waits.
type request struct {
	Ask
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
// wait is over or the desk stops. Errors: ErrCrowded, ErrOverloaded, queue.ErrUnknownQueue, a
// *queue.FieldError if it is not a pull queue, the engine's when it does not answer until the
// wait is over, and ctx's.
func (d *Desk) Take(ctx context.Context, a Ask) (*Handed, error) {
	r := &request{Ask: a, ctx: ctx, until: time.Now().Add(a.Wait), answer: make(chan answer, 1)}
	for {
		r.asked, r.seen = false, false
		l, err := d.enter(r)
		if err != nil || l == nil {
			return d.hand(nil), err
		}
		var got answer
		select {
		case got = <-r.answer:
		case <-ctx.Done():
			if l.leave(r) {
				d.left(l)
				return nil, ctx.Err()
			}
			got = <-r.answer
		}
		d.left(l)
		switch h := d.hand(got.jobs); {
		case ctx.Err() != nil:
			h.End(false)
			return nil, ctx.Err()
		case got.err != nil || len(h.jobs) > 0 || len(got.jobs) == 0:
			return h, got.err
		}
		// This goroutine was kept from running until all of them were late: they were given back.
	}
}

// enter puts a request in the line of its queue; nil if the desk has stopped.
func (d *Desk) enter(r *request) (*line, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.queues[r.Queue]
	switch {
	case d.stopped:
		return nil, nil
	case d.waiting >= d.o.MaxWaiting || d.full():
		return nil, ErrOverloaded
	case l != nil && l.count >= d.o.MaxQueue:
		return nil, ErrCrowded
	case l == nil:
		l = newLine(d, r.Queue)
		d.queues[r.Queue] = l
		d.loops.Add(1)
		go l.run()
	}
	l.count++
	d.waiting++
	d.o.Observer.Waiting(d.waiting)
	l.enter(r)
	return l, nil
}

func (d *Desk) left(l *line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.count--
	d.waiting--
	d.o.Observer.Waiting(d.waiting)
}

// hold counts what jobs take that were granted, or are gone.
func (d *Desk) hold(bytes int64) {
	d.memory.Add(bytes)
	d.o.Held(bytes)
}

// full reports whether the jobs at hand take too much memory.
func (d *Desk) full() bool { return d.memory.Load() >= d.o.MaxHeldMemory }

// sweep frees what deleted queues left, a little at a time: there may be no drainer that does.
func (d *Desk) sweep() {
	if !d.sweeping.CompareAndSwap(false, true) {
		return
	}
	d.loops.Add(1)
	go func() {
		defer d.loops.Done()
		defer d.sweeping.Store(false)
		for p := range d.engine.Partitions() {
			for more := true; more && d.stop.Err() == nil; {
				var err error
				if more, err = d.engine.Sweep(d.stop, p); err != nil {
					return // the next answer tells of it again
				}
			}
		}
	}()
}
