package drain

import (
	"context"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// keepEvery is how often the leases of running jobs are looked at. The shortest
	// lease is 1 s and is extended after a third, so an extension that fails is
	// tried several times before the lease is over.
	keepEvery     = 100 * time.Millisecond
	extendTimeout = time.Second
)

// keeper knows the running jobs of one partition and keeps their leases.
type keeper struct {
	d    *drainer
	p    *partition
	mu   sync.Mutex
	runs map[*run]struct{}
	bell chan struct{} // 1: there are runs again
}

func newKeeper(d *drainer) *keeper {
	return &keeper{d: d, runs: make(map[*run]struct{}), bell: make(chan struct{}, 1)}
}

func (k *keeper) add(r *run) {
	k.mu.Lock()
	k.runs[r] = struct{}{}
	first := len(k.runs) == 1
	k.mu.Unlock()
	if first {
		select {
		case k.bell <- struct{}{}:
		default:
		}
	}
}

func (k *keeper) remove(r *run) {
	k.mu.Lock()
	delete(k.runs, r)
	k.mu.Unlock()
}

func (k *keeper) all() []*run {
	k.mu.Lock()
	defer k.mu.Unlock()
	runs := make([]*run, 0, len(k.runs))
	for r := range k.runs {
		runs = append(runs, r)
	}
	return runs
}

// run looks after the leases until ctx ends. Without jobs it sleeps.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		tick.Reset(keepEvery)
		for idle := false; !idle; {
			select {
			case <-tick.C:
				runs := k.all()
				idle = len(runs) == 0
				k.keep(runs)
				k.d.pool.judge(k.p, time.Now())
			case <-ctx.Done():
				return
			}
		}
		tick.Stop()
		select {
		case <-k.bell:
		case <-ctx.Done():
			return
		}
	}
}

// keep extends the leases that are due and gives up those that ran out. Work that goes on
// when its window has been over for a while has departed.
func (k *keeper) keep(runs []*run) {
	var due []*run
	now := time.Now()
	// An engine that does not answer must not keep a handler from being told in time.
	until := now.Add(extendTimeout)
	for _, r := range runs {
		r.mu.Lock()
		if now.Sub(r.latest) > keepEvery {
			r.depart()
		}
		running := !r.over && !r.passed.IsZero()
		ended, extend := now.After(r.LeaseEnd), running && !now.Before(r.extendAt)
		if !ended && r.LeaseEnd.Before(until) {
			until = r.LeaseEnd
		}
		r.mu.Unlock()
		switch {
		case ended:
			r.lose(true)
		case extend:
			due = append(due, r)
		}
	}
	for len(due) > 0 {
		n := min(len(due), settleBatch)
		k.extend(due[:n], until)
		due = due[n:]
	}
}

func (k *keeper) extend(due []*run, until time.Time) {
	leases := make([]queue.Lease, len(due))
	for i, r := range due {
		leases[i] = r.lease()
	}
	asked := time.Now()
	ctx, cancel := context.WithDeadline(k.d.calls, until)
	left, err := k.d.engine.Extend(ctx, leases)
	cancel()
	if err != nil || len(left) != len(due) {
		k.d.complain("extending leases failed; trying again", err, "jobs", len(due))
		return
	}
	for i, r := range due {
		if left[i] <= 0 {
			r.lose(false)
			continue
		}
		// Only the answer counts, and not how long the lease was when it was granted: it may
		// have been lowered since, or the engine's clock may have jumped. Until now the
		// deadline of before has stood.
		r.mu.Lock()
		r.LeaseEnd = asked.Add(left[i])
		r.extendAt = asked.Add(left[i] / 3)
		r.mu.Unlock()
	}
}
