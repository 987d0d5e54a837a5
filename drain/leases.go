package drain

import (
	"context"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// keepEvery is how often the leases of attempts are looked at. The shortest lease is 1 s and is extended after a
	// third, so an extension that fails is tried several times before the lease is over.
	keepEvery     = 100 * time.Millisecond
	extendTimeout = time.Second
)

// leases keeps those of the attempts of one partition.
type leases struct {
	d        *drainer
	part     *partition
	mu       sync.Mutex
	attempts map[*attempt]struct{}
	bell     chan struct{} // 1: there are attempts again
}

func newLeases(d *drainer, p *partition) *leases {
	return &leases{d: d, part: p, attempts: make(map[*attempt]struct{}), bell: make(chan struct{}, 1)}
}

func (l *leases) add(a *attempt) {
	l.mu.Lock()
	l.attempts[a] = struct{}{}
	first := len(l.attempts) == 1
	l.mu.Unlock()
	if first {
		select {
		case l.bell <- struct{}{}:
		default:
		}
	}
}

func (l *leases) remove(a *attempt) {
	l.mu.Lock()
	delete(l.attempts, a)
	l.mu.Unlock()
}

func (l *leases) all() []*attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*attempt, 0, len(l.attempts))
	for a := range l.attempts {
		all = append(all, a)
	}
	return all
}

// run looks after the leases until ctx ends. Without attempts it sleeps.
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

// keep extends the leases that are due and gives up those that ran out. Work that goes on when its window has been over
// for a while has departed.
func (l *leases) keep(all []*attempt) {
	var due []*attempt
	now := time.Now()
	// An engine that does not answer must not keep a handler from being told in time.
	until := now.Add(extendTimeout)
	for _, a := range all {
		a.mu.Lock()
		if now.Sub(a.latest) > keepEvery {
			a.depart()
		}
		running := !a.over && !a.passed.IsZero()
		ended, extend := now.After(a.LeaseEnd), running && !now.Before(a.extendAt)
		if !ended && a.LeaseEnd.Before(until) {
			until = a.LeaseEnd
		}
		a.mu.Unlock()
		switch {
		case ended:
			a.lose(true)
		case extend:
			due = append(due, a)
		}
	}
	for len(due) > 0 {
		n := min(len(due), settleBatch)
		l.extend(due[:n], until)
		due = due[n:]
	}
}

func (l *leases) extend(due []*attempt, until time.Time) {
	names := make([]queue.Lease, len(due))
	for i, a := range due {
		names[i] = a.lease()
	}
	asked := time.Now()
	ctx, cancel := context.WithDeadline(l.d.calls, until)
	answers, err := l.d.engine.Extend(ctx, names)
	cancel()
	if err != nil || len(answers) != len(due) {
		l.d.complain("extending leases failed; trying again", err, "jobs", len(due))
		return
	}
	for i, a := range due {
		switch e := &answers[i]; {
		case e.Err != nil:
			l.d.complain("extending a lease failed; trying again", e.Err, "queue", a.job.Queue)
		case e.Left <= 0:
			a.lose(false)
		default:
			a.extended(asked, e)
		}
	}
}

// extendWhenSlow has the lease extended at the latest when circuit.slow has passed again: the engine may count a
// failure then. a.mu is held.
func (a *attempt) extendWhenSlow(since time.Time) {
	c := &a.job.Spec.Circuit
	if c.Off {
		return
	}
	if !since.Before(a.slowAt) {
		a.slowAt = since.Add(c.Slow.D())
	}
	if a.slowAt.Before(a.extendAt) {
		a.extendAt = a.slowAt
	}
}

// extended goes by the answer to an extension that was asked for then. Only it counts, and not how long the lease was
// when it was granted: that may have been lowered since, or the engine's clock may have jumped. Until now the deadline
// of before has stood.
func (a *attempt) extended(asked time.Time, e *queue.Extended) {
	a.mu.Lock()
	a.LeaseEnd = asked.Add(e.Left)
	a.extendAt = asked.Add(e.Left / 3)
	a.extendWhenSlow(time.Now())
	a.mu.Unlock()
	if e.Effect != (queue.Effect{}) {
		s := queue.Settlement{Lease: a.lease(), Verdict: queue.Fail, Trouble: true, Reason: queue.SlowReason}
		a.part.d.observer.Affected(s, e.Effect)
		a.part.settler.tell(&s, e.Effect)
	}
}
