package deferred

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
)

// Gate decides about jobs that go past the engine, which would ask the rules of their queues: each is let through
// (Accepted) or not, and answered with what its rules said. No answers let all through. Those that were let through,
// and then could not be stored, are handed to back. admission.Admission.Pass is one.
type Gate func(ctx context.Context, jobs []queue.Job) (answers []queue.Appended,
	back func(ctx context.Context, at []int))

// passage is the jobs of one call that go past the engine.
type passage struct {
	said []queue.Appended
	back func(ctx context.Context, at []int)
	at   map[int]int // by which of the call's jobs
	lost []int       // let through, and not stored
}

// pass asks the gate about those of the items that go past the engine, and returns those that are to be stored.
func (e *entrance) pass(items []Item, at []int) ([]Item, []int) {
	if e.a.gate == nil {
		return items, at
	}
	p := &passage{at: map[int]int{}}
	var jobs []queue.Job
	for k, i := range at {
		if c := e.courses[i]; c == alone || c == unsure {
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
	e.passage = p
	n := 0
	for k, i := range at {
		if g, asked := p.at[i]; asked && p.said[g].Outcome != queue.Accepted {
			if e.courses[i] != unsure { // else the engine may have taken it all the same
				e.answers[i] = p.said[g]
			}
			continue
		}
		items[n], at[n] = items[k], i
		n++
	}
	return items[:n], at[:n]
}

// passed notes whether a job that was let through is stored, and returns what its rules said.
func (e *entrance) passed(i int, err error) []queue.Ruled {
	if e.passage == nil {
		return nil
	}
	g, asked := e.passage.at[i]
	if !asked {
		return nil
	}
	if err != nil && !errors.Is(err, queue.ErrOutcomeUnknown) {
		e.passage.lost = append(e.passage.lost, g)
	}
	return e.passage.said[g].Rules
}

// unpass gives back what was taken for jobs that were not stored.
func (e *entrance) unpass() {
	if e.passage != nil && len(e.passage.lost) > 0 {
		e.passage.back(e.ctx, e.passage.lost)
	}
}
