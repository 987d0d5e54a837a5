package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// patience is how long a stopping drainer waits for canceled handlers, and then for its last settlements.
	patience       = 5 * time.Second
	complaintPause = 10 * time.Second

	specTimeout = 2 * time.Second
	// maxSpecs is larger than the number of queues whose jobs a drainer has at a time.
	maxSpecs = 100_000
)

// Run drains every queue of the engine into h until ctx ends. Then it stops reserving. Jobs that were granted already
// still start at their departures, within about queue.Horizon, so that no slot is lost. Handlers go on for
// Options.Grace. After that Run cancels them, settles what is left, and returns. The error is nil after a clean end.
// It is not nil if handlers or settlements were left behind, or the engine was closed. Nothing is left running except
// handlers that do not end, and engine calls that ignore their context.
func Run(ctx context.Context, engine queue.Outflow, h Handler, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if engine == nil || h == nil {
		return errors.New("drain: Run needs an engine and a handler")
	}
	return newDrainer(engine, h, o).run(ctx)
}

// drainer is the state of one Run.
type drainer struct {
	engine   queue.Outflow
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

	stop   context.Context // ends when the drainer should stop
	starts context.Context // jobs may start until it ends: with work, or when the engine is closed
	fail   context.CancelCauseFunc
	work   context.Context // for handlers and requests for jobs: ends with the grace period
	calls  context.Context // for calls about jobs at hand: ends last
	gone   chan struct{}   // 1: while stopping, a job has started, or never will

	loops     sync.WaitGroup // goroutines that start deliveries
	jobs      sync.WaitGroup // deliveries
	workers   *workers       // run the deliveries
	appetite  *appetite
	turnstile turnstile

	mu         sync.Mutex
	complained map[string]*complaint // by message
}

// complaint records when a message was last logged, and how often its failure has occurred since.
type complaint struct {
	logged time.Time
	since  int
}

func newDrainer(engine queue.Outflow, h Handler, o Options) *drainer {
	d := &drainer{
		engine: engine, handler: h, options: o, log: o.Logger, observer: o.Observer,
		// A new ID for each run: requests are numbered from 1, and a client's numbers must grow.
		client:     queue.Client{ID: queue.NewID(), Name: o.Name, Version: o.Version},
		tokens:     newTokens(MaxHandlers(o.Concurrency), o.Observer.Free),
		pool:       newPool(o.Concurrency, o.AppOf),
		specs:      speccache.Specs(engine, specTimeout, maxSpecs),
		paces:      paces{queues: make(map[string]*pace)},
		workers:    newWorkers((*delivery).run),
		turnstile:  newTurnstile(),
		appetite:   newAppetite(),
		complained: make(map[string]*complaint), gone: make(chan struct{}, 1),
	}
	for i := range engine.Partitions() {
		d.parts = append(d.parts, &partition{
			d: d, index: i, wants: queue.MaxReserve, bell: make(chan struct{}, 1), settler: newSettler(d),
			uses: make(map[string]*use), short: make(map[string]struct{}), losses: make(map[string]*losses),
		})
		d.parts[i].leases = newLeases(d, d.parts[i])
	}
	return d
}

func (d *drainer) run(ctx context.Context) error {
	// Handlers and calls outlive ctx, for the grace period.
	lasting := context.WithoutCancel(ctx)
	work, endWork := context.WithCancelCause(lasting)
	calls, endCalls := context.WithCancelCause(lasting)
	d.work, d.calls = work, calls
	d.starts, d.fail = context.WithCancelCause(work)
	stop, endStop := context.WithCancel(ctx)
	d.stop = stop
	context.AfterFunc(d.starts, endStop)
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
	d.options.Usage.attach(d)
	defer d.options.Usage.attach(nil)
	wakeups := d.engine.Wake(d.stop) // before the first request, or jobs that come after it would wake nobody
	keeping, endKeeping := context.WithCancel(lasting)
	var leases, settlers sync.WaitGroup
	for _, p := range d.parts {
		leases.Go(func() { p.leases.run(keeping) })
		settlers.Go(p.settler.run)
		d.loops.Go(p.run)
	}
	d.loops.Go(func() { d.listen(wakeups) })

	<-d.stop.Done()
	var closed error
	if ctx.Err() == nil {
		closed = fmt.Errorf("drain: %w", context.Cause(d.starts))
	}
	d.log.Info("stopping", "grace", d.options.Grace)
	err := d.finish(endWork)
	endKeeping()
	leases.Wait()
	err = errors.Join(err, d.settleLast(&settlers, endCalls))
	d.log.Info("stopped", "client", d.client.ID)
	return errors.Join(closed, err)
}

