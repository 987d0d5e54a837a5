package deferred

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Gate decides about jobs that go past the engine, which would ask the rules of their queues: each is let through
// (Accepted) or not, and answered with what its rules said. No answers let all through. Those that were let through,
// and then could not be stored, are handed to back. admission.Admission.Pass is one.
type Gate func(ctx context.Context, jobs []queue.Job) (answers []queue.Appended,
	back func(ctx context.Context, at []int))

// gateCheck is what the gate said of the jobs of one call that go past the engine.
type gateCheck struct {
	said []queue.Appended
	back func(ctx context.Context, at []int)
	at   map[int]int // by which of the call's jobs
	lost []int       // let through, and not stored
}

// askGate asks about those of the items that go past the engine, and returns those that are to be stored.
func (e *appendCall) askGate(items []Item, at []int) ([]Item, []int) {
	if e.a.gate == nil {
		return items, at
	}
	p := &gateCheck{at: map[int]int{}}
	var jobs []queue.Job
	for k, i := range at {
		if c := e.routes[i]; c == pastEngine || c == maybeInEngine {
			p.at[i] = len(jobs)
			jobs = append(jobs, items[k].Job)
		}
	}
	if len(jobs) == 0 {
		return items, at
	}
	if p.said, p.back = e.a.gate(e.ctx, jobs); len(p.said) != len(jobs) {
		return items, at
	}
	e.gateCheck = p
	n := 0
	for k, i := range at {
		if g, asked := p.at[i]; asked && p.said[g].Outcome != queue.Accepted {
			if e.routes[i] != maybeInEngine { // else the engine may have taken it all the same
				e.answers[i] = p.said[g]
			}
			continue
		}
		items[n], at[n] = items[k], i
		n++
	}
	return items[:n], at[:n]
}

// checked notes whether a job that was let through is stored, and returns what its rules said.
func (e *appendCall) checked(i int, err error) []rules.Ruling {
	if e.gateCheck == nil {
		return nil
	}
	g, asked := e.gateCheck.at[i]
	if !asked {
		return nil
	}
	if err != nil && !errors.Is(err, queue.ErrOutcomeUnknown) {
		e.gateCheck.lost = append(e.gateCheck.lost, g)
	}
	return e.gateCheck.said[g].Rules
}

// giveBack gives back what was taken for jobs that were not stored.
func (e *appendCall) giveBack() {
	if e.gateCheck != nil && len(e.gateCheck.lost) > 0 {
		e.gateCheck.back(e.ctx, e.gateCheck.lost)
	}
}
