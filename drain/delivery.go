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

// specPause slows the loop of a job whose spec cannot be read: it is given back and granted again.
const specPause = 100 * time.Millisecond

var errExited = errors.New("the handler ended its goroutine instead of returning")

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

// delivery is one granted job, from its grant until it is settled. It is the job's Gate.
type delivery struct {
	job   Job
	part  *partition
	pace  *pace
	batch *batch

	ctx    context.Context
	cancel context.CancelCauseFunc

	asked            time.Time // when the engine was asked for the job
	departure.Window           // LeaseEnd is guarded by mu
	latest           time.Time // Window.Latest; as if the slack were MostSlack until the spec is known
	slack            time.Duration
	interval         time.Duration // cost x T
	toldToWait       time.Time     // end of the wait that pace.start last returned

	mu       sync.Mutex
	handling bool      // the handler has the job
	passed   time.Time // when the gate let the job start; zero if it has not
	waited   bool      // in the gate, for the departure
	departed bool      // the observer was told of the departure
	refused  Reason    // why the gate did not let the job start
	over     bool      // settled, given back or lost: the handler's answer no longer counts
	doubtful bool      // the lease could not be extended in time
	extendAt time.Time
	slowAt   time.Time // when circuit.slow passes next
}

// run carries the delivery through. It owns one token.
func (dl *delivery) run() {
	d := dl.part.d
	defer d.jobs.Done()
	defer func() {
		if dl.passed.IsZero() {
			dl.leave()
		}
		d.pool.unassign(dl.part, dl.job.Queue, !dl.passed.IsZero())
	}()
	defer d.tokens.release(1)
	defer dl.part.settler.room()
	defer dl.pace.release()
	defer dl.part.leases.remove(dl)
	defer dl.cancel(nil)

	spec, err := d.specs.AtLeast(dl.ctx, dl.job.Queue, dl.job.Revision)
	if err != nil {
		dl.withoutSpec(err)
		return
	}
	if !dl.prepare(spec) {
		d.appetite.late(time.Now())
		d.complain("job given back unused: its slack was over before a handler got it; give this process more CPU, "+
			"move it closer to the store, or raise the queue's slack", nil,
			"queue", dl.job.Queue, "late_by", time.Since(dl.DepartsFrom), "slack", dl.slack,
			"uncertainty", dl.DepartsBy.Sub(dl.DepartsFrom))
		dl.giveBack(Late)
		return
	}

	ctx := dl.trace()
	err = errExited
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p}
			d.log.Error("handler panicked", "queue", dl.job.Queue, "id", dl.job.ID, "panic", p,
				"stack", string(debug.Stack()))
		}
		dl.finish(err)
		if dl.job.Span != nil {
			dl.job.Span.Returned(context.Cause(dl.ctx))
		}
	}()
	err = d.handler.Handle(ctx, &dl.job, dl)
}

// prepare computes what depends on the spec. It returns false if the window is over: the answer was slow, or it
// repeats an earlier one.
func (dl *delivery) prepare(spec *queue.Spec) bool {
	dl.job.Spec = spec
	if departure.Paced(spec) {
		dl.part.clock.Took(time.Since(dl.asked))
	}
	if deadline := spec.Retry.Deadline.D(); deadline > 0 {
		asked := dl.DepartsFrom.Add(-dl.job.In) // the earliest possible time of the answer, so the deadline is never too late
		dl.job.Deadline = asked.Add(deadline - dl.job.Age)
	}
	dl.slack = departure.Slack(spec)
	dl.interval = spec.Fastest().Interval() * time.Duration(dl.job.Cost)
	dl.mu.Lock()
	defer dl.mu.Unlock()
	dl.latest = dl.Latest(dl.slack)
	dl.extendWhenSlow(dl.DepartsBy)
	dl.handling = !time.Now().After(dl.latest)
	return dl.handling
}

// trace starts a span of the delivery, if it is traced, and returns the handler's context.
func (dl *delivery) trace() context.Context {
	tracer := dl.part.d.options.Tracer
	if tracer == nil {
		return dl.ctx
	}
	ctx, span := tracer.Begin(dl.ctx, &dl.job, dl.DepartsFrom)
	dl.mu.Lock() // giving the job back reads the span
	dl.job.Span = span
	dl.mu.Unlock()
	return ctx
}

func (dl *delivery) withoutSpec(err error) {
	d := dl.part.d
	if dl.ctx.Err() == nil {
		d.log.Warn("job given back: its queue's spec cannot be read", "queue", dl.job.Queue, "error", err)
		pause := time.NewTimer(specPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-dl.ctx.Done():
		case <-d.stop.Done():
		}
	}
	dl.giveBack(NoSpec)
}

// giveBack releases the job without asking its handler, unless it has started.
func (dl *delivery) giveBack(why Reason) {
	dl.mu.Lock()
	if dl.over || !dl.passed.IsZero() {
		dl.mu.Unlock()
		return
	}
	dl.over = true
	dl.refused = why
	dl.mu.Unlock()
	dl.cancel(ErrStopping)
	dl.release(why)
}

// lose cancels the handler because the lease is lost or, if doubtful, may be lost.
func (dl *delivery) lose(doubtful bool) {
	dl.mu.Lock()
	if dl.over || dl.doubtful {
		dl.over = dl.over || !doubtful
		dl.mu.Unlock()
		return
	}
	dl.over, dl.doubtful = !doubtful, doubtful
	dl.mu.Unlock()
	dl.part.d.observer.LeaseLost(dl.job.Queue)
	dl.cancel(ErrLeaseLost)
}

func (dl *delivery) release(why Reason) {
	dl.part.d.observer.Released(dl.job.Queue, why)
	dl.settle(queue.Settlement{Lease: dl.lease(), Verdict: queue.Release})
}

func (dl *delivery) settle(s queue.Settlement) {
	dl.mu.Lock()
	until, span := dl.LeaseEnd.Add(settleAfterLease), dl.job.Span
	dl.mu.Unlock()
	if span != nil {
		span.Settling(s.Verdict)
	}
	dl.part.settler.add(pendingSettlement{s, until, span})
}

func (dl *delivery) lease() queue.Lease { return departure.LeaseOf(&dl.job.Reservation) }
