package pull

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Turn is a turn that was reserved. It is waited for once, or cancelled.
type Turn struct {
	turns *Turns
	id    string
	at    time.Time
	until time.Time
	over  atomic.Bool
}

// ErrTurnOver says that a turn was waited for before, or cancelled.
var ErrTurnOver = errors.New("pull: the turn is over")

// At is when the turn is expected, by this machine's clock. Only Wait tells when it has come.
func (t *Turn) At() time.Time { return t.at }

// Wait waits until the turn has come, and returns nil: start now. If it does not come within the time that was reserved
// for, the error is a *Later; others are ctx's and the engine's. With any of them the place is given back.
func (t *Turn) Wait(ctx context.Context) error {
	if !t.over.CompareAndSwap(false, true) {
		return ErrTurnOver
	}
	err := t.turns.take(ctx, time.Until(t.until))
	if err != nil {
		t.turns.giveUp(ctx, t.id, true)
	}
	return err
}

// Cancel gives the place back. Those who wait behind it move up.
func (t *Turn) Cancel(ctx context.Context) {
	if t.over.CompareAndSwap(false, true) {
		t.turns.giveUp(ctx, t.id, true)
	}
}

// take takes the next turn, whosever it is.
func (t *Turns) take(ctx context.Context, within time.Duration) error {
	handed, err := t.dispatcher.Take(ctx, Request{Queue: t.queue, Max: 1, Wait: within})
	if err != nil {
		t.doubt()
		return err
	}
	if handed.Jobs() == 0 {
		return &Later{turnRetry}
	}
	if handed.jobs[0].Lane != TurnLane {
		handed.End(false)
		return &invalid.Error{
			Field: "queue", Value: t.queue,
			Reason: "holds jobs, which are left there; give turns a queue of their own",
		}
	}
	turn := handed.jobs[0].lease()
	handed.End(true)
	// It is over with its departure, and nobody has to wait until the engine knows.
	t.settling.Go(func() { _ = t.dispatcher.settle([]queue.Settlement{{Lease: turn, Verdict: queue.Deliver}}) })
	return nil
}

const (
	// leaveWithin is how long is tried to give a place back; then it expires.
	leaveWithin = 5 * time.Second
	// leavePause is between the first two looks at what somebody is just being handed, or is on its way in.
	leavePause = 20 * time.Millisecond
)

// giveUp gives back one place, if it is sure that there was one: the turn's own, or that of another which took it. Each
// waits for any, so that as many places as people who wait is all that matters. Often that is done at once; else it
// goes on behind the caller's back. Of what is not known to be given back it is better that it expires than that a
// second one is.
func (t *Turns) giveUp(ctx context.Context, id string, sure bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	if t.giveBack(ctx, id, sure) {
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
			if t.giveBack(ctx, id, sure) {
				return
			}
		}
	})
}

// giveBack reports whether there is nothing left to give back.
func (t *Turns) giveBack(ctx context.Context, id string, sure bool) bool {
	switch info, err := t.engine.Job(ctx, t.queue, id); {
	case errors.Is(err, queue.ErrUnknownQueue):
		return true
	case errors.Is(err, queue.ErrUnknownJob) && sure: // it is forgotten, so another took it
	case err != nil: // it may still be on its way in
		return false
	case info.State == queue.Expired:
		return true
	}
	// Whose it is does not matter. It tells for certain how many it took back, which Cancel would not of one that two
	// cancel.
	lane := TurnLane
	purged, err := t.engine.Purge(ctx, queue.PurgeRequest{Queue: t.queue, State: queue.Waiting, Lane: &lane, Limit: 1})
	if err != nil || purged.Jobs > 0 {
		return !errors.Is(err, queue.ErrUnavailable)
	}
	info, err := t.engine.Get(ctx, t.queue)
	// What is in somebody's hands may come back, and what waits may have just done so.
	return err == nil && info.Leased+info.Waiting == 0
}
