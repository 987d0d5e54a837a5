package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
)

// specPause keeps a job whose spec cannot be read from going round and round.
const specPause = 100 * time.Millisecond

var errExited = errors.New("the handler ended its goroutine instead of returning")

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

// attempt is one granted job, from its grant until it is settled. It is the job's Gate.
type attempt struct {
	job   Job
	part  *partition
	pace  *pace
	batch *batch

	ctx    context.Context
	cancel context.CancelCauseFunc

	asked            time.Time // for it
	departure.Window           // LeaseEnd is guarded by mu
	latest           time.Time // Window.Latest
	slack            time.Duration
	interval         time.Duration // cost x T
	toldToWait       time.Time     // until when, by pace.start

	mu       sync.Mutex
	handling bool      // the handler has it
	passed   time.Time // when the gate let it start; zero if it has not
	waited   bool      // in the gate, for its departure
	departed bool      // the observer was told that it has
	refused  Reason    // why the gate did not let it start
	over     bool      // settled, given back or lost: the handler's answer no longer counts
	doubtful bool      // the lease could not be extended in time
	extendAt time.Time
	slowAt   time.Time // when circuit.slow has passed again
}

// do carries the job through. It owns one token.
func (a *attempt) do() {
	d := a.part.d
	defer d.jobs.Done()
	defer func() {
		if a.passed.IsZero() {
			a.batch.over()
		}
		d.pool.end(a.part, a.job.Queue, !a.passed.IsZero())
	}()
	defer d.tokens.put(1)
	defer a.part.settler.room()
	defer a.pace.done()
	defer a.part.leases.remove(a)
	defer a.cancel(nil)

	spec, err := d.specs.AtLeast(a.ctx, a.job.Queue, a.job.Revision)
	if err != nil {
		a.withoutSpec(err)
		return
	}
	a.job.Spec = spec
	if departure.Paced(spec) {
		a.part.clock.Took(time.Since(a.asked))
	}
	if deadline := spec.Retry.Deadline.D(); deadline > 0 {
		asked := a.Departs.Add(-a.job.In) // the reply was not before, so the job is as old as it said, or older
		a.job.Deadline = asked.Add(deadline - a.job.Age)
	}
	a.slack = departure.Slack(spec)
	a.interval = spec.Fastest().Interval() * time.Duration(a.job.Cost)
	a.mu.Lock()
	a.latest = a.Latest(a.slack)
	a.extendWhenSlow(a.Earliest)
	late := time.Now().After(a.latest)
	a.handling = !late
	a.mu.Unlock()
	if late { // a slow answer, or one that was given before
		d.appetite.late(time.Now())
		d.complain("a job was given back unused: it could begin only when its slack was over; give this process "+
			"more CPU, bring it nearer to the store, or raise the queue's slack", nil,
			"queue", a.job.Queue, "late_by", time.Since(a.Departs), "slack", a.slack, "round_trip", a.Earliest.Sub(a.Departs))
		a.giveBack(Late)
		return
	}

	ctx := a.begin()
	err = errExited
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p}
			d.log.Error("handler panicked", "queue", a.job.Queue, "id", a.job.ID, "panic", p,
				"stack", string(debug.Stack()))
		}
		a.finish(err)
		if a.job.Span != nil {
			a.job.Span.Returned(context.Cause(a.ctx))
		}
	}()
	err = d.handler.Handle(ctx, &a.job, a)
}

// begin has the attempt followed, if it is to be, and returns its handler's context.
func (a *attempt) begin() context.Context {
	tracer := a.part.d.options.Tracer
	if tracer == nil {
		return a.ctx
	}
	ctx, span := tracer.Begin(a.ctx, &a.job, a.Departs)
	a.mu.Lock() // whoever gives the job back looks for it
	a.job.Span = span
	a.mu.Unlock()
	return ctx
}

func (a *attempt) withoutSpec(err error) {
	d := a.part.d
	if a.ctx.Err() == nil {
		d.log.Warn("job given back: its queue's spec cannot be read", "queue", a.job.Queue, "error", err)
		pause := time.NewTimer(specPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-a.ctx.Done():
		case <-d.stop.Done():
		}
	}
	a.giveBack(NoSpec)
}

// giveBack releases the job without asking its handler, unless it has started.
func (a *attempt) giveBack(why Reason) {
	a.mu.Lock()
	if a.over || !a.passed.IsZero() {
		a.mu.Unlock()
		return
	}
	a.over = true
	a.refused = why
	a.mu.Unlock()
	a.cancel(ErrStopping)
	a.release(why)
}

// lose tells the handler to stop because the lease is lost, or, when in doubt, may be.
func (a *attempt) lose(doubtful bool) {
	a.mu.Lock()
	if a.over || a.doubtful {
		a.over = a.over || !doubtful
		a.mu.Unlock()
		return
	}
	a.over, a.doubtful = !doubtful, doubtful
	a.mu.Unlock()
	a.part.d.observer.LeaseLost(a.job.Queue)
	a.cancel(ErrLeaseLost)
}

func (a *attempt) release(why Reason) {
	a.part.d.observer.Released(a.job.Queue, why)
	a.settle(queue.Settlement{Lease: a.lease(), Verdict: queue.Release})
}

func (a *attempt) settle(s queue.Settlement) {
	a.mu.Lock()
	until, span := a.LeaseEnd.Add(settleAfterLease), a.job.Span
	a.mu.Unlock()
	if span != nil {
		span.Settling(s.Verdict)
	}
	a.part.settler.add(entry{s, until, span})
}

func (a *attempt) lease() queue.Lease { return departure.LeaseOf(&a.job.Reservation) }
