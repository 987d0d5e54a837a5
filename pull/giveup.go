package pull

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// leaveWithin is how long to try to give a place back, besides the queue's slack: so long may a dispatcher keep a
	// turn for which it has no caller. After that the place expires by itself.
	leaveWithin = 5 * time.Second
	// leavePause is the pause before the second try, when a turn is just being handed over or appended.
	leavePause = 20 * time.Millisecond
	mostPause  = 2 * time.Second
)

// giveUp gives back one place: the turn's own, or that of the caller that got it. Turns of a kind are interchangeable,
// so all that matters is that each kind has as many places as waiting callers. sure means that the turn was appended.
// giveUp usually succeeds at once; otherwise it goes on in the background. In doubt it lets a place expire rather than
// give back two.
func (t *Turns) giveUp(ctx context.Context, k kind, id string, sure bool) {
	t.mu.Lock()
	within := leaveWithin + t.slack
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	if t.giveBack(ctx, k, id, sure) {
		cancel()
		return
	}
	t.settling.Go(func() {
		defer cancel()
		for pause := leavePause; ; pause = min(2*pause, mostPause) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if t.giveBack(ctx, k, id, sure) {
				return
			}
		}
	})
}

// giveBack reports whether nothing is left to give back.
func (t *Turns) giveBack(ctx context.Context, k kind, id string, sure bool) bool {
	switch info, err := t.engine.Job(ctx, t.queue, id); {
	case errors.Is(err, queue.ErrUnknownQueue):
		return true
	case errors.Is(err, queue.ErrUnknownJob) && sure: // it was forgotten, so another caller got it
	case err != nil: // it may still be about to be appended
		return false
	case info.State == queue.Expired:
		return true
	}
	alone, found, err := t.like(ctx, k, id)
	switch {
	case err != nil:
		return !errors.Is(err, queue.ErrUnavailable)
	case alone:
		// Any turn will do. Purge reports exactly how many it removed; Cancel would not if two callers cancel the same turn.
		purged, err := t.engine.Purge(ctx, queue.PurgeRequest{Queue: t.queue, State: queue.Waiting, Lane: &k.lane, Limit: 1})
		if err != nil || purged.Jobs > 0 {
			return !errors.Is(err, queue.ErrUnavailable)
		}
	case found != "":
		state, err := t.engine.Cancel(ctx, t.queue, found)
		if state == queue.Cancelled || err != nil && !errors.Is(err, queue.ErrUnavailable) {
			return true
		}
		return false
	}
	info, err := t.engine.Get(ctx, t.queue)
	// A leased turn may come back, and a waiting turn may just have done so.
	return err == nil && info.Leased+info.Waiting == 0
}

// like looks for a waiting turn of a kind, if possible the one with an id. alone means that the turns which would leave
// the lane first are all of that kind.
func (t *Turns) like(ctx context.Context, k kind, id string) (alone bool, found string, err error) {
	r := queue.ListRequest{Queue: t.queue, State: queue.Waiting, Lane: &k.lane, Limit: queue.MaxPage}
	alone = true
	for {
		page, err := t.engine.ListJobs(ctx, r)
		if err != nil {
			return false, "", err
		}
		for i := range page.Jobs {
			switch j := &page.Jobs[i]; {
			case kindOfJob(j.ID, k.lane, j.Cost, j.Priority) != k:
				alone = false
			case j.ID == id:
				found = id
			case found == "":
				found = j.ID
			}
		}
		if alone || page.Next == "" || found == id {
			return alone, found, nil
		}
		r.After = page.Next
	}
}
