package drain

import (
	"context"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// keepEvery is how often leases are checked. The shortest lease is 1 s and is extended after a third, so a failed
	// extension is retried several times before the lease ends.
	keepEvery     = 100 * time.Millisecond
	extendTimeout = time.Second
)

// leases extends the leases of one partition's deliveries.
type leases struct {
	d          *drainer
	part       *partition
	mu         sync.Mutex
	deliveries map[*delivery]struct{}
	bell       chan struct{} // 1: there are deliveries again
}

func newLeases(d *drainer, p *partition) *leases {
	return &leases{d: d, part: p, deliveries: make(map[*delivery]struct{}), bell: make(chan struct{}, 1)}
}

func (l *leases) add(dl *delivery) {
	l.mu.Lock()
	l.deliveries[dl] = struct{}{}
	first := len(l.deliveries) == 1
	l.mu.Unlock()
	if first {
		select {
		case l.bell <- struct{}{}:
		default:
		}
	}
}

func (l *leases) remove(dl *delivery) {
	l.mu.Lock()
	delete(l.deliveries, dl)
	l.mu.Unlock()
}

func (l *leases) all() []*delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*delivery, 0, len(l.deliveries))
	for dl := range l.deliveries {
		all = append(all, dl)
	}
	return all
}

// run checks the leases until ctx ends. Without deliveries it sleeps.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		tick.Reset(keepEvery)
		for idle := false; !idle; {
			select {
			case <-tick.C:
				all := l.all()
				idle = len(all) == 0
				l.keep(all)
				l.d.pool.judge(l.part, time.Now())
			case <-ctx.Done():
				return
			}
		}
		tick.Stop()
		select {
		case <-l.bell:
		case <-ctx.Done():
			return
		}
	}
}

// keep extends the leases that are due and gives up the leases that have run out. It also reports the departure of each
// delivery that still runs keepEvery after the end of its window: its handler can no longer find out that it is late.
func (l *leases) keep(all []*delivery) {
	var due []*delivery
	now := time.Now()
	// Even if the engine does not answer, handlers must be canceled in time.
	until := now.Add(extendTimeout)
	for _, dl := range all {
		dl.mu.Lock()
		if now.Sub(dl.latest) > keepEvery {
			dl.depart()
		}
		running := !dl.over && !dl.passed.IsZero()
		ended, extend := now.After(dl.LeaseEnd), running && !now.Before(dl.extendAt)
		if !ended && dl.LeaseEnd.Before(until) {
			until = dl.LeaseEnd
		}
		dl.mu.Unlock()
		switch {
		case ended:
			dl.lose(true)
		case extend:
			due = append(due, dl)
		}
	}
	for len(due) > 0 {
		n := min(len(due), settleBatch)
		l.extend(due[:n], until)
		due = due[n:]
	}
}

func (l *leases) extend(due []*delivery, until time.Time) {
	names := make([]queue.Lease, len(due))
	for i, dl := range due {
		names[i] = dl.lease()
	}
	asked := time.Now()
	ctx, cancel := context.WithDeadline(l.d.calls, until)
	answers, err := l.d.engine.Extend(ctx, names)
	cancel()
	if err != nil || len(answers) != len(due) {
		l.d.complain("extending leases failed; trying again", err, "jobs", len(due))
		return
	}
	for i, dl := range due {
		switch e := &answers[i]; {
		case e.Err != nil:
			l.d.complain("extending a lease failed; trying again", e.Err, "queue", dl.job.Queue)
		case e.Left <= 0:
			dl.lose(false)
		default:
			dl.extended(asked, e)
		}
	}
}

// extendWhenSlow moves the next extension forward to when circuit.slow next passes, if that is sooner: with the
// extension, the engine may count the slow attempt as a failure. mu is held.
func (dl *delivery) extendWhenSlow(since time.Time) {
	c := &dl.job.Spec.Circuit
	if c.Off {
		return
	}
	if !since.Before(dl.slowAt) {
		dl.slowAt = since.Add(c.Slow.D())
	}
	if dl.slowAt.Before(dl.extendAt) {
		dl.extendAt = dl.slowAt
	}
}

// extended applies the answer to an extension requested at the given instant. The new end depends only on the answer,
// not on the original length of the lease: the queue's lease may be shorter now, or the engine's clock may have jumped.
func (dl *delivery) extended(asked time.Time, e *queue.Extended) {
	dl.mu.Lock()
	dl.LeaseEnd = asked.Add(e.Left)
	dl.extendAt = asked.Add(e.Left / 3)
	dl.extendWhenSlow(time.Now())
	dl.mu.Unlock()
	if e.Effect != (queue.Effect{}) {
		s := queue.Settlement{Lease: dl.lease(), Verdict: queue.Fail, Trouble: true, Reason: queue.SlowReason}
		dl.part.d.observer.Affected(s, e.Effect)
		dl.part.settler.logEffect(&s, e.Effect)
	}
}
