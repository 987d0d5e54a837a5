package pull

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

// Turn is a reserved turn, to be waited for or canceled.
type Turn struct {
	turns *Turns
	kind  kind
	id    string
	at    time.Time
	until time.Time
	since time.Time // when the caller began to wait, or missed the turn that came last
	over  atomic.Bool
}

// ErrTurnOver is returned for a turn that was waited for before, or canceled.
var ErrTurnOver = errors.New("pull: the turn is over")

// ErrStopped is returned for a turn whose dispatcher stopped before it came.
var ErrStopped = errors.New("pull: the dispatcher has stopped")

// At returns when the turn is expected, by this machine's clock. Only Wait knows when it has come.
func (t *Turn) At() time.Time { return t.at }

// Wait waits until the turn has come and returns nil: start now. If it does not come within the time given to Reserve,
// the error is a *Later. Other errors are ctx's and the engine's. After any error the place is given back.
func (t *Turn) Wait(ctx context.Context) error {
	came, err := t.Come(ctx)
	if err == nil {
		came.End(queue.Settlement{}) // the caller need not wait until the engine knows
	}
	return err
}

// Come waits as Wait does, and returns the turn that has come.
func (t *Turn) Come(ctx context.Context) (*Departure, error) {
	if !t.over.CompareAndSwap(false, true) {
		return nil, ErrTurnOver
	}
	came, err := t.turns.await(ctx, t.kind, t.until)
	t.turns.waited(ctx, t.kind, t.since, err)
	if err != nil {
		t.turns.giveUp(ctx, t.kind, t.id, true)
		return nil, err
	}
	came.turn = t
	return came, nil
}

// Cancel gives the place back. Callers behind it move up.
func (t *Turn) Cancel(ctx context.Context) {
	if t.over.CompareAndSwap(false, true) {
		t.turns.waited(ctx, t.kind, t.since, ErrTurnCanceled)
		t.turns.giveUp(ctx, t.kind, t.id, true)
	}
}

// Departure is a turn that has come. The caller starts until Latest, and calls End or Fail; or it misses the turn. Only
// the first of these calls counts.
type Departure struct {
	// Latest is the last instant at which the caller may start. Later, it could come too close to the next caller.
	Latest time.Time
	// LeaseEnd is when the turn goes back to the queue by itself, unless the caller keeps it.
	LeaseEnd time.Time
	// Costs are what was charged for the turn in the units that limits count.
	Costs map[string]int64

	turns   *Turns
	turn    *Turn
	lease   queue.Lease
	attempt int
	over    atomic.Bool
	keep    keeper
}

// End ends the turn with a Deliver, which may stop the queue and may have actual costs. It reports whether the turn was
// not over before.
func (d *Departure) End(s queue.Settlement) bool {
	if !d.end() {
		return false
	}
	s.Lease, s.Verdict = d.lease, queue.Deliver
	d.turns.settling.Go(func() { _ = d.turns.dispatcher.settle([]queue.Settlement{s}) })
	if d.keep.over != nil {
		d.keep.over()
	}
	return true
}

// Fail ends the turn of a call whose receiver is down, which the queue's circuit counts. unused means that the call did
// not start, so its departure is given back.
func (d *Departure) Fail(reason string, unused bool) {
	if !d.end() {
		return
	}
	s := queue.Settlement{Lease: d.lease, Verdict: queue.Down, Unused: unused, Reason: reason}
	d.turns.settling.Go(func() {
		_ = d.turns.dispatcher.settle([]queue.Settlement{s})
		d.turns.giveUp(context.Background(), d.turn.kind, d.lease.ID, true) // a Down puts it back into the queue
	})
}

// Throttle ends the turn of a call whose receiver answered that there are too many requests. The queue stops for that
// long, or for [queue.ThrottleStop] if that is less than queue.MinThrottleStop. left is what the answer states of the
// receiver's budget. It reports whether the turn was not
// over before. When it returns, the engine knows of the stop.
func (d *Departure) Throttle(after time.Duration, reason string, left queue.Budget) bool {
	if !d.end() {
		return false
	}
	_ = d.turns.dispatcher.settle([]queue.Settlement{{
		Lease: d.lease, Verdict: queue.Throttle, After: after, Untold: after < queue.MinThrottleStop, Reason: reason,
		Budget: left,
	}})
	d.turns.settling.Go(func() {
		d.turns.giveUp(context.Background(), d.turn.kind, d.lease.ID, true) // a Throttle puts it back into the queue
	})
	return true
}

// Miss gives back a turn that the caller was too late to use. The caller still has its place, and may call Come again.
func (d *Departure) Miss() {
	if d.end() {
		_ = d.turns.dispatcher.settle([]queue.Settlement{{Lease: d.lease, Verdict: queue.Release}})
		d.turn.since = time.Now()
		d.turn.over.Store(false)
	}
}
