package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// patience is how long a stopping drainer waits for handlers that were told to end,
	// and then for its last settlements.
	patience       = 5 * time.Second
	complaintPause = 10 * time.Second

	specTimeout = 2 * time.Second
	// maxSpecs is more than a drainer has jobs of at a time.
	maxSpecs = 100_000
)

// Engine is what a drainer needs of a queue.Engine.
type Engine interface{ queue.Outflow }

// Run drains every queue of the engine into h until ctx ends. Then it stops reserving,
// gives back at once what has not started, lets handlers go on for Options.Grace,
// cancels those that still run, settles what is left, and returns: nil after a clean end,
// an error when handlers or settlements had to be left behind, or when the engine
// was closed under it. Nothing of it is left running, but handlers that would not end, and
// calls to an engine that does not heed its context.
func Run(ctx context.Context, engine Engine, h Handler, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if engine == nil || h == nil {
		return errors.New("drain: Run needs an engine and a handler")
	}
	return newDrainer(engine, h, o).run(ctx)
}

// drainer is one Run.
type drainer struct {
	engine   Engine
	handler  Handler
	options  Options
	log      *slog.Logger
	observer Observer
	client   queue.Client
	tokens   *tokens
	pool     *pool
	specs    *speccache.Cache[*queue.Spec]
	paces    paces
	clock    *clock
	parts    []*partition

	stop  context.Context // ends when the drainer is to stop
	fail  context.CancelCauseFunc
	work  context.Context // of handlers and requests for jobs: ends with the grace period
	calls context.Context // of calls about jobs at hand: ends last

	loops     sync.WaitGroup // whatever makes attempts
	jobs      sync.WaitGroup // attempts
	workers   *workers       // carry them through
	appetite  *appetite
	turnstile turnstile

	mu         sync.Mutex
	complained map[string]*complaint // by message
}

// complaint is when a message was last logged, and how often its failure has happened since.
type complaint struct {
	logged time.Time
	since  int
}

func newDrainer(engine Engine, h Handler, o Options) *drainer {
	d := &drainer{
		engine: engine, handler: h, options: o, log: o.Logger, observer: o.Observer,
		// A fresh id each time: requests are numbered from 1, and numbers must grow.
		client:     queue.Client{ID: queue.NewID(), Name: o.Name, Version: o.Version},
		tokens:     newTokens(MaxHandlers(o.Concurrency), o.Observer.Free),
		pool:       newPool(o.Concurrency, o.AppOf),
		specs:      speccache.Specs(engine, specTimeout, maxSpecs),
		paces:      paces{queues: make(map[string]*pace)},
		workers:    newWorkers((*attempt).do),
		turnstile:  newTurnstile(),
		appetite:   newAppetite(),
		complained: make(map[string]*complaint),
	}
	for i := range engine.Partitions() {
		d.parts = append(d.parts, &partition{
			d: d, index: i, bell: make(chan struct{}, 1), settler: newSettler(d),
			uses: make(map[string]*use), short: make(map[string]struct{}),
		})
		d.parts[i].leases = newLeases(d, d.parts[i])
	}
	return d
}

