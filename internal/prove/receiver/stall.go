package receiver

import (
	"context"
	"time"
)

// Stall is a time during which this process did not run, so that it read requests late. Stamps from the kernel are
// right even then.
type Stall struct {
	At  time.Duration // on the clock of the arrivals
	For time.Duration
}

// stallStep is the interval of the check.
const stallStep = time.Millisecond

// stallFrom is the shortest stall to record; timers alone are late by less.
const stallFrom = 3 * time.Millisecond

// watchStalls sleeps in small steps and records when it overslept.
func (r *Receiver) watchStalls(ctx context.Context) {
	tick := time.NewTicker(stallStep)
	defer tick.Stop()
	last := r.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := r.Now()
		if late := now - last - stallStep; late >= stallFrom {
			r.mu.Lock()
			r.stalls = append(r.stalls, Stall{At: last + stallStep, For: late})
			r.mu.Unlock()
		}
		last = now
	}
}

// Stalls returns when this process did not run. Arrivals during or just after a stall may have come earlier than
// recorded, unless the kernel stamped them.
func (r *Receiver) Stalls() []Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Stall(nil), r.stalls...)
}
