package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// simRules are one that jobs of the queue "limited" are asked by, under the key of their lane, and one of all of them;
// what is taken by name comes on top. One puts jobs of the queue "waits" aside. The others are only taken from.
var simRules = []rules.Rule{
	simLimiter("limited.meter", "{lane}", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(4), Burst: 5}),
	simLimiter("limited.log", "", leaky.AlgorithmSlidingLog, simBound(40, 2*time.Second)),
	simLimiter("waits.meter", "", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(30), Burst: 10}),
	simLimiter("takes.tokens", "{lane}", leaky.AlgorithmTokenBucket, rules.Bound{Rate: leaky.PerSecond(6), Burst: 8}),
	simLimiter("takes.window", "{lane}", leaky.AlgorithmFixedWindow, simBound(6, time.Second)),
	simLimiter("takes.counter", "{lane}", leaky.AlgorithmSlidingCounter, simBound(6, time.Second)),
	simLimiter("takes.gap", "{lane}", leaky.AlgorithmGap, simBound(0, 200*time.Millisecond)),
	simLimiter("takes.places", "{lane}", leaky.AlgorithmConcurrency, rules.Bound{
		Limit: 4, TTL: unit.Duration(time.Second),
	}),
}

func simLimiter(name, key string, a leaky.Algorithm, b rules.Bound) rules.Rule {
	r := rules.Rule{Name: name, Key: key, Algorithm: a, Bound: b}
	switch name {
	case "waits.meter":
		r.Action = rules.Defer
	case "takes.window":
		r.MaxKeys = 4
	}
	return r
}

func simBound(limit int64, period time.Duration) rules.Bound {
	return rules.Bound{Limit: limit, Period: unit.Duration(period)}
}

// simRule is what the world knows of a rule. It must hold that
//
//   - what a rule lets through under a key keeps its law, over crashes too, but for takes that were not saved yet
//   - what it answers is what follows from all that was taken, no more and no less: what a commit took that failed is
//     as if it had not been asked for, whatever was taken meanwhile
type simRule struct {
	base    rules.Rule
	rule    rules.Rule // as of the latest decision
	held    rules.Rule // as of what holds
	tallies map[string]*simTally
}

func newSimRules() (list []*simRule) {
	for _, r := range simRules {
		r.Normalize()
		list = append(list, &simRule{base: r, rule: r, held: r, tallies: map[string]*simTally{}})
	}
	return list
}

func (r *simRule) limiter() leaky.Limiter {
	l, err := r.rule.Bound.Limiter(r.rule.Algorithm)
	if err != nil {
		panic(err)
	}
	return l
}

// asked is told what the store answered to a take, and holds it against what was taken. If that changed something it
// returns the op.
func (s *simulation) asked(
	r *simRule, key string, now leaky.Instant, op rules.TakeOp, ask leaky.Ask, said leaky.Decision,
) *simTake {
	o := &simTake{tally: r.tally(key), at: now, op: op, ask: ask, by: r.limiter()}
	if want := o.tally.view.apply(o); want != said {
		s.fail("%s under %q is asked to %v %d at %v, and answers %+v; by what was taken it is %+v", r.rule.Name, key, op,
			ask.Cost, now.Sub(noon), said, want)
	}
	if op == rules.TakePeek || op == rules.TakeNow && !said.Allowed {
		return nil
	}
	if s.traced {
		s.note("%v %d from %s under %q: %+v", op, ask.Cost, r.rule.Name, key, said)
	}
	o.tally.ops = append(o.tally.ops, o)
	return o
}

// ruled is told what rules said of a job that was appended, and returns what it took from them.
func (s *simulation) ruled(j *simJob, a *queue.Appended, now leaky.Instant) (took []*simTake) {
	_, _, refused := rules.Limited(a.Rules)
	charged := !refused && (a.Outcome == queue.Accepted || a.Outcome == queue.SetAside)
	for i := range a.Rules {
		said := &a.Rules[i]
		r := s.rule(said.Rule)
		if said.MaxKeys != 0 {
			continue
		}
		key, ask := "", leaky.Ask{Cost: j.Cost}
		if r.rule.Key != "" {
			key = j.Lane
		}
		s.asked(r, key, now, rules.TakePeek, ask, said.Decision)
		o := &simTake{tally: r.tally(key), at: now, ask: ask, by: r.limiter()}
		switch {
		case charged && said.Allowed:
			o.tally.view.apply(o)
			o.tally.ops = append(o.tally.ops, o)
			took = append(took, o)
		case !said.Allowed:
			o.tally.view.apply(o) // as a refusal corrects it
		}
	}
	return took
}

func (s *simulation) rule(name string) *simRule {
	return s.rules[slices.IndexFunc(s.rules, func(r *simRule) bool { return r.rule.Name == name })]
}

// judgeRules judges what passed so far, and begins new traces: other numbers hold from now on.
func (s *simulation) judgeRules() {
	for _, r := range s.rules {
		for _, t := range r.tallies {
			t.judge(s)
			t.passed = t.passed[:0]
		}
	}
}
