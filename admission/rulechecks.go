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

// ruleChecks is the jobs of one call, whose rules are asked one after the other: not in one step with the append, as
// the engine does.
type ruleChecks struct {
	a       *Admission
	jobs    []queue.Job
	answers []queue.Appended // Accepted: it may go on
	limited []time.Duration  // to be put aside, as Job.Limited says; it may go on, and is charged nothing
	asks    [][]ruleset.Ask
	charged [][]charge
}

// charge is what a job took.
type charge struct {
	rule  *rules.Rule
	key   string
	asked bool // of the store
}

// checkRules asks some of the rules of jobs. It is nil if there are none to ask.
func (a *Admission) checkRules(ctx context.Context, jobs []queue.Job, some ruleFilter) *ruleChecks {
	var checks *ruleChecks
	var set ruleset.Set
	var err error
	for i := range jobs {
		if name := jobs[i].Queue; i == 0 || name != jobs[i-1].Queue {
			set, err = a.ruleset(ctx, name, some)
		}
		if set == nil && (err == nil || errors.Is(err, queue.ErrUnknownQueue)) {
			continue // who takes the jobs says what is wrong
		}
		if checks == nil {
			checks = &ruleChecks{
				a: a, jobs: jobs, answers: make([]queue.Appended, len(jobs)), limited: make([]time.Duration, len(jobs)),
				asks: make([][]ruleset.Ask, len(jobs)), charged: make([][]charge, len(jobs)),
			}
			for k := range checks.answers {
				checks.answers[k] = queue.Appended{Outcome: queue.Accepted, ID: jobs[k].ID}
				checks.limited[k] = jobs[k].Limited
			}
		}
		checks.prepare(i, set, err)
	}
	if checks == nil {
		return nil
	}
	for checks.round(ctx) {
	}
	checks.settle(ctx)
	return checks
}

// prepare finds what a job asks.
func (checks *ruleChecks) prepare(i int, set ruleset.Set, err error) {
	if err != nil {
		checks.fail(i, err)
		return
	}
	job := checks.jobs[i]
	job.Normalize()
	if job.Validate() != nil {
		return // who takes it says so
	}
	asks, err := set.Asks(&job)
	if err != nil {
		checks.fail(i, err)
		return
	}
	checks.asks[i] = asks
}

// fail answers for a job that could not be decided about, or is at fault itself.
func (checks *ruleChecks) fail(i int, err error) {
	var field *invalid.Error
	var missing *ruleset.Missing
	checks.answers[i].Outcome, checks.answers[i].Err = queue.Failed, err
	switch {
	case errors.As(err, &missing):
		checks.a.missing.report(missing)
	case errors.As(err, &field):
		checks.answers[i].Outcome, checks.answers[i].Err = queue.Invalid, field
	}
}

// round asks for each job that is still let through the next of its rules, and reports whether there were any.
func (checks *ruleChecks) round(ctx context.Context) bool {
	var asked []string
	by := map[string][]int{} // the jobs that ask it next
	for i := range checks.jobs {
		if checks.answers[i].Outcome == queue.Accepted && len(checks.asks[i]) > 0 {
			name := checks.asks[i][0].Rule.Name
			if by[name] == nil {
				asked = append(asked, name)
			}
			by[name] = append(by[name], i)
		}
	}
	for _, rule := range asked {
		for at := by[rule]; len(at) > 0; {
			n := min(len(at), rules.MaxTakes)
			checks.take(ctx, rule, at[:n])
			at = at[n:]
		}
	}
	return len(asked) > 0
}

// take asks one rule about some jobs.
func (checks *ruleChecks) take(ctx context.Context, rule string, at []int) {
	takes := make([]rules.Take, len(at))
	for k, i := range at {
		takes[k] = rules.Take{Key: checks.asks[i][0].Key, Cost: max(1, checks.jobs[i].Cost)}
		if checks.limited[i] > 0 { // what is asked yet is whether it is refused for good
			takes[k].Op = rules.TakePeek
		}
	}
	taken, asked, err := checks.a.take(ctx, rule, takes)
	for k, i := range at {
		ask := checks.asks[i][0]
		checks.asks[i] = checks.asks[i][1:]
		if err == nil && len(taken) != len(at) {
			err = queue.ErrOutcomeUnknown // no engine answers so
		}
		switch {
		case errors.Is(err, rules.ErrUnknown): // since its queue was looked at
			checks.fail(i, &ruleset.Missing{Queue: checks.jobs[i].Queue, Rule: rule, Reason: notThere})
			continue
		case err != nil:
			checks.fail(i, err)
			continue
		}
		checks.note(i, ask, &taken[k], asked)
	}
}

// note takes in what a rule said of a job.
func (checks *ruleChecks) note(i int, ask ruleset.Ask, t *rules.Taken, asked bool) {
	answer := &checks.answers[i]
	shadow := ask.Rule.Action == rules.Shadow
	if t.Err != nil {
		if !shadow {
			checks.fail(i, t.Err)
		}
		return
	}
	answer.Rules = append(answer.Rules, rules.Ruling{
		Rule: ask.Rule.Name, Shadow: shadow, Away: t.Away, MaxKeys: t.MaxKeys, Decision: t.Decision,
	})
	wait := max(t.RetryAfter, checks.limited[i], time.Millisecond)
	switch {
	case t.Allowed && checks.limited[i] == 0:
		checks.charged[i] = append(checks.charged[i], charge{ask.Rule, ask.Key, asked})
	case t.Allowed || shadow:
	case ask.Rule.Action == rules.Defer && checks.jobs[i].Overflow != queue.Reject:
		checks.limited[i] = wait
	default:
		answer.Outcome, answer.RetryAfter = queue.LimitReached, wait
	}
}

// settle gives back what those took that another rule did not let through.
func (checks *ruleChecks) settle(ctx context.Context) {
	var out []int
	for i := range checks.answers {
		if checks.answers[i].Outcome != queue.Accepted || checks.limited[i] > 0 {
			out = append(out, i)
		}
	}
	checks.back(ctx, out)
}

// back gives back what jobs took that did not come in. What cannot be given back drains by itself.
func (checks *ruleChecks) back(ctx context.Context, at []int) {
	by := map[string][]rules.Take{}
	for _, i := range at {
		for _, c := range checks.charged[i] {
			t := rules.Take{Op: rules.TakeBack, Key: c.key, Cost: max(1, checks.jobs[i].Cost)}
			if c.asked {
				by[c.rule.Name] = append(by[c.rule.Name], t)
			} else {
				checks.a.refundShare(c.rule, t)
			}
		}
		checks.charged[i] = nil
	}
	if len(by) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout) // the caller may have left
	defer cancel()
	for rule, takes := range by {
		for len(takes) > 0 && !checks.a.outages.has(rule) {
			n := min(len(takes), rules.MaxTakes)
			_, _ = checks.a.ask(ctx, rule, takes[:n])
			takes = takes[n:]
		}
	}
}
