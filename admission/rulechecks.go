package admission

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// backTimeout bounds giving back, which the caller waits for.
const backTimeout = 2 * time.Second

// ruleChecks checks the jobs of one call. It asks their rules one after the other, not in one step with the append as
// the engine does.
type ruleChecks struct {
	a       *Admission
	jobs    []queue.Job
	answers []queue.Appended // Accepted: the job may go on
	limited []time.Duration  // as Job.Limited: the job may go on, to be put aside, and is not charged
	asks    [][]ruleset.Ask
	charged [][]charge
}

// charge is a take of a job.
type charge struct {
	rule  *rules.Rule
	key   string
	asked bool // the store counted it
}

// checkRules asks some of the rules of jobs. It returns nil if there are none to ask.
func (a *Admission) checkRules(ctx context.Context, jobs []queue.Job, some ruleFilter) *ruleChecks {
	var c *ruleChecks
	var set ruleset.Set
	var err error
	for i := range jobs {
		if name := jobs[i].Queue; i == 0 || name != jobs[i-1].Queue {
			set, err = a.ruleset(ctx, name, some)
		}
		if set == nil && (err == nil || errors.Is(err, queue.ErrUnknownQueue)) {
			continue // the engine will say what is wrong
		}
		if c == nil {
			c = &ruleChecks{
				a: a, jobs: jobs, answers: make([]queue.Appended, len(jobs)), limited: make([]time.Duration, len(jobs)),
				asks: make([][]ruleset.Ask, len(jobs)), charged: make([][]charge, len(jobs)),
			}
			for k := range c.answers {
				c.answers[k] = queue.Appended{Outcome: queue.Accepted, ID: jobs[k].ID}
				c.limited[k] = jobs[k].Limited
			}
		}
		c.prepare(i, set, err)
	}
	if c == nil {
		return nil
	}
	for c.askNext(ctx) {
	}
	c.giveBackRefused(ctx)
	return c
}

// prepare computes what a job asks its rules.
func (c *ruleChecks) prepare(i int, set ruleset.Set, err error) {
	if err != nil {
		c.fail(i, err)
		return
	}
	job := c.jobs[i]
	job.Normalize()
	if job.Validate() != nil {
		return // the engine will say so
	}
	asks, err := set.Asks(&job)
	if err != nil {
		c.fail(i, err)
		return
	}
	c.asks[i] = asks
}

// fail answers a job that could not be decided, or that is invalid.
func (c *ruleChecks) fail(i int, err error) {
	var field *invalid.Error
	var missing *ruleset.Missing
	c.answers[i].Outcome, c.answers[i].Err = queue.Failed, err
	switch {
	case errors.As(err, &missing):
		c.a.missing.report(missing)
	case errors.As(err, &field):
		c.answers[i].Outcome, c.answers[i].Err = queue.Invalid, field
	}
}

// askNext asks the next rule of each job that is still allowed, and reports whether there were any.
func (c *ruleChecks) askNext(ctx context.Context) bool {
	var asked []string
	by := map[string][]int{} // jobs by their next rule
	for i := range c.jobs {
		if c.answers[i].Outcome == queue.Accepted && len(c.asks[i]) > 0 {
			name := c.asks[i][0].Rule.Name
			if by[name] == nil {
				asked = append(asked, name)
			}
			by[name] = append(by[name], i)
		}
	}
	for _, rule := range asked {
		for at := by[rule]; len(at) > 0; {
			n := min(len(at), rules.MaxTakes)
			c.ask(ctx, rule, at[:n])
			at = at[n:]
		}
	}
	return len(asked) > 0
}

// ask asks one rule about some jobs.
func (c *ruleChecks) ask(ctx context.Context, rule string, at []int) {
	takes := make([]rules.Take, len(at))
	for k, i := range at {
		takes[k] = rules.Take{Key: c.asks[i][0].Key, Cost: max(1, c.jobs[i].Cost)}
		if c.limited[i] > 0 { // only ask whether it is refused for good
			takes[k].Op = rules.TakePeek
		}
	}
	taken, asked, err := c.a.take(ctx, rule, takes)
	for k, i := range at {
		ask := c.asks[i][0]
		c.asks[i] = c.asks[i][1:]
		if err == nil && len(taken) != len(at) {
			err = queue.ErrOutcomeUnknown // cannot happen
		}
		switch {
		case errors.Is(err, rules.ErrUnknown): // deleted since its queue was read
			c.fail(i, &ruleset.Missing{Queue: c.jobs[i].Queue, Rule: rule, Reason: notThere})
			continue
		case err != nil:
			c.fail(i, err)
			continue
		}
		c.record(i, ask, &taken[k], asked)
	}
}

// record records the answer of a rule to a job.
func (c *ruleChecks) record(i int, ask ruleset.Ask, t *rules.Taken, asked bool) {
	answer := &c.answers[i]
	shadow := ask.Rule.Action == rules.Shadow
	if t.Err != nil {
		if !shadow {
			c.fail(i, t.Err)
		}
		return
	}
	answer.Rules = append(answer.Rules, rules.Ruling{
		Rule: ask.Rule.Name, Shadow: shadow, Away: t.Away, MaxKeys: t.MaxKeys, Decision: t.Decision,
	})
	wait := max(t.RetryAfter, c.limited[i], time.Millisecond)
	switch {
	case t.Allowed && c.limited[i] == 0:
		c.charged[i] = append(c.charged[i], charge{ask.Rule, ask.Key, asked})
	case t.Allowed || shadow:
	case ask.Rule.Action == rules.Defer && c.jobs[i].Overflow != queue.Reject:
		c.limited[i] = wait
	default:
		answer.Outcome, answer.RetryAfter = queue.LimitReached, wait
	}
}

// giveBackRefused gives back the takes of jobs that another rule refused.
func (c *ruleChecks) giveBackRefused(ctx context.Context) {
	var out []int
	for i := range c.answers {
		if c.answers[i].Outcome != queue.Accepted || c.limited[i] > 0 {
			out = append(out, i)
		}
	}
	c.giveBack(ctx, out)
}

// giveBack gives back the takes of jobs that did not come in. What cannot be given back expires by itself.
func (c *ruleChecks) giveBack(ctx context.Context, at []int) {
	by := map[string][]rules.Take{}
	for _, i := range at {
		for _, paid := range c.charged[i] {
			t := rules.Take{Op: rules.TakeBack, Key: paid.key, Cost: max(1, c.jobs[i].Cost)}
			if paid.asked {
				by[paid.rule.Name] = append(by[paid.rule.Name], t)
			} else {
				c.a.refundShare(paid.rule, t)
			}
		}
		c.charged[i] = nil
	}
	if len(by) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout) // the caller may have left
	defer cancel()
	for rule, takes := range by {
		for len(takes) > 0 && !c.a.outages.has(rule) {
			n := min(len(takes), rules.MaxTakes)
			_, _ = c.a.ask(ctx, rule, takes[:n])
			takes = takes[n:]
		}
	}
}
