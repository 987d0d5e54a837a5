package drain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/grant"
)

const (
	// specPause keeps a job whose spec cannot be read from going round and round.
	specPause = 100 * time.Millisecond

	// settleMargin is how long before its deadline a try is taken to come too late: what counts is when the
	// engine has the settlement of the one before.
	settleMargin = time.Second
)

var errExited = errors.New("the handler ended its goroutine instead of returning")

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

// run is one granted job on its way through a handler. It is the job's Gate.
type run struct {
	job  Job
	part *partition
	pace *pace

	ctx    context.Context
	cancel context.CancelCauseFunc

	grant.Window           // LeaseEnd is guarded by mu
	latest       time.Time // Window.Latest
	slack        time.Duration
	interval     time.Duration // cost x T
	told         time.Time     // until when page.start told it to wait

	mu       sync.Mutex
	handling bool      // the handler has it
	passed   time.Time // when the gate let it start; zero if it has not
	departed bool      // and the observer was told
	refused  Reason    // why the gate did not
	over     bool      // settled, given back or lost: the handler's answer no longer counts
	doubtful bool      // the lease could not be extended in time
	extendAt time.Time
}

// do carries the job through. It owns one token.
func (r *run) do() {
	d := r.part.d
	defer d.jobs.Done()
	defer func() { d.pool.end(r.part, r.job.Queue, !r.passed.IsZero()) }()
	defer d.tokens.put(1)
	defer r.part.settler.room()
	defer r.pace.done()
	defer r.part.keeper.remove(r)
	defer r.cancel(nil)

	spec, err := d.specs.AtLeast(r.ctx, r.job.Queue, r.job.Revision)
	if err != nil {
		r.withoutSpec(err)
		return
	}
	r.job.Spec = *spec
	if deadline := spec.Retry.Deadline.D(); deadline > 0 {
		asked := r.Departs.Add(-r.job.In) // the reply was not before, so the job is as old as it said, or older
		r.job.Deadline = asked.Add(deadline - r.job.Age)
	}
	r.slack = grant.Slack(spec)
	r.interval = spec.Fastest().Interval() * time.Duration(r.job.Cost)
	r.mu.Lock()
	r.latest = r.Latest(r.slack)
	late := time.Now().After(r.latest)
	r.handling = !late
	r.mu.Unlock()
	if late { // a slow answer, or one that was given before
		d.complain("a job was given back unused: it could begin only when its slack was over; give this process more CPU, bring it nearer "+
			"to the store, or raise the queue's slack", nil,
			"queue", r.job.Queue, "late_by", time.Since(r.Departs), "slack", r.slack, "round_trip", r.Earliest.Sub(r.Departs))
		r.giveBack(Late)
		return
	}

	err = errExited
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p}
			d.log.Error("handler panicked", "queue", r.job.Queue, "id", r.job.ID, "panic", p, "stack", string(debug.Stack()))
		}
		r.finish(err)
	}()
	err = d.handler.Handle(r.ctx, &r.job, r)
}

func (r *run) withoutSpec(err error) {
	d := r.part.d
	if r.ctx.Err() == nil {
		d.log.Warn("job given back: its queue's spec cannot be read", "queue", r.job.Queue, "error", err)
		pause := time.NewTimer(specPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-r.ctx.Done():
		case <-d.stop.Done():
		}
	}
	r.giveBack(NoSpec)
}

// Closes is the last instant at which Wait returns nil.
func (r *run) Closes() time.Time { return r.latest }

// Wait is the gate.
func (r *run) Wait(ctx context.Context) error {
	for {
		wait, err := r.try(time.Now())
		if err == nil && wait > 0 {
			err = r.sleep(ctx, wait)
		}
		if err != nil {
			r.pace.leave(r)
			return err
		}
		if wait <= 0 {
			return nil
		}
	}
}

// try starts the job, refuses it, or returns how long to wait before trying again.
func (r *run) try(now time.Time) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := !r.passed.IsZero()
	switch {
	case r.over || r.refused != 0:
		return 0, ErrLate
	case now.After(r.latest):
		r.refused = Late
		return 0, ErrLate
	case again:
		return 0, nil
	case r.part.d.stop.Err() != nil:
		r.refused = Stopping
		return 0, fmt.Errorf("%w: %w", ErrLate, ErrStopping)
	}
	if wait := r.Earliest.Sub(now); wait > 0 {
		return wait, nil
	}
	if !r.job.Spec.Rate.Unlimited() {
		if wait := r.pace.start(r, now); wait > 0 {
			if now.Add(wait).After(r.latest) {
				r.refused = Late
				return 0, ErrLate
			}
			return wait, nil
		}
	}
	r.passed = now
	return 0, nil
}

// depart tells the observer that the job has departed, once. The gate does not: a handler that
// is kept from running behind it may find that it is too late after all. r.mu is held.
func (r *run) depart() {
	if r.passed.IsZero() || r.departed {
		return
	}
	r.departed = true
	r.part.d.observer.Departed(&r.job, r.passed.Sub(r.Departs))
}

func (r *run) sleep(ctx context.Context, wait time.Duration) error {
	d := r.part.d
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.clock.after(wait):
	case <-timer.C:
	case <-d.stop.Done():
	case <-r.ctx.Done():
	case <-ctx.Done():
		if r.ctx.Err() == nil {
			return context.Cause(ctx)
		}
	}
	if err := r.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLate, context.Cause(r.ctx))
	}
	return nil
}

