package receiver

import (
	"context"
	"time"
)

// Stall is a time during which the receiver's own process was held up, so that
// what came meanwhile was read late. What the kernel stamped has its right instant
// all the same.
type Stall struct {
	At  time.Duration // on the clock of the arrivals
	For time.Duration
}

// stallStep is how often the process looks at itself.
const stallStep = time.Millisecond

// stallFrom is what is worth remembering: timers are late by less than that.
const stallFrom = 3 * time.Millisecond

// watchStalls sleeps in small steps and remembers when it overslept.
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

// Stalls returns when the receiver's process was held up. Arrivals within or right
// after one that the kernel did not stamp may have come earlier than the record says.
func (r *Receiver) Stalls() []Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Stall(nil), r.stalls...)
}
