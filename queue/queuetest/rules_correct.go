package queuetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// tokenRule is a rule of 10 tokens a second, and 100 at once.
func tokenRule(name string, change ...func(*rules.Rule)) rules.Rule {
	return ruleOf(name, leaky.AlgorithmBudget, rules.Bound{Rate: leaky.PerSecond(10), Burst: 100}, change...)
}

// takesTokens takes from a rule and returns the id of the take.
func (r *rig) takesTokens(rule, key string, cost int64) string {
	r.Helper()
	a := r.takes(rule, key, cost, true)
	if a.ID == "" || a.Lease != "" {
		r.Fatalf("a take cannot be corrected: %+v", a)
	}
	return a.ID
}

// corrects corrects a take and returns the answer.
func (r *rig) corrects(rule, key, id string, actual int64) rules.Taken {
	r.Helper()
	a := r.take(rule, rules.Take{Op: rules.TakeCorrect, Key: key, ID: id, Cost: actual})[0]
	if a.Err != nil || a.ID != "" || a.Lease != "" {
		r.Fatalf("correct to %d: %+v, %v", actual, a, a.Err)
	}
	return a
}

// cannotCorrect checks that a correction is refused, and why.
func (r *rig) cannotCorrect(field, rule string, t rules.Take) {
	r.Helper()
	t.Op = rules.TakeCorrect
	a := r.take(rule, t)[0]
	r.refusesField(field, a.Err)
	if a.Decision != (leaky.Decision{}) {
		r.Errorf("got %+v", a)
	}
}

