package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// simRules are one rule that jobs of the queue "limited" ask under the key of their lane, and one for all of them;
// takes by name are added. One rule defers jobs of the queue "waits". The others are only asked by name.
var simRules = []rules.Rule{
	simLimiter("limited.meter", "{lane}", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(4), Burst: 5}),
	simLimiter("limited.log", "", leaky.AlgorithmSlidingLog, simBound(40, 2*time.Second)),
	simLimiter("waits.meter", "", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(30), Burst: 10}),
	simLimiter("takes.tokens", "{lane}", leaky.AlgorithmTokenBucket, rules.Bound{Rate: leaky.PerSecond(6), Burst: 8}),
	simLimiter("takes.window", "{lane}", leaky.AlgorithmFixedWindow, simBound(6, time.Second)),
	simLimiter("takes.counter", "{lane}", leaky.AlgorithmSlidingCounter, simBound(6, time.Second)),
	simLimiter("takes.gap", "{lane}", leaky.AlgorithmGap, simBound(0, 200*time.Millisecond)),
	simLimiter("takes.budget", "{lane}", leaky.AlgorithmBudget, rules.Bound{Rate: leaky.PerSecond(6), Burst: 8}),
	simLimiter("takes.places", "{lane}", leaky.AlgorithmConcurrency, rules.Bound{
		Limit: 4, TTL: unit.Duration(time.Second),
	}),
}

func simLimiter(name, key string, a leaky.Algorithm, b rules.Bound) rules.Rule {
	r := rules.Rule{Name: name, Key: key, Algorithm: a, Bound: b}
	switch name {
	case "waits.meter":
		r.Action = rules.Defer
	case "takes.budget":
		r.Unit = "tokens"
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
//   - takes allowed under a key keep its law, also over crashes, except for takes that were not saved yet
//   - answers follow exactly from what was taken: what the jobs of a failed commit took counts as never asked for,
//     whatever was taken meanwhile
//   - a take is corrected once, as long as the process lives
type simRule struct {
	base    rules.Rule
	rule    rules.Rule // as of the latest decision
	held    rules.Rule // as of what holds
	tallies map[string]*simTally
	open    []*simOpenTake // the takes that could be corrected
}

// simOpenTake is a take that can be corrected. Its charge stands once its process died.
type simOpenTake struct {
	id, key string
	set     uint64 // as of the take
	was     leaky.Correction
	done    bool
	gone    bool // its process died
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

// asked notes the answer to a take, and compares it with what was taken. If the take changed something, it returns the
// op.
func (s *simulation) asked(
	r *simRule, key string, now leaky.Instant, op rules.TakeOp, ask leaky.Ask, said leaky.Decision,
) *simTake {
	return s.answers(r, &simTake{tally: r.tally(key), at: now, op: op, ask: ask, by: r.limiter()}, key, said)
}

func (s *simulation) answers(r *simRule, o *simTake, key string, said leaky.Decision) *simTake {
	op, ask, now := o.op, o.ask, o.at
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

// ruled notes the rulings on an appended job, and returns what it took.
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

// judgeRules judges all takes so far, and begins new traces: from now on other numbers apply.
func (s *simulation) judgeRules() {
	for _, r := range s.rules {
		for _, t := range r.tallies {
			t.judge(s)
			t.passed = t.passed[:0]
		}
	}
}

// simTally is what was taken under a key.
type simTally struct {
	rule   *simRule
	digest queue.LaneDigest
	state  simState // what holds for good
	ops    []*simTake
	view   simState   // including ops that wait for their commit
	passed []*simTake // the latest takes that were allowed
	disk   simState   // as of the last commit that has it
	set    uint64     // of the disk
	number uint64     // of its record there
}

// simTake is a change of a tally: it holds, or waits for a commit that may fail.
type simTake struct {
	tally *simTally
	at    leaky.Instant
	op    rules.TakeOp
	ask   leaky.Ask
	was   leaky.Correction // of a take to correct
	by    leaky.Limiter
	fate  simFate
	saved bool // it is on disk
}

type simFate uint8

const (
	simPending simFate = iota
	simHolds
	simLost
)

// simAnew is a reset of the rule.
const simAnew rules.TakeOp = 100

// simState is the state of a key, and the limiter by which it was written.
type simState struct {
	tally   leaky.Tally // nil is a fresh one
	by      leaky.Limiter
	expires leaky.Instant
}

// as returns the state as a limiter reads it.
func (s *simState) as(by leaky.Limiter, now leaky.Instant) leaky.Tally {
	switch {
	case s.tally == nil || s.expires <= now:
		return by.Fresh()
	case s.by == by:
		return s.tally
	}
	text, _ := s.tally.AppendBinary(nil)
	return restoreOrFresh(text, by)
}

func (s *simState) clone() simState {
	c := *s
	if s.tally != nil {
		c.tally = s.tally.Clone()
	}
	return c
}

// apply changes the state by an op, and returns the answer.
func (s *simState) apply(o *simTake) (d leaky.Decision) {
	t := s.as(o.by, o.at)
	switch o.op {
	case rules.TakePeek:
		return t.Peek(o.at, o.ask)
	case rules.TakeNow:
		d = t.Take(o.at, o.ask)
	case rules.TakeBack:
		d = t.Refund(o.at, o.ask)
	case rules.TakeCorrect:
		d = t.(leaky.Corrector).Correct(o.at, o.was)
	default:
		t = o.by.Fresh()
		d = t.Peek(o.at, oneMore)
	}
	s.tally, s.by, s.expires = t, o.by, t.Expires(o.at)
	return d
}

func (r *simRule) tally(key string) *simTally {
	t := r.tallies[key]
	if t == nil {
		t = &simTally{rule: r, digest: queue.DigestLane(key)}
		r.tallies[key] = t
	}
	return t
}

// settleTakes notes the fate of ops.
func (s *simulation) settleTakes(list []*simTake, fate simFate) {
	for _, o := range list {
		if o.fate != simPending {
			continue
		}
		o.fate = fate
		t := o.tally
		for len(t.ops) > 0 && t.ops[0].fate != simPending {
			if t.ops[0].fate == simHolds {
				t.hold(s, t.ops[0])
			}
			t.ops = t.ops[1:]
		}
		if fate == simLost {
			t.review()
		}
	}
}

// review recomputes the view.
func (t *simTally) review() {
	t.view = t.state.clone()
	for _, o := range t.ops {
		if o.fate != simLost {
			t.view.apply(o)
		}
	}
}

// hold applies an op that holds.
func (t *simTally) hold(s *simulation, o *simTake) {
	t.state.apply(o)
	if o.op != rules.TakeNow {
		t.judge(s) // refunded takes do not count as passed
		t.passed = t.passed[:0]
		return
	}
	if t.passed = append(t.passed, o); len(t.passed) >= 64 {
		t.judge(s)
		t.passed = t.passed[:copy(t.passed, t.passed[32:])]
	}
}

// judge checks allowed takes against the law.
func (t *simTally) judge(s *simulation) {
	if len(t.passed) == 0 {
		return
	}
	list := make([]law.Passed, len(t.passed))
	for i, o := range t.passed {
		at := time.Duration(o.at) * time.Microsecond
		list[i] = law.Passed{Asked: at, Answered: at, Cost: o.ask.Cost}
	}
	if v := (law.Admission{By: t.passed[0].by}).Judge(list); !v.Held {
		s.fail("%s: %d passed in %v, %d may", t.rule.rule.Name, v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
	}
}
