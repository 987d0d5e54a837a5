package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// simTaker takes from rules by name, and gives some back.
type simTaker struct{ *simulation }

func (t *simTaker) take() {
	if t.ending {
		return
	}
	c := &simTakes{of: t, rule: t.rules[t.IntN(len(t.rules))]}
	for range t.IntN(3) + 1 {
		k := rules.Take{Cost: t.Int64N(2) + 1}
		if c.rule.rule.Key != "" {
			k.Key = simLanes[t.IntN(len(simLanes))]
		}
		switch t.IntN(12) {
		case 0:
			k.Op = rules.TakePeek
		case 1, 2:
			k.Op = rules.TakeBack
		case 3:
			if t.IntN(5) == 0 {
				k.Op = rules.TakeAnew
			}
		}
		switch c.rule.rule.Algorithm {
		case leaky.AlgorithmConcurrency:
			k.Lease = fmt.Sprint("p", t.IntN(9))
		case leaky.AlgorithmGap:
			k.Cost = 1
		case leaky.AlgorithmBudget:
			t.spend(c.rule, &k)
		}
		c.takes = append(c.takes, k)
		c.keys = append(c.keys, queue.DigestLane(k.Key))
	}
	if t.IntN(8) == 0 {
		c.entry = &audit.Entry{Of: string(queue.OfRule), Name: c.rule.rule.Name}
	}
	t.operations += len(c.takes)
	t.do(c)
}

// spend makes a take one of tokens, and a refund a correction.
func (t *simTaker) spend(r *simRule, k *rules.Take) {
	k.Unit = r.rule.Unit
	if k.Op != rules.TakeBack {
		return
	}
	k.Op, k.Cost, k.ID = rules.TakeCorrect, t.Int64N(6), "unknown"
	if n := len(r.open); n > 0 {
		o := r.open[n-1-t.IntN(min(n, 20))]
		k.ID, k.Key = o.id, o.key
	}
}

// corrected notes the answer to a correction.
func (t *simTaker) corrected(r *simRule, k *rules.Take, now leaky.Instant, said *rules.Taken) {
	i := slices.IndexFunc(r.open, func(o *simOpenTake) bool { return o.id == k.ID })
	set := t.store.rules[r.rule.Name].tallies.number
	known := i >= 0 && !r.open[i].gone && r.open[i].set == set
	if known != (said.Err == nil) {
		t.fail("the take %s of %s is corrected, known: %v: %+v", k.ID, r.rule.Name, known, said)
	}
	if !known {
		return
	}
	open := r.open[i]
	o := &simTake{tally: r.tally(k.Key), at: now, op: rules.TakeCorrect, was: open.was, by: r.limiter()}
	if o.was.Actual = k.Cost; open.done {
		o.op = rules.TakePeek
	}
	open.done = true
	if o := t.answers(r, o, k.Key, said.Decision); o != nil {
		t.settleTakes([]*simTake{o}, simHolds)
	}
}

// opened notes a take that can be corrected.
func (t *simTaker) opened(r *simRule, k *rules.Take, now leaky.Instant, said *rules.Taken) {
	if said.ID == "" {
		return
	}
	r.open = append(r.open, &simOpenTake{
		id: said.ID, key: k.Key, set: t.store.rules[r.rule.Name].tallies.number,
		was: leaky.Correction{At: now, Charged: k.Cost},
	})
}

// simTakes is one call of Take.
type simTakes struct {
	of    *simTaker
	rule  *simRule
	takes []rules.Take
	keys  []queue.LaneDigest
	entry *audit.Entry // of the audit log; takes are not repeated if there was no room for it
	taken []rules.Taken
}

func (c *simTakes) decide(now leaky.Instant) (wait uint64, err error) {
	if c.taken != nil {
		return 0, nil
	}
	t := c.of
	c.taken, wait, err = t.store.Take(now, c.rule.rule.Name, c.takes, c.keys, c.entry)
	for i := range c.taken {
		k, said := &c.takes[i], &c.taken[i]
		if k.Op == rules.TakeCorrect {
			t.corrected(c.rule, k, now, said)
			continue
		}
		t.opened(c.rule, k, now, said)
		if said.Err != nil {
			t.fail("%s is asked for %+v: %v", c.rule.rule.Name, k, said.Err)
		}
		if said.MaxKeys != 0 {
			continue
		}
		if o := t.asked(c.rule, k.Key, now, k.Op, c.ask(k), said.Decision); o != nil {
			t.settleTakes([]*simTake{o}, simHolds) // it is answered, so it holds while the process lives
		}
	}
	return wait, err
}

// ask returns what a take asks of a limiter.
func (c *simTakes) ask(k *rules.Take) leaky.Ask {
	a := leaky.Ask{Cost: k.Cost, Lease: k.Lease}
	if k.Op == rules.TakeAnew || k.Op == rules.TakeBack && k.Lease != "" {
		a.Cost = 1
	}
	return a
}

func (c *simTakes) holds(bool) {}

func (c *simTakes) undone() {}

func (c *simTakes) answered(err error) {
	t := c.of
	if c.taken == nil && err == nil { // the rule was not durable, and is now
		t.do(c)
		return
	}
	t.later(t.upTo(400*time.Millisecond), t.take)
}

// changeRule changes the numbers of a rule, or resets it.
func (s *simulation) changeRule(_ *simQueue, next func()) {
	r := s.rules[s.IntN(len(s.rules))]
	if s.IntN(2) == 0 {
		s.resetRule(r, next)
		return
	}
	to := r.base
	by := s.Int64N(3) + 1
	to.Limit *= by
	if to.Burst *= by; to.Algorithm == leaky.AlgorithmGap {
		to.Period *= unit.Duration(by)
	}
	s.putRule(r, to, next)
}

func (s *simulation) putRule(r *simRule, to rules.Rule, next func()) {
	text, err := NewRuleText(to)
	if err != nil {
		s.fail("%v", err)
		return
	}
	s.do(&simAct{
		of: s, what: fmt.Sprintf("put the rule %s: %+v", to.Name, to.Bound), then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			if _, wait, err = s.store.PutRule(now, audit.Actor{}, text, queue.AnyRevision); err == nil {
				r.rule = to
			}
			return wait, err
		},
		held: func() {
			s.judgeRules()
			r.held = to
		},
		lost: func() { r.rule = r.held },
	})
}

func (s *simulation) resetRule(r *simRule, next func()) {
	var ops []*simTake
	s.do(&simAct{
		of: s, what: "reset the rule " + r.rule.Name, then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			if wait, err = s.store.ResetRule(now, audit.Actor{}, r.rule.Name); err != nil {
				return wait, err
			}
			for _, key := range simKeys {
				t := r.tally(key)
				o := &simTake{tally: t, at: now, op: simAnew, by: r.limiter()}
				t.view.apply(o)
				t.ops, ops = append(t.ops, o), append(ops, o)
			}
			return wait, nil
		},
		held: func() { s.settleTakes(ops, simHolds) },
		lost: func() {
			s.settleTakes(ops, simLost)
			ops = nil
		},
	})
}

// simKeys are all keys of rules.
var simKeys = append([]string{""}, simLanes...)