var correctRules = []rule{
	{"a take that cost less gives back the difference, and no more credit than the burst", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		id := r.takesTokens("r", "k", 80)
		r.clock.Advance(time.Second)
		if a := r.corrects("r", "k", id, 30); !a.Allowed || a.Limit != 100 {
			r.Errorf("got %+v", a)
		}
		r.checkRemaining("r", "k", 80)
		id = r.takesTokens("r", "k", 50)
		r.clock.Advance(4 * time.Second)
		r.corrects("r", "k", id, 0) // the rest is full anyway
		r.checkRemaining("r", "k", 100)
		first := r.takesTokens("r", "k", 90)
		r.clock.Advance(9 * time.Second)
		r.takesTokens("r", "k", 100)
		r.corrects("r", "k", first, 0) // all of it has come back
		r.checkRemaining("r", "k", 0)
	}},
	{"a take that cost more delays later ones, beyond the burst too", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		id := r.takesTokens("r", "k", 10)
		if a := r.corrects("r", "k", id, 250); a.Allowed || a.RetryAfter != 15*time.Second+100*time.Millisecond ||
			a.ResetAfter != 25*time.Second {
			r.Errorf("got %+v", a)
		}
		r.takes("r", "k", 1, false)
		r.takes("r", "other", 1, true)
		r.clock.Advance(15 * time.Second)
		r.takes("r", "k", 1, false)
		r.clock.Advance(100 * time.Millisecond)
		r.takes("r", "k", 1, true)
	}},
	{"a correction after all has come back still charges what is missing", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		id := r.takesTokens("r", "k", 10)
		r.clock.Advance(rules.CorrectFor)
		r.corrects("r", "k", id, 70)
		r.checkRemaining("r", "k", 40)
		r.keys("r", 1)
		gone := r.takesTokens("r", "k", 10)
		r.clock.Advance(rules.CorrectFor + time.Microsecond)
		r.cannotCorrect("take", "r", rules.Take{Key: "k", ID: gone, Cost: 70})
		r.checkRemaining("r", "k", 100)
	}},
	{"correcting twice has the effect of correcting once", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		for _, actual := range []int64{0, 20, 60} {
			id := r.takesTokens("r", "k", 20)
			list := []rules.Take{
				{Op: rules.TakeCorrect, Key: "k", ID: id, Cost: actual},
				{Op: rules.TakeCorrect, Key: "k", ID: id, Cost: actual},
				{Op: rules.TakeCorrect, Key: "k", ID: id, Cost: leaky.MaxUnits},
			}
			answers := r.take("r", list...)
			for _, a := range answers {
				if a.Err != nil || a != answers[0] {
					r.Errorf("got %+v, first %+v", a, answers[0])
				}
			}
			r.corrects("r", "k", id, 5)
			r.checkRemaining("r", "k", 100-actual)
			r.check(r.e.ResetRule(r.ctx, "r"))
		}
	}},
	{"a take is corrected in the call that follows it, beside others", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		first, second := r.takesTokens("r", "a", 40), r.takesTokens("r", "b", 40)
		answers := r.take(
			"r", rules.Take{Key: "a", Cost: 60}, rules.Take{Op: rules.TakeCorrect, Key: "a", ID: first, Cost: 10},
			rules.Take{Op: rules.TakeCorrect, Key: "b", ID: second, Cost: 110}, rules.Take{Key: "b"},
			rules.Take{Op: rules.TakePeek, Key: "a", Cost: 30},
		)
		for i, want := range []bool{true, true, false, false, true} {
			if a := answers[i]; a.Err != nil || a.Allowed != want {
				r.Errorf("question %d: %+v, %v", i, a, a.Err)
			}
		}
		r.checkRemaining("r", "a", 30)
	}},
	{"an unknown or foreign take cannot be corrected", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		r.putKeyed(tokenRule("other"))
		id := r.takesTokens("r", "k", 40)
		refused := r.takes("r", "k", 70, false)
		peeked := r.take("r", rules.Take{Op: rules.TakePeek, Key: "k"})[0]
		if refused.ID != "" || peeked.ID != "" {
			r.Errorf("a take that counts nothing has an id: %+v, %+v", refused, peeked)
		}
		r.cannotCorrect("take", "r", rules.Take{Key: "other", ID: id})
		r.cannotCorrect("take", "other", rules.Take{Key: "k", ID: id})
		r.cannotCorrect("take", "r", rules.Take{Key: "k", ID: id + "x"})
		r.cannotCorrect("take", "r", rules.Take{Key: "k", ID: "x"})
		r.checkRemaining("r", "k", 60)
		r.checkRemaining("other", "k", 100)
		r.keys("r", 1)
		r.corrects("r", "k", id, 0)
		id = r.takesTokens("r", "k", 40)
		r.check(r.e.ResetRule(r.ctx, "r"))
		r.takesTokens("r", "k", 40)
		r.cannotCorrect("take", "r", rules.Take{Key: "k", ID: id})
		r.deleteRule("r")
		r.putKeyed(tokenRule("r"))
		r.cannotCorrect("take", "r", rules.Take{Key: "k", ID: id})
	}},
	{"a correction after a reset of the key gives nothing back", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		id := r.takesTokens("r", "k", 40)
		r.take("r", rules.Take{Op: rules.TakeAnew, Key: "k"})
		r.clock.Advance(time.Microsecond)
		r.takesTokens("r", "k", 100)
		r.corrects("r", "k", id, 0)
		r.takes("r", "k", 1, false)
	}},
	{"a rule that changes forgives a debt beyond the burst, and refunds nothing of before", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		id, debt := r.takesTokens("r", "k", 60), r.takesTokens("r", "k", 1)
		r.corrects("r", "k", debt, 1000)
		r.clock.Advance(time.Second)
		r.putKeyed(tokenRule("r", func(r *rules.Rule) { r.Bound.Rate = leaky.PerSecond(20) }))
		if a := r.takes("r", "k", 1, false); a.ResetAfter != 5*time.Second {
			r.Errorf("got %+v", a)
		}
		r.corrects("r", "k", id, 0)
		r.clock.Advance(time.Second)
		r.checkRemaining("r", "k", 20)
	}},
	{"what is wrong with a cost or a correction is refused alone, with its field", func(r *rig) {
		r.putKeyed(tokenRule("r"))
		r.putKeyed(countingRule("plain", 5))
		id := r.takesTokens("r", "k", 10)
		for _, tt := range []struct {
			rule, field string
			take        rules.Take
		}{
			{"r", "costs.tokens", rules.Take{Key: "k", Unit: "tokens"}},
			{"r", "costs.tokens", rules.Take{Key: "k", Unit: "tokens", Cost: -1}},
			{"r", "costs.tokens", rules.Take{Key: "k", Unit: "tokens", Cost: 101}},
			{"r", "costs.tokens", rules.Take{Key: "k", Unit: "tokens", Cost: 1e18}},
			{"r", "costs.images", rules.Take{Key: "k", Unit: "images", Cost: 1}},
			{"r", "costs", rules.Take{Key: "k", Unit: "To kens", Cost: 1}},
			{"r", "costs", rules.Take{Key: "k", Unit: strings.Repeat("u", 10<<20), Cost: 1}},
			{"r", "take", rules.Take{Key: "k", ID: id}},
			{"r", "lease", rules.Take{Key: "k", Cost: 1, Lease: "l"}},
			{"r", "op", rules.Take{Op: rules.TakeBack, Key: "k", Cost: 1}},
			{"r", "take", rules.Take{Op: rules.TakeCorrect, Key: "k", Unit: "tokens"}},
			{"r", "take", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: "a b", Unit: "tokens"}},
			{"r", "take", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: strings.Repeat("i", 10<<20), Unit: "tokens"}},
			{"r", "actual.tokens", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: id, Unit: "tokens", Cost: -1}},
			{"r", "actual.tokens", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: id, Unit: "tokens", Cost: 1e18}},
			{"r", "actual.tokens", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: id, Cost: 1}},
			{"r", "actual.images", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: id, Unit: "images", Cost: 1}},
			{"plain", "op", rules.Take{Op: rules.TakeCorrect, Key: "k", ID: id}},
			{"plain", "costs.tokens", rules.Take{Key: "k", Unit: "tokens", Cost: 1}},
		} {
			got, err := r.e.Take(r.ctx, tt.rule, []rules.Take{tt.take, {Op: rules.TakeAnew, Key: "good"}})
			r.check(err)
			r.refusesField(tt.field, got[0].Err)
			if got[0].Decision != (leaky.Decision{}) || got[0].ID != "" || got[1].Err != nil ||
				len(got[0].Err.Error()) > 500 {
				r.Errorf("%s %+.80v: %+v", tt.rule, tt.take, got)
			}
		}
		got, err := r.e.Take(r.ctx, "r", []rules.Take{{Key: "k", Cost: 1}})
		r.check(err)
		r.refusesField("costs.tokens", got[0].Err)
		r.checkRemaining("r", "k", 90)
		r.corrects("r", "k", id, 0)
	}},
	{"a budget needs a unit, and only a budget has one", func(r *rig) {
		for _, tt := range []struct {
			field string
			rule  rules.Rule
		}{
			{"unit", tokenRule("r", func(r *rules.Rule) { r.Unit = "" })},
			{"unit", tokenRule("r", func(r *rules.Rule) { r.Unit = "jobs" })},
			{"unit", tokenRule("r", func(r *rules.Rule) { r.Unit = "Tokens" })},
			{"unit", countingRule("r", 5, func(r *rules.Rule) { r.Unit = "tokens" })},
			{"burst", tokenRule("r", func(r *rules.Rule) { r.Burst = leaky.MaxUnits + 1 })},
			{"period", tokenRule("r", func(r *rules.Rule) { r.Period = second })},
		} {
			_, err := r.e.PutRule(r.ctx, tt.rule, queue.AnyRevision)
			r.refusesField(tt.field, err)
		}
		r.limiter(tokenRule("g.tokens"))
		_, err := r.e.Put(r.ctx, spec("g", "1/s", asks("g.tokens")), queue.AnyRevision)
		r.refusesField("rules.0", err)
		r.limiter(countingRule("g.r", 5))
		r.queue("g.q", "1/s", asks("g.r"))
		_, err = r.e.PutRule(r.ctx, tokenRule("g.r"), queue.AnyRevision)
		r.refusesField("algorithm", err)
	}},
	{"corrections need no room for their key", func(r *rig) {
		r.putKeyed(tokenRule("r", holds(1)))
		id := r.takesTokens("r", "k", 10)
		r.clock.Advance(time.Minute)
		r.takesTokens("r", "other", 100)
		r.corrects("r", "k", id, 60)
		r.checkRemaining("r", "k", 50)
		r.clock.Advance(10 * time.Second)
		r.takes("r", "third", 1, true)
	}},
	{"a key in debt counts as one until the debt is paid", func(r *rig) {
		r.putKeyed(tokenRule("r", holds(1)))
		id := r.takesTokens("r", "k", 10)
		r.corrects("r", "k", id, 100_000)
		for range 20 {
			r.noKey("r", "other", 1)
			r.clock.Advance(8 * time.Minute)
		}
		r.clock.Advance(10 * time.Minute)
		r.takes("r", "other", 1, true)
	}},
	{"a crowd corrects each take once", func(r *rig) {
		r.putKeyed(tokenRule("r", func(r *rules.Rule) { r.Bound = rules.Bound{Rate: rate("12/h"), Burst: 100_000} }))
		var mu sync.Mutex
		left := int64(100_000)
		r.crowd(16, func(w int) int {
			rnd := rand.New(rand.NewPCG(uint64(w), 33))
			for range 10 {
				got, err := r.e.Take(r.ctx, "r", []rules.Take{{Key: "k", Unit: "tokens", Cost: 100}})
				if err != nil || len(got) != 1 || !got[0].Allowed {
					r.Errorf("take: %+v, %v", got, err)
					return 0
				}
				actual := rnd.Int64N(200)
				back := rules.Take{Op: rules.TakeCorrect, Key: "k", ID: got[0].ID, Unit: "tokens", Cost: actual}
				for range 2 {
					if got, err := r.e.Take(r.ctx, "r", []rules.Take{back, back}); err != nil || got[1].Err != nil {
						r.Errorf("correct: %+v, %v", got, err)
						return 0
					}
				}
				mu.Lock()
				left -= actual
				mu.Unlock()
			}
			return 0
		})
		r.checkRemaining("r", "k", left)
	}},
	{"random takes and corrections are answered as the arithmetic answers them", func(r *rig) {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 33))
			list := bounds[leaky.AlgorithmBudget]
			rule := ruleOf(fmt.Sprint("g.r", seed), leaky.AlgorithmBudget, list[seed%3], withKey("{lane}"))
			if seed%4 == 3 {
				rule.Action = rules.Shadow
			}
			rule.Overrides = map[string]rules.Bound{"vip": list[1]}
			r.putRule(rule)
			o := newOracle(rule)
			most := rule.Burst
			for range 60 {
				list := make([]rules.Take, 1+rnd.IntN(6))
				for i := range list {
					t := rules.Take{Key: []string{"a", "b", "vip"}[rnd.IntN(3)], Cost: 1 + rnd.Int64N(most)}
					switch rnd.IntN(8) {
					case 0:
						t.Op = rules.TakePeek
					case 1, 2, 3:
						t.Op, t.Cost = rules.TakeCorrect, rnd.Int64N(2*most)
					}
					list[i] = t
				}
				r.strolls(rnd, r.asksOf(o, list...))
			}
		}
	}},
}
