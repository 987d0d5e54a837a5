package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// DefaultDelta is the tolerance for the varying delay between a drainer and a receiver on loopback.
const DefaultDelta = 5 * time.Millisecond

// Lease is the lease of the queue that a run makes. It is short, so that the jobs of a killed drainer return during the
// run.
const Lease = 2 * time.Second

// Options of a run.
type Options struct {
	Store Store
	// Drainer returns the command that starts drainer i.
	Drainer  func(i int) Command
	Drainers int
	Rate     leaky.Rate
	// Queues is the number of independent queues, each with the rate; 0 means one.
	Queues int
	// Children is the number of queues that share the rate under a parent; 0 means one queue alone. Lanes is the number
	// of lanes in each queue, Quota a limit beside the rate; 0 means none.
	Children, Lanes int
	Quota           queue.Quota
	// Ramp makes a quota a minute grow: its maxima in the first minutes in which jobs leave. Hours closes the queue in
	// every second minute.
	Ramp  []int64
	Hours bool
	// Limit is a limit in a unit beside the rate, whose costs are corrected after each delivery. The zero Limit means
	// none.
	Limit Limit
	// Startup is the maximum time until the store has heard from every drainer; then load and faults begin. 0 means 30
	// s.
	Startup  time.Duration
	Duration time.Duration
	Faults   Faults
	// Every is the time between faults. 0 means 3 s.
	Every time.Duration
	Slack time.Duration // of the queue; 0 means its default
	Delta time.Duration // 0 means DefaultDelta
	// Grace is the maximum time for the last jobs after Duration. 0 means the time that the backlog, the lease and a
	// fault may need, plus 30 s.
	Grace time.Duration
	// Reference returns the command of the process that posts to a URL by sleeping in a loop (see Post). It runs before
	// the run, at the same rate and for the same duration. Nil leaves it out.
	Reference func(url string) Command
	// Receiver configures the receiver's answers; the zero Options accept everything.
	Receiver receiver.Options
	// Log gets the output of the drainers; nil discards it.
	Log io.Writer
	// Progress is called now and then with the number of arrived jobs.
	Progress func(elapsed time.Duration, accepted, arrived int, marks []Mark)

	limit *limitSpec // planned by Validate; nil without a Limit
}

// Validate sets defaults and checks the options. Its errors begin with the name of the option.
func (o *Options) Validate() error {
	o.Startup = cmp.Or(o.Startup, patience)
	o.Every = cmp.Or(o.Every, 3*time.Second)
	o.Slack = cmp.Or(o.Slack, (&queue.Spec{Rate: o.Rate}).EffectiveSlack())
	o.Delta = cmp.Or(o.Delta, DefaultDelta)
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Grace == 0 {
		o.Grace = 2*backlog + 2*Lease + 30*time.Second
		if t := 4 * o.Rate.Interval(); t > 0 {
			o.Grace += t
		}
		if o.Quota.Max > 0 || o.Ramp != nil {
			o.Grace += time.Minute
		}
		if o.Hours {
			o.Grace += 2 * time.Minute // a quota may be used up when the queue opens next
		}
	}
	if err := o.validateWindows(); err != nil {
		return err
	}
	switch {
	case o.Rate.Unlimited():
		return errors.New("rate: unlimited has no window law; give a rate")
	case o.Queues < 0 || o.Queues > 5000:
		return fmt.Errorf("queues: %d must be from 0 to 5000", o.Queues)
	case o.Queues > 1 && (o.Children > 0 || o.Quota.Max > 0 || o.Ramp != nil || o.Hours || o.Reference != nil):
		return errors.New("queues: several independent queues have no children, quota, ramp, hours or reference; leave " +
			"those out")
	case o.Rate.PerSecond()*float64(max(1, o.Queues)) > 5000:
		return errors.New("rate: above 5000/s in all, one receiver in this process would measure itself")
	case o.Drainers < 1 || o.Drainers > 64:
		return fmt.Errorf("drainers: %d must be from 1 to 64", o.Drainers)
	case o.Duration < time.Second:
		return fmt.Errorf("duration: %v must be at least 1s", o.Duration)
	case o.Children < 0 || o.Children > 64:
		return fmt.Errorf("children: %d must be from 0 to 64", o.Children)
	case o.Lanes < 0 || o.Lanes > 64:
		return fmt.Errorf("lanes: %d must be from 0 to 64", o.Lanes)
	case o.Faults != NoFaults && o.Duration <= o.Every:
		return fmt.Errorf("duration: %v must be longer than the time between faults, %v", o.Duration, o.Every)
	}
	switch o.Faults {
	case NoFaults, Kill, Pause, Restart:
	default:
		return fmt.Errorf("faults: %q must be none, kill, pause or restart", o.Faults)
	}
	var err error
	if o.limit, err = o.plan(); err != nil {
		return err
	}
	s, err := newLayout(o, "prove", "")
	if err != nil {
		return err
	}
	if t := s.slowest(); 4*t > o.Duration {
		return fmt.Errorf(
			"rate: with so many queues and lanes only one job leaves every %v, too few for a run of %v; raise the "+
				"rate or the duration",
			t, o.Duration,
		)
	}
	return nil
}