// giveBack releases the job without asking its handler, unless it has started.
func (r *run) giveBack(why Reason) {
	r.mu.Lock()
	if r.over || !r.passed.IsZero() {
		r.mu.Unlock()
		return
	}
	r.over = true
	r.refused = why
	r.mu.Unlock()
	r.cancel(ErrStopping)
	r.release(why)
}

// lose tells the handler to stop because the lease is lost, or, when in doubt, may be.
func (r *run) lose(doubtful bool) {
	r.mu.Lock()
	if r.over || r.doubtful {
		r.over = r.over || !doubtful
		r.mu.Unlock()
		return
	}
	r.over, r.doubtful = !doubtful, doubtful
	r.mu.Unlock()
	r.part.d.observer.LeaseLost(r.job.Queue)
	r.cancel(ErrLeaseLost)
}

// finish settles what the handler returned.
func (r *run) finish(err error) {
	r.mu.Lock()
	over, refused, doubtful, passed := r.over, r.refused, r.doubtful, r.passed
	r.over, r.handling = true, false
	// A handler that says so once the window is over has begun nothing behind the gate.
	late := errors.Is(err, ErrLate) && !IsPermanent(err) && !time.Now().Before(r.latest)
	if !late {
		r.depart()
	}
	r.mu.Unlock()
	if over {
		return
	}
	var fault *panicked
	panicked := errors.As(err, &fault)
	said, verdict, why := Said{Verdict: queue.Fail}, queue.Fail, refused
	switch {
	case !panicked && !errors.Is(err, errExited):
		said = What(err)
	case !passed.IsZero() && r.job.Spec.Lends(): // a handler that broke off behind the gate may have sent it
		said.Verdict = queue.Hold
	}
	switch {
	case said.Verdict == queue.Deliver: // also when the lease is in doubt
		verdict = queue.Deliver
	case said.Verdict == queue.Hold: // also when the lease is in doubt, or it was interrupted: it must not go out again unseen
		verdict = r.job.Spec.Fate()
	case doubtful:
		return
	case panicked:
	case said.Verdict == queue.Bury:
		verdict = queue.Bury
	case said.Verdict == queue.Release, errors.Is(err, ErrLate):
		verdict = queue.Release
		if why == 0 {
			why = Handlers
			switch {
			case late:
				why = Late
			case r.part.d.work.Err() != nil:
				why = Interrupted
			}
		}
	case passed.IsZero() && refused != 0:
		verdict = queue.Release
	case r.part.d.work.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping)):
		verdict, why = queue.Release, Interrupted
		if !passed.IsZero() && r.job.Spec.Lends() && said.Verdict == queue.Fail && said.Until.IsZero() { // as when its lease runs out: who broke off behind the gate, and says no more, may have sent it
			said.Trouble = false // it was the drainer's end
			verdict, err = r.job.Spec.Fate(), fmt.Errorf("broken off by the drainer's end; it may have been sent: %w", err)
		}
	default:
		verdict = said.Verdict
	}
	if verdict == queue.Release {
		r.release(why)
		return
	}
	s := queue.Settlement{Lease: r.lease(), Verdict: verdict, LaneOnly: said.LaneOnly, Trouble: said.Trouble}
	if err != nil {
		s.Reason = reason(err)
	}
	switch verdict {
	case queue.Down:
		s.Unused = passed.IsZero()
	case queue.Fail:
		s.After = r.job.Spec.Retry.Backoff(r.job.Attempt)
		if !said.Until.IsZero() {
			s.After = min(max(0, time.Until(said.Until)), queue.MaxBackoffLimit)
		}
	case queue.Deliver:
		if !said.Until.IsZero() {
			s.After = min(max(0, time.Until(said.Until)), queue.MaxStop)
		}
	case queue.Throttle:
		s.After = min(max(0, time.Until(said.Until)), queue.MaxStop)
		switch alone := said.LaneOnly && r.job.Lane != ""; {
		case s.After >= queue.MinSpare:
		case !alone:
			s.Untold = true
		case said.Until.IsZero(): // of a lane no more is kept than until when it stops
			s.After = queue.MinSpare
		}
	}
	var took time.Duration
	if !passed.IsZero() {
		took = time.Since(passed)
	}
	r.part.d.observer.Returned(&r.job, verdict, took)
	r.settle(s)
}

func (r *run) release(why Reason) {
	r.part.d.observer.Released(r.job.Queue, why)
	r.settle(queue.Settlement{Lease: r.lease(), Verdict: queue.Release})
}

func (r *run) settle(s queue.Settlement) {
	r.mu.Lock()
	until := r.LeaseEnd.Add(settleAfterLease)
	r.mu.Unlock()
	r.part.settler.add(entry{s, until})
}

func (r *run) lease() queue.Lease { return grant.LeaseOf(&r.job.Reservation) }

// User, password and query of a URL, which the errors of net/http and others
// quote. A reason is kept and shown to people.
var (
	userOfURL  = regexp.MustCompile(`(?i)\b(https?://)[^\s/@"'<>]+@`)
	queryOfURL = regexp.MustCompile(`(?i)\b(https?://[^\s?"'<>]*\?)[^\s"'<>]+`)
)

// reason makes a settlement's reason of an error.
func reason(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if strings.Contains(text, "://") {
		text = queryOfURL.ReplaceAllString(userOfURL.ReplaceAllString(text, "${1}***@"), "${1}***")
	}
	if len(text) > queue.MaxReasonBytes {
		text = strings.ToValidUTF8(text[:queue.MaxReasonBytes], "")
	}
	return text
}
