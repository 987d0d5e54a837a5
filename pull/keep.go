package pull

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// keeper keeps a turn's lease until the turn ends.
type keeper struct {
	mu    sync.Mutex
	timer *time.Timer // nil if the lease is not kept, or no longer
	limit *time.Timer // ends the turn; nil if it is kept for any time
	over  func()      // called by End; may be nil
	ended bool
}

// Keep extends the lease of the turn until it ends, so that the caller can end it with what its call has used. A turn
// whose lease cannot be extended ends as delivered, before it could go to another caller.
func (d *Departure) Keep() { d.keepUntil(d.LeaseEnd) }

// keepFor is Keep for a limited time. End calls over.
func (d *Departure) keepFor(within time.Duration, over func()) {
	d.keep.mu.Lock()
	d.keep.over = over
	d.keep.limit = time.AfterFunc(within, func() { d.End(queue.Settlement{}) })
	d.keep.mu.Unlock()
	d.Keep()
}

func (d *Departure) keepUntil(end time.Time) {
	d.keep.mu.Lock()
	defer d.keep.mu.Unlock()
	if !d.keep.ended {
		d.keep.timer = time.AfterFunc(time.Until(end)/2, d.extend)
	}
}

// extend extends the lease when half of it is over.
func (d *Departure) extend() {
	d.keep.mu.Lock()
	defer d.keep.mu.Unlock()
	if d.keep.ended {
		return
	}
	d.turns.settling.Go(func() {
		if end, ok := d.turns.dispatcher.extend(d.lease); ok {
			d.keepUntil(end)
			return
		}
		d.End(queue.Settlement{})
	})
}

// end ends a turn, and reports whether it was not over before.
func (d *Departure) end() bool {
	if !d.over.CompareAndSwap(false, true) {
		return false
	}
	d.keep.mu.Lock()
	defer d.keep.mu.Unlock()
	for _, timer := range []*time.Timer{d.keep.timer, d.keep.limit} {
		if timer != nil {
			timer.Stop()
		}
	}
	d.keep.ended = true
	return true
}

// extend extends a lease, and returns its end.
func (d *Dispatcher) extend(lease queue.Lease) (end time.Time, ok bool) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(d.calls, settleTimeout)
	defer cancel()
	answers, err := d.engine.Extend(ctx, []queue.Lease{lease})
	if err != nil || len(answers) != 1 || answers[0].Err != nil || answers[0].Left <= 0 {
		return time.Time{}, false
	}
	return asked.Add(answers[0].Left), true
}

// withoutActual returns the settlements that were refused for their actual costs, without these: the queue may count
// other units by now.
func withoutActual(s []queue.Settlement, answers []queue.Settled) (again []queue.Settlement) {
	for i := range min(len(s), len(answers)) {
		var refused *invalid.Error
		if s[i].Actual != nil && errors.As(answers[i].Err, &refused) {
			s[i].Actual = nil
			again = append(again, s[i])
		}
	}
	return again
}