// Run makes a queue, disturbs its drainers for the duration, waits for the last
// jobs, removes the queue and judges. An error means that there is no verdict.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	floor, err := reference(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Receiver.Header = o.limit.header
	rec, stop, err := receive(ctx, o.Receiver)
	if err != nil {
		return nil, err
	}
	defer stop()

	name := "prove-" + queue.NewID()
	fl := &fleet{what: "drainer", command: o.Drainer, log: o.Log}
	defer fl.close(patience)
	for i := range o.Drainers {
		if err := fl.start(i); err != nil {
			return nil, err
		}
	}
	s, err := newLayout(&o, name, rec.URL())
	if err != nil {
		return nil, err
	}
	defer remove(ctx, o, s)
	if err := makeQueues(ctx, o, s); err != nil {
		return nil, err
	}
	if err := awaitDrainers(ctx, o, fl); err != nil {
		return nil, err
	}

	r := &Report{
		Queue: name, Rate: o.Rate.String(), Queues: max(1, o.Queues), Children: o.Children, Lanes: o.Lanes,
		Drainers: o.Drainers, Faults: o.Faults,
		Duration: o.Duration, Reference: floor, perSecond: o.Rate.PerSecond() * float64(max(1, o.Queues)),
	}
	r.started = rec.Now()
	f := newFeeder(s.feeds, rec)
	sab := &faultInjector{fleet: fl, now: rec.Now, faults: o.Faults, processes: o.Drainers, every: o.Every, lease: Lease}
	if err := disturb(
		ctx, o.Duration, sab, f.run, func(elapsed time.Duration) { o.progress(elapsed, f, sab, rec) },
	); err != nil {
		return nil, err
	}
	r.ended = rec.Now()
	if err := finish(ctx, o, s, f, fl); err != nil {
		return nil, err
	}
	stats, err := look(context.WithoutCancel(ctx), o, s)
	if err != nil {
		return nil, fmt.Errorf("get the queue: %w", err)
	}
	r.LostByStore, r.Released, r.Expired = stats.Lost, stats.Released, stats.Expired
	r.marks = sab.injected()
	r.Injected = len(r.marks)
	r.stalls = rec.Stalls()
	for _, stall := range r.stalls {
		r.WorstStall = max(r.WorstStall, stall.For)
	}
	zero := time.Now().Add(-rec.Now())
	return r, r.judge(o, s, f.accepted, rec.Arrivals(0), zero)
}

// law returns the window law of all arrivals. Independent queues may all start a job at the same instant.
func (o *Options) law() (law.Law, error) {
	n := int64(max(1, o.Queues))
	count, per := o.Rate.Fraction()
	all, err := leaky.NewRate(n*count, time.Duration(per)*time.Microsecond)
	if err != nil {
		return law.Law{}, fmt.Errorf("the rate of all queues: %w", err)
	}
	return law.Law{Rate: all, Burst: n, Slack: o.Slack, Delta: o.Delta}, nil
}

