package pull

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Turn is a reserved turn, to be waited for once or canceled.
type Turn struct {
	turns *Turns
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
	if !t.over.CompareAndSwap(false, true) {
		return ErrTurnOver
	}
	err := t.turns.await(ctx, time.Until(t.until))
	if err != nil {
		t.turns.giveUp(ctx, t.id, true)
	}
	return err
}

// Cancel gives the place back. Callers behind it move up.
func (t *Turn) Cancel(ctx context.Context) {
	if t.over.CompareAndSwap(false, true) {
		t.turns.giveUp(ctx, t.id, true)
	}
}

// await waits for the next turn, no matter which caller reserved it.
func (t *Turns) await(ctx context.Context, within time.Duration) error {
	handed, err := t.dispatcher.Lease(ctx, Request{Queue: t.queue, Max: 1, Wait: within})
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
			Reason: "holds other jobs, which were left there; give turns a queue of their own",
		}
	}
	turn := handed.jobs[0].lease()
	handed.End(true)
	// A turn ends with its departure; the caller need not wait until the engine knows.
	t.settling.Go(func() { _ = t.dispatcher.settle([]queue.Settlement{{Lease: turn, Verdict: queue.Deliver}}) })
	return nil
}

const (
	// leaveWithin is how long to try to give a place back; after that the place expires by itself.
	leaveWithin = 5 * time.Second
	// leavePause is the pause before the second try, when a turn is just being handed over or appended.
	leavePause = 20 * time.Millisecond
)

// giveUp gives back one place: the turn's own, or that of the caller that got it. Turns are interchangeable, so all
// that matters is that there are as many places as waiting callers. sure means that the turn was appended. giveUp
// usually succeeds at once; otherwise it goes on in the background. In doubt it lets a place expire rather than give
// back two.
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

// giveBack reports whether nothing is left to give back.
func (t *Turns) giveBack(ctx context.Context, id string, sure bool) bool {
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
	lane := TurnLane
	purged, err := t.engine.Purge(ctx, queue.PurgeRequest{Queue: t.queue, State: queue.Waiting, Lane: &lane, Limit: 1})
	if err != nil || purged.Jobs > 0 {
		return !errors.Is(err, queue.ErrUnavailable)
	}
	info, err := t.engine.Get(ctx, t.queue)
	// A leased turn may come back, and a waiting turn may just have done so.
	return err == nil && info.Leased+info.Waiting == 0
}