// finish waits until all jobs have left and their handlers have ended.
func (d *drainer) finish(endWork context.CancelCauseFunc) error {
	quiet, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		d.departLast()
		d.loops.Wait()
		d.departLast() // jobs of a request that was under way
		d.specs.Close()
		close(quiet)
		d.jobs.Wait()
		d.workers.running.Wait()
	}()
	return d.await(quiet, idle, endWork)
}

// settleLast waits until the settlers have ended, at most for the patience.
func (d *drainer) settleLast(settlers *sync.WaitGroup, endCalls context.CancelCauseFunc) error {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		for _, p := range d.parts {
			p.settler.close()
		}
		settlers.Wait()
	}()
	if within(settled, patience) {
		return nil
	}
	endCalls(ErrStopping)
	<-settled
	return errors.New("drain: the engine did not take the last settlements in time; these jobs may be delivered again")
}

// await waits until everything is idle, at most for the grace period and the patience. quiet closes when nothing
// requests jobs or specs any more.
func (d *drainer) await(quiet, idle <-chan struct{}, endWork context.CancelCauseFunc) error {
	if within(idle, d.options.Grace) {
		return nil
	}
	handlers, _ := d.left()
	d.log.Warn("grace period over; cancelling handlers", "handlers", handlers)
	endWork(ErrStopping)
	if within(idle, patience) {
		return nil
	}
	handlers, jobs := d.left()
	var err error
	if handlers > 0 {
		err = fmt.Errorf("drain: handlers that did not end within %v of being cancelled: %d; their jobs that may be "+
			"delivered again when the leases have run out: %d", patience, handlers, jobs)
	}
	select {
	case <-quiet:
		if err == nil {
			<-idle // the last handler has just returned
		}
	default:
		err = errors.Join(err,
			fmt.Errorf("drain: a call to the engine did not return within %v of being cancelled", patience))
	}
	return err
}

// left returns the number of handlers that still run, and of their jobs that are neither given back nor lost.
func (d *drainer) left() (handlers, jobs int) {
	for _, p := range d.parts {
		for _, dl := range p.leases.all() {
			dl.mu.Lock()
			if dl.handling {
				handlers++
				if !dl.over {
					jobs++
				}
			}
			dl.mu.Unlock()
		}
	}
	return handlers, jobs
}

// departLast waits until all jobs at hand have started. A job that can no longer start is given back at once: its
// handler may go on preparing for long.
func (d *drainer) departLast() {
	for {
		wait, ended := time.Duration(math.MaxInt64), d.starts.Err() != nil
		waiting, now := false, time.Now()
		for _, p := range d.parts {
			for _, dl := range p.leases.all() {
				switch left, over := dl.untilLate(now); {
				case over:
				case left < 0 || ended:
					dl.giveBack(Stopping)
				default:
					wait, waiting = min(wait, left), true
				}
			}
		}
		if !waiting {
			return
		}
		timer := time.NewTimer(wait + 1) // the last instant of the window is in time
		select {
		case <-d.gone:
		case <-timer.C:
		case <-d.starts.Done():
		}
		timer.Stop()
	}
}

// listen passes wakeups to their partitions.
func (d *drainer) listen(wakeups <-chan queue.Wakeup) {
	for w := range wakeups {
		if w.Queue == "" && w.Partition >= 0 && w.Partition < len(d.parts) {
			d.parts[w.Partition].woken(w.Client)
		}
	}
}

// complain logs a failure that the drainer handles by itself.
func (d *drainer) complain(message string, err error, args ...any) {
	if err != nil {
		args = append(args, "error", err)
	}
	d.seldom(slog.LevelWarn, message, args...)
}

// seldom logs a message at most once per complaintPause. The next line then has the number of times since the last one,
// itself included.
func (d *drainer) seldom(level slog.Level, message string, args ...any) {
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
	d.log.Log(context.Background(), level, message, args...) //nolint:sloglint // callers pass constants
}

// within reports whether ended closes within d.
func within(ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