func (d *drainer) run(ctx context.Context) error {
	var closed error
	d.stop, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	// Handlers and calls outlive ctx; that is what a grace period is.
	lasting := context.WithoutCancel(ctx)
	work, endWork := context.WithCancelCause(lasting)
	calls, endCalls := context.WithCancelCause(lasting)
	d.work, d.calls = work, calls
	defer endWork(nil)
	defer endCalls(nil)
	if !d.options.PlainTimers {
		if d.clock = newClock(); d.clock != nil {
			go d.clock.run()
			defer d.clock.close()
		}
	}

	d.log.Info("draining", "client", d.client.ID, "concurrency", d.options.Concurrency, "partitions", len(d.parts))
	d.observer.Free(MaxHandlers(d.options.Concurrency))
	d.options.Usage.of(d)
	defer d.options.Usage.of(nil)
	keeping, endKeeping := context.WithCancel(lasting)
	var leases, settlers sync.WaitGroup
	for _, p := range d.parts {
		leases.Go(func() { p.leases.run(keeping) })
		settlers.Go(p.settler.run)
		d.loops.Go(p.run)
	}
	d.loops.Go(d.listen)

	<-d.stop.Done()
	if ctx.Err() == nil {
		closed = fmt.Errorf("drain: %w", context.Cause(d.stop))
	}
	d.log.Info("stopping", "grace", d.options.Grace)
	quiet, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		d.giveBack()
		d.loops.Wait()
		d.giveBack() // what an answer under way brought
		d.specs.Close()
		close(quiet)
		d.jobs.Wait()
		d.workers.running.Wait()
	}()
	err := d.await(quiet, idle, endWork)
	endKeeping()
	leases.Wait()

	settled := make(chan struct{})
	go func() {
		defer close(settled)
		for _, p := range d.parts {
			p.settler.close()
		}
		settlers.Wait()
	}()
	if !within(settled, patience) {
		err = errors.Join(err,
			errors.New("drain: the engine did not take the last settlements in time; these jobs may be delivered "+
				"again"))
		endCalls(ErrStopping)
		<-settled
	}
	d.log.Info("stopped", "client", d.client.ID)
	return errors.Join(closed, err)
}

// await waits until everything is idle, at most for the grace period and the patience. Quiet is
// when nothing asks for jobs or their specs any more.
func (d *drainer) await(quiet, idle <-chan struct{}, endWork context.CancelCauseFunc) error {
	if within(idle, d.options.Grace) {
		return nil
	}
	handlers, _ := d.left()
	d.log.Warn("grace period over; cancelling what still runs", "handlers", handlers)
	endWork(ErrStopping)
	if within(idle, patience) {
		return nil
	}
	handlers, jobs := d.left()
	var err error
	if handlers > 0 {
		err = fmt.Errorf("drain: %d of the handlers did not end within %v of being cancelled; "+
			"jobs of theirs that may be delivered again when the leases have run out: %d", handlers, patience, jobs)
	}
	select {
	case <-quiet:
		if err == nil {
			<-idle // the last handler returned at this moment
		}
	default:
		err = errors.Join(err,
			fmt.Errorf("drain: the engine did not return from a call within %v of its being cancelled", patience))
	}
	return err
}

// left counts the handlers that have not ended, and their jobs that are neither given back nor lost.
func (d *drainer) left() (handlers, jobs int) {
	for _, p := range d.parts {
		for _, a := range p.leases.all() {
			a.mu.Lock()
			if a.handling {
				handlers++
				if !a.over {
					jobs++
				}
			}
			a.mu.Unlock()
		}
	}
	return handlers, jobs
}

// giveBack releases all jobs that have not started.
func (d *drainer) giveBack() {
	for _, p := range d.parts {
		for _, a := range p.leases.all() {
			a.giveBack(Stopping)
		}
	}
}

// listen hands wake-ups to their partitions.
func (d *drainer) listen() {
	for w := range d.engine.Wake(d.stop) {
		if w.Queue == "" && w.Partition >= 0 && w.Partition < len(d.parts) {
			d.parts[w.Partition].woken(w.Client)
		}
	}
}

// complain logs a failure that is being dealt with. Each message is logged at most once per complaintPause. The next
// line then says how often the failure happened since the last one, itself included.
func (d *drainer) complain(message string, err error, args ...any) {
	now := time.Now()
	d.mu.Lock()
	c, known := d.complained[message]
	if !known {
		c = new(complaint)
		d.complained[message] = c
	}
	c.since++
	times, quiet := c.since, known && now.Sub(c.logged) < complaintPause
	if !quiet {
		*c = complaint{logged: now}
	}
	d.mu.Unlock()
	if quiet {
		return
	}
	if times > 1 {
		args = append(args, "times", times)
	}
	if err != nil {
		args = append(args, "error", err)
	}
	d.log.Warn(message, args...) //nolint:sloglint // the callers give constants
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
