package deferred

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// RuleCheck checks jobs that bypass the engine, which would ask the rules of their queues. It allows a job (Accepted)
// or refuses it, and each answer has the rulings of the rules. Without answers all jobs are allowed. giveBack is called
// with the indexes of allowed jobs that could not be stored. admission.Admission.Pass is a RuleCheck.
type RuleCheck func(ctx context.Context, jobs []queue.Job) (answers []queue.Appended,
	giveBack func(ctx context.Context, at []int))

// checked is the result of a RuleCheck for the jobs of one call that bypass the engine.
type checked struct {
	answers  []queue.Appended
	giveBack func(ctx context.Context, at []int)
	at       map[int]int // index of the answer by index of the job in the call
	lost     []int       // indexes of answers whose jobs were allowed but not stored
}

// checkRules checks the items that bypass the engine, and returns the items to store and their indexes in the call.
func (c *appendCall) checkRules(items []Item, at []int) ([]Item, []int) {
	if c.a.rules == nil {
		return items, at
	}
	r := &checked{at: map[int]int{}}
	var jobs []queue.Job
	for k, i := range at {
		if way := c.routes[i]; way == pastEngine || way == maybeInEngine {
			r.at[i] = len(jobs)
			jobs = append(jobs, items[k].Job)
		}
	}
	if len(jobs) == 0 {
		return items, at
	}
	if r.answers, r.giveBack = c.a.rules(c.ctx, jobs); len(r.answers) != len(jobs) {
		return items, at
	}
	c.checked = r
	n := 0
	for k, i := range at {
		if g, ok := r.at[i]; ok && r.answers[g].Outcome != queue.Accepted {
			if c.routes[i] != maybeInEngine { // otherwise the engine may have it
				c.answers[i] = r.answers[g]
			}
			continue
		}
		items[n], at[n] = items[k], i
		n++
	}
	return items[:n], at[:n]
}

// rulings returns the rulings on a job, and records if it was allowed but could not be stored.
func (c *appendCall) rulings(i int, err error) []rules.Ruling {
	if c.checked == nil {
		return nil
	}
	g, ok := c.checked.at[i]
	if !ok {
		return nil
	}
	if err != nil && !errors.Is(err, queue.ErrOutcomeUnknown) {
		c.checked.lost = append(c.checked.lost, g)
	}
	return c.checked.answers[g].Rules
}

// giveBack gives back the takes of jobs that were not stored.
func (c *appendCall) giveBack() {
	if c.checked != nil && len(c.checked.lost) > 0 {
		c.checked.giveBack(c.ctx, c.checked.lost)
	}
}
