package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

var takeRules = []rule{
	{"each algorithm answers random takes as its arithmetic does", func(r *rig) {
		n := 0
		for _, a := range rules.Algorithms() {
			list := bounds[a]
			if len(list) == 0 {
				r.Errorf("there are no bounds for %s: add some to the variable bounds", a)
			}
			for i, b := range list {
				rnd := rand.New(rand.NewPCG(uint64(i), uint64(len(a))))
				rule := ruleOf(
					fmt.Sprintf("g%d.%s%d", n%3, a, i), a, b,
					func(r *rules.Rule) { r.Overrides = map[string]rules.Bound{"vip": list[0]} },
				)
				n++
				r.limiter(rule)
				o := newOracle(rule)
				l, _ := b.Limiter(a)
				for range 120 {
					got := r.asksOf(o, questions(rnd, a, min(l.Limit(), 50), 1+rnd.IntN(8))...)
					r.strolls(rnd, got)
				}
			}
		}
	}},
	{"a tally survives a change of numbers, as the arithmetic interprets it", func(r *rig) {
		for _, a := range rules.Algorithms() {
			list := changeable(a)
			rnd := rand.New(rand.NewPCG(7, uint64(len(a))))
			// With an override, keys are distinguished, and the empty key is one too.
			other := func(r *rules.Rule) { r.Overrides = map[string]rules.Bound{"other": list[0]} }
			rule := ruleOf("g."+string(a), a, list[0], other)
			r.limiter(rule)
			o := newOracle(rule)
			for range 200 {
				if rnd.IntN(5) == 0 {
					rule = ruleOf(rule.Name, a, list[rnd.IntN(len(list))], other)
					if rnd.IntN(2) == 0 {
						rule.Overrides["vip"] = list[rnd.IntN(len(list))]
					}
					r.putRule(rule)
					o.changes(rule)
				}
				got := r.asksOf(o, questions(rnd, a, 5, 1+rnd.IntN(4))...)
				r.strolls(rnd, got)
			}
		}
	}},
	{"another algorithm starts anew, and so does the first one when restored", func(r *rig) {
		rule := countingRule("r", 2)
		r.putKeyed(rule)
		r.takes("r", "a", 2, true)
		r.takes("r", "a", 1, false)
		other := ruleOf("r", leaky.AlgorithmSlidingLog, rule.Bound)
		r.putKeyed(other)
		r.takes("r", "a", 2, true)
		r.takes("r", "a", 1, false)
		r.putKeyed(rule)
		r.takes("r", "a", 2, true)
		r.takes("r", "a", 1, false)
		token := rules.Bound{Rate: rate("2/m"), Burst: 2}
		// Their states are the same.
		for _, a := range []leaky.Algorithm{leaky.AlgorithmMeter, leaky.AlgorithmTokenBucket} {
			r.putKeyed(ruleOf("r", a, token))
			r.takes("r", "a", 2, true)
			r.takes("r", "a", 1, false)
		}
	}},
	{"a change of other fields resets nothing", func(r *rig) {
		rule := countingRule("r", 2)
		r.putKeyed(rule)
		r.takes("r", "a", 2, true)
		for _, change := range []func(*rules.Rule){
			withKey("{lane}"), withAction(rules.Defer), withAction(rules.Shadow),
			func(r *rules.Rule) { r.Away = rules.AwayOpen },
		} {
			change(&rule)
			r.putKeyed(rule)
			r.takes("r", "a", 1, false)
		}
	}},
	{"a tally far ahead of the new numbers drains from the first refusal on", func(r *rig) {
		for a, numbers := range map[leaky.Algorithm][2]rules.Bound{
			leaky.AlgorithmMeter:       {{Rate: rate("1/744h"), Burst: 5}, {Rate: leaky.PerSecond(5), Burst: 5}},
			leaky.AlgorithmTokenBucket: {{Rate: rate("1/744h"), Burst: 5}, {Rate: leaky.PerSecond(5), Burst: 5}},
			leaky.AlgorithmGap:         {{Period: unit.Duration(leaky.MaxInterval)}, {Period: second}},
			leaky.AlgorithmSlidingLog:  {{Limit: 5, Period: 3600 * second}, {Limit: 5, Period: second}},
			leaky.AlgorithmConcurrency: {{Limit: 5, TTL: 3600 * second}, {Limit: 5, TTL: second}},
		} {
			rule := ruleOf("r."+string(a), a, numbers[0])
			r.putKeyed(rule)
			l, _ := rule.Limiter(a)
			r.takes(rule.Name, "k", l.Limit(), true)
			rule.Bound = numbers[1]
			r.putKeyed(rule)
			r.clock.Advance(time.Microsecond) // less than the log remembers
			r.take(rule.Name, rules.Take{Op: rules.TakePeek, Key: "k"})
			r.clock.Advance(time.Minute)
			d := r.take(rule.Name, rules.Take{Key: "k"})[0]
			if a == leaky.AlgorithmSlidingLog { // which keeps no future instant
				if !d.Allowed {
					r.Errorf("%s: %+v", a, d)
				}
				continue
			}
			if d.Allowed || d.RetryAfter > time.Second {
				r.Errorf("%s: %+v", a, d)
			}
			r.clock.Advance(d.RetryAfter)
			r.takes(rule.Name, "k", 1, true)
		}
	}},
	{"a tally that expired under its numbers is fresh under any", func(r *rig) {
		for i, a := range []leaky.Algorithm{leaky.AlgorithmFixedWindow, leaky.AlgorithmSlidingCounter} {
			name := fmt.Sprint("r", i)
			r.putKeyed(ruleOf(name, a, rules.Bound{Limit: 3, Period: second}))
			expires := r.takes(name, "a", 3, true).ResetAfter
			r.clock.Advance(expires)
			r.putKeyed(ruleOf(name, a, rules.Bound{Limit: 3, Period: 3600 * second}))
			r.takes(name, "a", 3, true)
			r.takes(name, "a", 1, false)
		}
		r.putKeyed(ruleOf("p", leaky.AlgorithmConcurrency, rules.Bound{Limit: 1, TTL: second}))
		r.takes("p", "a", 1, true)
		r.clock.Advance(time.Second)
		r.putKeyed(ruleOf("p", leaky.AlgorithmConcurrency, rules.Bound{Limit: 1, TTL: 60 * second}))
		r.takes("p", "a", 1, true)
	}},
	{"keys are kept apart, however similar or long", func(r *rig) {
		other := func(r *rules.Rule) { r.Overrides = map[string]rules.Bound{"other": r.Bound} } // so that "" is a key, too
		r.limiter(countingRule("r", 1, other))
		r.limiter(countingRule("r.r", 1, other))
		long := strings.Repeat("k", rules.MaxKeyBytes)
		keys := []string{"", " ", "a", "A", "a ", "a\x00", "é", "e\u0301", long, long[1:], "{a}", "r", "0", "00"}
		for _, rule := range []string{"r", "r.r"} {
			for _, key := range keys {
				r.takes(rule, key, 1, true)
			}
		}
		for _, rule := range []string{"r", "r.r"} {
			for _, key := range keys {
				r.takes(rule, key, 1, false)
			}
		}
	}},
	{"a thousand takes are answered in order, and one more is too many", func(r *rig) {
		r.putKeyed(countingRule("r", 3))
		list := make([]rules.Take, rules.MaxTakes)
		for i := range list {
			list[i].Key = fmt.Sprint("k", i/5)
		}
		for i, a := range r.take("r", list...) {
			if want := i%5 < 3; a.Err != nil || a.Allowed != want || a.Limit != 3 ||
				a.Remaining != int64(max(0, 2-i%5)) {
				r.Fatalf("question %d: %+v, %v", i, a, a.Err)
			}
		}
		_, err := r.e.Take(r.ctx, "r", slices.Concat(list, []rules.Take{{Key: "more"}}))
		r.refusesField("takes", err)
		r.takes("r", "more", 3, true) // none of those was taken
		r.takes("r", "k0", 1, false)
		r.take("r")
		r.check(r.e.DeleteRule(r.ctx, "r", queue.AnyRevision))
		_, err = r.e.Take(r.ctx, "r", nil) // which remembers nothing
		r.refuses(err, rules.ErrUnknown)
	}},
	{"an invalid take is refused alone, with its field", func(r *rig) {
		places := rules.Bound{Limit: 5, TTL: 60 * second}
		for _, rule := range []rules.Rule{
			countingRule("open", 5, withAction(rules.Shadow)), countingRule("keyed", 5, withKey("{lane}")),
			ruleOf("places", leaky.AlgorithmConcurrency, places),
			ruleOf("gap", leaky.AlgorithmGap, rules.Bound{Period: second}),
		} {
			r.putKeyed(rule)
		}
		r.limiter(countingRule("all", 5))
		for _, tt := range []struct {
			rule, field string
			take        rules.Take
		}{
			{"open", "cost", rules.Take{Key: "k", Cost: 6}},
			{"open", "cost", rules.Take{Key: "k", Op: rules.TakePeek, Cost: 6}},
			{"open", "cost", rules.Take{Key: "k", Op: rules.TakeBack, Cost: 6}},
			{"open", "cost", rules.Take{Key: "k", Cost: -1}},
			{"open", "cost", rules.Take{Key: "k", Op: rules.TakeAnew, Cost: -1}},
			{"open", "cost", rules.Take{Key: "k", Op: rules.TakeAnew, Cost: leaky.MaxLimit + 1}},
			{"open", "cost", rules.Take{Key: "k", Cost: 1e18}},
			{"open", "key", rules.Take{Key: strings.Repeat("k", rules.MaxKeyBytes+1)}},
			{"open", "key", rules.Take{Key: strings.Repeat("k", 10<<20)}},
			{"open", "key", rules.Take{Key: "a\xff"}},
			{"open", "lease", rules.Take{Key: "k", Lease: "a"}},
			{"open", "op", rules.Take{Key: "k", Op: 5}},
			{"gap", "cost", rules.Take{Key: "k", Cost: 2}},
			{"keyed", "key", rules.Take{}},
			{"keyed", "key", rules.Take{Op: rules.TakeAnew}},
			{"all", "key", rules.Take{Key: "k"}}, // all count as one
			{"all", "key", rules.Take{Op: rules.TakePeek, Key: "k"}},
			{"places", "cost", rules.Take{Key: "k", Cost: 6}},
			{"places", "lease", rules.Take{Key: "k", Op: rules.TakeBack}},
			{"places", "lease", rules.Take{Key: "k", Lease: strings.Repeat("l", 65)}},
			{"places", "lease", rules.Take{Key: "k", Lease: "a b"}},
			{"places", "lease", rules.Take{Key: "k", Op: rules.TakePeek, Lease: "é"}},
		} {
			good := rules.Take{Key: "good"}
			if tt.rule == "all" {
				good.Key = ""
			}
			got := r.take(tt.rule, good, tt.take, rules.Take{Op: rules.TakePeek, Key: good.Key})
			r.refusesField(tt.field, got[1].Err)
			var fe *invalid.Error
			if got[1].Decision != (leaky.Decision{}) || got[1].Shadow || got[1].Lease != "" ||
				errors.As(got[1].Err, &fe) && len(fe.Error()) > 500 {
				r.Errorf("%s %+.80v: %+v", tt.rule, tt.take, got[1])
			}
			if got[0].Err != nil || !got[0].Allowed || got[2].Err != nil || got[2].Limit != got[0].Limit {
				r.Errorf("beside it: %+v and %+v", got[0], got[2])
			}
			r.take(tt.rule, rules.Take{Op: rules.TakeAnew, Key: good.Key})
		}
	}},
	{"resetting a key affects that key, and resetting the rule affects all", func(r *rig) {
		r.putKeyed(countingRule("g.r", 1))
		r.putKeyed(countingRule("g.other", 1))
		keys := numbered("k", 700)
		var list []rules.Take
		for _, k := range keys {
			list = append(list, rules.Take{Key: k})
		}
		all := func(rule string, allowed bool) {
			r.Helper()
			for i, a := range r.take(rule, list...) {
				if a.Allowed != allowed || a.Err != nil {
					r.Fatalf("%s of %s: %+v, %v", keys[i], rule, a, a.Err)
				}
			}
		}
		all("g.r", true)
		all("g.other", true)
		if a := r.take("g.r", rules.Take{Op: rules.TakeAnew, Key: keys[5]})[0]; !a.Allowed || a.Remaining != 0 ||
			a.Limit != 1 || a.ResetAfter <= 0 {
			r.Errorf("anew: %+v", a)
		}
		r.takes("g.r", keys[5], 1, true)
		all("g.r", false)
		rev := r.ruleInfo("g.r").Revision
		r.check(r.e.ResetRule(r.ctx, "g.r"))
		if i := r.ruleInfo("g.r"); i.Revision != rev {
			r.Errorf("the reset is a change: %+v", i)
		}
		all("g.r", true)
		all("g.other", false)
		r.check(r.e.ResetRule(r.ctx, "g.r"))
		r.check(r.e.ResetRule(r.ctx, "g.r"))
		r.takes("g.r", keys[0], 1, true)
	}},
	{"a deleted rule is not found, and made again it is fresh", func(r *rig) {
		r.putKeyed(countingRule("r", 1))
		r.takes("r", "a", 1, true)
		r.deleteRule("r")
		_, err := r.e.Take(r.ctx, "r", []rules.Take{{Key: "a"}})
		r.refuses(err, rules.ErrUnknown)
		r.putKeyed(countingRule("r", 1))
		r.takes("r", "a", 1, true)
	}},
	{"a shadow counts, and its answers say that it is one", func(r *rig) {
		r.putKeyed(countingRule("r", 1, withAction(rules.Shadow)))
		if a := r.takes("r", "a", 1, true); !a.Shadow {
			r.Errorf("got %+v", a)
		}
		if a := r.takes("r", "a", 1, false); !a.Shadow || a.RetryAfter <= 0 {
			r.Errorf("got %+v", a)
		}
		r.putKeyed(countingRule("r", 1))
		if a := r.takes("r", "a", 1, false); a.Shadow {
			r.Errorf("got %+v", a)
		}
	}},
	{"a clock that runs back gives nothing back", func(r *rig) {
		for _, a := range rules.Algorithms() {
			list := bounds[a]
			name := "g." + string(a)
			r.putKeyed(ruleOf(name, a, list[0]))
			for i := range 6 {
				r.take(name, rules.Take{Key: "k"})
				r.clock.Advance(time.Duration(i) * time.Millisecond)
			}
			before := r.take(name, rules.Take{Op: rules.TakePeek, Key: "k"})[0]
			now := r.clock.Now()
			r.clock.Advance(-time.Hour)
			after := r.take(name, rules.Take{Op: rules.TakePeek, Key: "k"})[0] // as of the latest change of the store
			if after.Allowed || after.RetryAfter < before.RetryAfter ||
				after.RetryAfter > before.RetryAfter+15*time.Millisecond {
				r.Errorf("%s an hour back: %+v, it was %+v", a, after, before)
			}
			r.clock.Set(now)
		}
	}},
	{"a crowd takes not one more than allowed", func(r *rig) {
		for _, a := range rules.Algorithms() {
			list := bounds[a]
			rule := ruleOf("g."+string(a), a, list[0])
			l, _ := rule.Limiter(a)
			r.putKeyed(rule)
			var mu sync.Mutex
			allowed := map[string]int64{}
			r.crowd(16, func(w int) int {
				for i := range 10 {
					key := fmt.Sprint("k", (w+i)%3)
					got, err := r.e.Take(r.ctx, rule.Name, stated(rule.Unit, []rules.Take{{Key: key}, {Key: key}}))
					if err != nil || len(got) != 2 {
						r.Errorf("take: %v", err)
						return 0
					}
					mu.Lock()
					for _, t := range got {
						if t.Allowed {
							allowed[key]++
						}
					}
					mu.Unlock()
				}
				return 0
			})
			for key, n := range allowed {
				if n != l.Limit() {
					r.Errorf("%s: %d passed under %s, want %d", a, n, key, l.Limit())
				}
			}
		}
	}},
	{"processes that attend are counted while they do", func(r *rig) {
		attend := func(process string, want int) {
			r.Helper()
			if n, err := r.e.Attend(r.ctx, process); err != nil || n != want {
				r.Errorf("%s attends: %d, %v; want %d", process, n, err, want)
			}
		}
		attend("a", 1)
		attend("a", 1)
		r.clock.Advance(queue.AttendFor)
		attend("b", 2)
		r.clock.Advance(time.Microsecond)
		attend("b", 1)
		attend("c", 2)
		attend("a", 3)
		r.clock.Advance(queue.AttendFor + time.Microsecond)
		attend(strings.Repeat("p", 64), 1)
		for _, bad := range []string{"", "a b", "é", strings.Repeat("p", 65)} {
			_, err := r.e.Attend(r.ctx, bad)
			r.refusesField("process", err)
		}
		attend("a", 2)
	}},
}