// receive starts a receiver; stop ends it and waits for it.
func receive(ctx context.Context, o receiver.Options) (rec *receiver.Receiver, stop func(), err error) {
	rec, err = receiver.Listen(o)
	if err != nil {
		return nil, nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { _ = rec.Serve(serving) }) // if it fails, jobs are lost, and the report shows that
	return rec, func() { cancel(); wg.Wait() }, nil
}

// judge fills in the verdict. zero is the wall clock's time at the start of the arrivals' clock.
func (r *Report) judge(o Options, s *layout, b *acceptedJobs, arrivals []receiver.Arrival, zero time.Time) error {
	l, err := o.law()
	if err != nil {
		return err
	}
	r.arrivals = instants(arrivals)
	for _, a := range arrivals {
		if !a.Kernel {
			r.unstamped = append(r.unstamped, a.At)
		}
	}
	r.Arrived, r.ByKernel = len(arrivals), len(arrivals)-len(r.unstamped)
	r.Account = Settle(b.accepted(), arrivals)
	r.Law = Judge(l, r.arrivals)
	// The law applies to all arrivals. The pace covers only a full queue: after the feed has ended, gaps mean nothing.
	var backlogged []time.Duration
	for _, at := range r.arrivals {
		if at <= r.ended {
			backlogged = append(backlogged, at)
		}
	}
	r.Pace = measure(l, backlogged)
	r.judgeLevels(&o, s.levels, b, arrivals)
	r.judgeLimit(&o, arrivals)
	if err := r.judgeQuota(&o, zero); err != nil {
		return err
	}
	r.judgeHours(&o, s.open, zero)
	// Only a drainer that is killed or stopped in the middle of a job may deliver it again.
	r.conclude(o.Faults == Kill || o.Faults == Pause)
	return nil
}

// remove removes the queues, children before their parent, even if the run was interrupted.
func remove(ctx context.Context, o Options, s *layout) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, spec := range slices.Backward(s.specs) {
		if err := o.Store.Remove(ctx, spec.Name); err != nil {
			_, _ = fmt.Fprintf(o.Log, "the queue %s could not be removed, remove it by hand: %v\n", spec.Name, err)
		}
	}
}

// look adds up the statistics of all queues.
func look(ctx context.Context, o Options, s *layout) (sum Stats, err error) {
	for _, spec := range s.specs {
		t, err := o.Store.Look(ctx, spec.Name)
		if err != nil {
			return Stats{}, err
		}
		sum.Held += t.Held
		sum.Lost += t.Lost
		sum.Released += t.Released
		sum.Expired += t.Expired
	}
	return sum, nil
}

// disturb keeps the load up and injects faults for the duration.
func disturb(
	ctx context.Context, duration time.Duration, s *faultInjector, load func(context.Context) error,
	progress func(elapsed time.Duration),
) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, 3)
	begin := func(task func(context.Context) error) {
		wg.Go(func() {
			if err := task(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	begin(load)
	begin(s.run)
	start := time.Now()
	for pause(ctx, 250*time.Millisecond) == nil {
		progress(time.Since(start))
		if s.faults == NoFaults {
			if err := s.fleet.allUp(); err != nil {
				failed <- err
				cancel()
			}
		}
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err // interrupted from outside
	}
	return nil
}

func (o *Options) progress(elapsed time.Duration, f *feeder, s *faultInjector, rec *receiver.Receiver) {
	if o.Progress != nil {
		o.Progress(elapsed, f.accepted.count(), rec.Count(), s.injected())
	}
}

// finish waits until all accepted jobs have arrived and are settled, or the grace is over; the missing jobs are lost.
func finish(ctx context.Context, o Options, s *layout, f *feeder, fl *fleet) error {
	waiting, cancel := context.WithTimeout(ctx, o.Grace)
	defer cancel()
	if err := f.settle(waiting); err != nil {
		return err
	}
	for {
		if err := fl.allUp(); err != nil {
			return err
		}
		stats, err := look(waiting, o, s)
		if err == nil && stats.Held == 0 {
			return nil
		}
		if err != nil && transient(err) != nil && waiting.Err() == nil {
			return fmt.Errorf("get the queue: %w", err)
		}
		if pause(waiting, 50*time.Millisecond) != nil {
			return ctx.Err() // nil if the grace ended; then the account has the result
		}
	}
}
