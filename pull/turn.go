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
	over  atomic.Bool
}

// ErrTurnOver is returned for a turn that was waited for before, or canceled.
var ErrTurnOver = errors.New("pull: the turn is over")

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
	if err != nil {
		t.turns.giveUp(ctx, t.kind.lane, t.id, true)
		return nil, err
	}
	came.turn = t
	return came, nil
}

// Cancel gives the place back. Callers behind it move up.
func (t *Turn) Cancel(ctx context.Context) {
	if t.over.CompareAndSwap(false, true) {
		t.turns.giveUp(ctx, t.kind.lane, t.id, true)
	}
}

// Departure is a turn that has come. The caller starts until Latest, and calls End or Fail; or it misses the turn. Only
// the first of these calls counts.
type Departure struct {
	// Latest is the last instant at which the caller may start. Later, it could come too close to the next caller.
	Latest time.Time
	// LeaseEnd is when the turn goes back to the queue by itself.
	LeaseEnd time.Time

	turns *Turns
	turn  *Turn
	lease queue.Lease
	over  atomic.Bool
}

// End ends the turn with a Deliver, which may stop the queue. It reports whether the turn was not over before.
func (d *Departure) End(s queue.Settlement) bool {
	if !d.over.CompareAndSwap(false, true) {
		return false
	}
	s.Lease, s.Verdict = d.lease, queue.Deliver
	d.turns.settling.Go(func() { _ = d.turns.dispatcher.settle([]queue.Settlement{s}) })
	return true
}

// Fail ends the turn of a call whose receiver is down, which the queue's circuit counts. unused means that the call did
// not start, so its departure is given back.
func (d *Departure) Fail(reason string, unused bool) {
	if !d.over.CompareAndSwap(false, true) {
		return
	}
	s := queue.Settlement{Lease: d.lease, Verdict: queue.Down, Unused: unused, Reason: reason}
	d.turns.settling.Go(func() {
		_ = d.turns.dispatcher.settle([]queue.Settlement{s})
		d.turns.giveUp(context.Background(), d.turn.kind.lane, d.lease.ID, true) // a Down puts it back into the queue
	})
}

// Throttle ends the turn of a call whose receiver answered that there are too many requests. The queue stops for that
// long, or for [queue.ThrottleStop] if that is less than queue.MinThrottleStop. It reports whether the turn was not over
// before. When it returns, the engine knows of the stop.
func (d *Departure) Throttle(after time.Duration, reason string) bool {
	if !d.over.CompareAndSwap(false, true) {
		return false
	}
	_ = d.turns.dispatcher.settle([]queue.Settlement{{
		Lease: d.lease, Verdict: queue.Throttle, After: after, Untold: after < queue.MinThrottleStop, Reason: reason,
	}})
	d.turns.settling.Go(func() {
		d.turns.giveUp(context.Background(), d.turn.kind.lane, d.lease.ID, true) // a Throttle puts it back into the queue
	})
	return true
}

// Miss gives back a turn that the caller was too late to use. The caller still has its place, and may call Come again.
func (d *Departure) Miss() {
	if d.over.CompareAndSwap(false, true) {
		_ = d.turns.dispatcher.settle([]queue.Settlement{{Lease: d.lease, Verdict: queue.Release}})
		d.turn.over.Store(false)
	}
}

const (
	// leaveWithin is how long to try to give a place back; after that the place expires by itself.
	leaveWithin = 5 * time.Second
	// leavePause is the pause before the second try, when a turn is just being handed over or appended.
	leavePause = 20 * time.Millisecond
)

// giveUp gives back one place: the turn's own, or that of the caller that got it. Turns are interchangeable, so all
// that matters is that a lane has as many places as waiting callers. sure means that the turn was appended. giveUp
// usually succeeds at once; otherwise it goes on in the background. In doubt it lets a place expire rather than give
// back two.
func (t *Turns) giveUp(ctx context.Context, lane, id string, sure bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	if t.giveBack(ctx, lane, id, sure) {
		cancel()
		return
	}
	t.settling.Go(func() {
		defer cancel()
		for pause := leavePause; ; pause *= 2 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if t.giveBack(ctx, lane, id, sure) {
				return
			}
		}
	})
}

// giveBack reports whether nothing is left to give back.
func (t *Turns) giveBack(ctx context.Context, lane, id string, sure bool) bool {
	switch info, err := t.engine.Job(ctx, t.queue, id); {
	case errors.Is(err, queue.ErrUnknownQueue):
		return true
	case errors.Is(err, queue.ErrUnknownJob) && sure: // it was forgotten, so another caller got it
	case err != nil: // it may still be about to be appended
		return false
	case info.State == queue.Expired:
		return true
	}
	// Any turn will do. Purge reports exactly how many it removed; Cancel would not if two callers cancel the same turn.
	purged, err := t.engine.Purge(ctx, queue.PurgeRequest{Queue: t.queue, State: queue.Waiting, Lane: &lane, Limit: 1})
	if err != nil || purged.Jobs > 0 {
		return !errors.Is(err, queue.ErrUnavailable)
	}
	info, err := t.engine.Get(ctx, t.queue)
	// A leased turn may come back, and a waiting turn may just have done so.
	return err == nil && info.Leased+info.Waiting == 0
}
