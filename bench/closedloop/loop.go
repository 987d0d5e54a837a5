package closedloop

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Loop describes a run.
type Loop struct {
	Spec     queue.Spec
	Receiver Receiver
	Drainers int
	// Trip is the maximum time until a request reaches the receiver, Answer until its answer arrives.
	Trip, Answer time.Duration
	After        time.Duration // Retry-After; 0 omits it
	For          time.Duration
	Seed         uint64
}

// Run is the result of a run.
type Run struct {
	Asked, Refused int
	Requests       []leaky.Instant // arrivals at the receiver
	Rates          []float64       // the queue's rate per second, every tenth of a second
}

// Clock is the engine's clock.
type Clock struct{ now leaky.Instant }

// begin is an instant at which nothing is due yet.
const begin = leaky.Instant(1_790_000_000_000_000)

// NewClock returns a clock that stands still.
func NewClock() *Clock { return &Clock{begin} }

// Now returns the clock's time.
func (c *Clock) Now() leaky.Instant { return c.now }

const backlog = 500 // waiting jobs, at least half of them

// event is a future event.
type event struct {
	at   leaky.Instant
	turn int
	do   func() error
}

type loop struct {
	Loop
	Run
	ctx    context.Context
	e      queue.Engine
	clock  *Clock
	rnd    *rand.Rand
	events []event // the latest first
	turns  int
	jobs   int
	left   int      // waiting jobs, roughly
	number []uint64 // request number of each drainer
	plans  []int    // version of each drainer's next request
}

// Run runs the loop on an empty engine that uses the given clock.
func (l Loop) Run(ctx context.Context, e queue.Engine, clock *Clock) (Run, error) {
	r := &loop{
		Loop: l, ctx: ctx, e: e, clock: clock, rnd: rand.New(rand.NewPCG(l.Seed, 1)), number: make([]uint64, l.Drainers),
		plans: make([]int, l.Drainers),
	}
	if _, err := e.Put(ctx, l.Spec, queue.AnyRevision); err != nil {
		return Run{}, err
	}
	if err := r.fill(); err != nil {
		return Run{}, err
	}
	for d := range l.Drainers {
		r.plan(d, 0)
	}
	r.at(0, r.look)
	for end := clock.now.Add(l.For); len(r.events) > 0; {
		last := len(r.events) - 1
		next := r.events[last]
		if r.events = r.events[:last]; next.at > end {
			break
		}
		clock.now = next.at
		if err := next.do(); err != nil {
			return Run{}, err
		}
	}
	return r.Run, nil
}

func (r *loop) at(in time.Duration, do func() error) int {
	r.turns++
	e := event{r.clock.now.Add(in), r.turns, do}
	i, _ := slices.BinarySearchFunc(r.events, e, func(a, b event) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.turn, a.turn))
	})
	r.events = slices.Insert(r.events, i, e)
	return e.turn
}

// fill keeps jobs waiting.
func (r *loop) fill() error {
	jobs := make([]queue.Job, backlog)
	for i := range jobs {
		r.jobs++
		jobs[i] = queue.Job{Queue: r.Spec.Name, ID: fmt.Sprint("j", r.jobs), Payload: []byte("0")}
	}
	r.left += backlog
	_, err := r.e.Append(r.ctx, jobs)
	return err
}

// plan replaces a drainer's next request by one after a delay.
func (r *loop) plan(drainer int, in time.Duration) {
	var turn int
	turn = r.at(in, func() error {
		if r.plans[drainer] != turn {
			return nil
		}
		return r.ask(drainer)
	})
	r.plans[drainer] = turn
}

func (r *loop) ask(drainer int) error {
	r.number[drainer]++
	res, err := r.e.Reserve(r.ctx, queue.ReserveRequest{
		Client: queue.Client{ID: fmt.Sprint("drainer", drainer)}, Number: r.number[drainer], Max: queue.MaxReserve,
	})
	if err != nil {
		return err
	}
	for _, job := range res.Jobs {
		r.left--
		r.at(max(0, job.In)+r.upTo(r.Trip), func() error { return r.arrive(job) })
	}
	r.plan(drainer, max(res.Next, time.Millisecond))
	if r.left < backlog/2 {
		return r.fill()
	}
	return nil
}

// arrive lets the receiver see a job and answer.
func (r *loop) arrive(job queue.Reservation) error {
	r.Asked++
	r.Requests = append(r.Requests, r.clock.now-begin)
	s := queue.Settlement{Lease: queue.Lease{Queue: job.Queue, ID: job.ID, Fence: job.Fence}, Verdict: queue.Deliver}
	if !r.Receiver.Take(r.clock.now - begin) {
		r.Refused++
		s.Verdict, s.After, s.Reason = queue.Throttle, r.After, "429"
	}
	r.at(r.upTo(r.Answer), func() error {
		if s.Verdict == queue.Throttle {
			r.left++
		}
		out, err := r.e.Settle(r.ctx, []queue.Settlement{s})
		if err == nil && (out[0].Stale || out[0].Err != nil) {
			err = fmt.Errorf("settling %s: %+v", s.ID, out[0])
		}
		if err == nil && out[0].Effect != (queue.Effect{}) {
			r.plan(0, 0) // the drainer that the engine wakes
		}
		return err
	})
	return nil
}

func (r *loop) look() error {
	i, err := r.e.Get(r.ctx, r.Spec.Name)
	r.Rates = append(r.Rates, i.Rate.PerSecond())
	r.at(100*time.Millisecond, r.look)
	return err
}

func (r *loop) upTo(d time.Duration) time.Duration {
	return time.Duration(r.rnd.Int64N(int64(d/time.Microsecond)+1)) * time.Microsecond
}
