package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// holds sets how many keys a rule may hold.
func holds(keys int64) func(*rules.Rule) { return func(r *rules.Rule) { r.MaxKeys = keys } }

// twoAMinute has a bound of about 2 a minute for each algorithm.
var twoAMinute = map[leaky.Algorithm]rules.Bound{
	leaky.AlgorithmMeter: {Rate: rate("2/m"), Burst: 2}, leaky.AlgorithmTokenBucket: {Rate: rate("2/m"), Burst: 2},
	leaky.AlgorithmFixedWindow:    {Limit: 2, Period: 60 * second},
	leaky.AlgorithmSlidingLog:     {Limit: 2, Period: 60 * second},
	leaky.AlgorithmSlidingCounter: {Limit: 2, Period: 60 * second}, leaky.AlgorithmGap: {Period: 60 * second},
	leaky.AlgorithmConcurrency: {Limit: 2, TTL: 60 * second},
	leaky.AlgorithmBudget:      {Rate: rate("2/m"), Burst: 2},
}

// noKey checks that a key is refused because the rule holds its maximum of keys.
func (r *rig) noKey(rule, key string, most int64) rules.Taken {
	r.Helper()
	got := r.take(rule, rules.Take{Op: rules.TakePeek, Key: key}, rules.Take{Key: key})
	for _, a := range got {
		if a.Err != nil || a.Allowed || a.MaxKeys != most || a.Remaining != 0 || a.RetryAfter <= 0 ||
			a.ResetAfter != 0 || a.Limit == 0 || a.Lease != "" {
			r.Errorf("%s: another key, %s: %+v, %v", rule, key, a, a.Err)
		}
	}
	return got[1]
}

// keys checks how many keys a rule holds.
func (r *rig) keys(rule string, want int64) {
	r.Helper()
	if i := r.ruleInfo(rule); i.Keys != want {
		r.Errorf("%s holds %d keys, want %d", rule, i.Keys, want)
	}
}

var ruleKeyRules = []rule{
	{"a rule with its maximum of keys refuses new keys until one is free, and serves the keys it holds", func(r *rig) {
		for _, a := range rules.Algorithms() {
			name := "g." + string(a)
			r.putKeyed(ruleOf(name, a, twoAMinute[a], holds(3)))
			first := r.takes(name, "k0", 1, true).ResetAfter
			since := r.clock.Now()
			for _, key := range []string{"k1", "k2"} {
				r.clock.Advance(time.Second)
				r.takes(name, key, 1, true)
			}
			r.keys(name, 3)
			r.clock.Advance(time.Second)
			no := r.noKey(name, "new", 3)
			if want := since.Add(first).Sub(r.clock.Now()); no.RetryAfter != want {
				r.Errorf("%s: again after %v, want %v", a, no.RetryAfter, want)
			}
			if a != leaky.AlgorithmGap {
				r.takes(name, "k1", 1, true)
			}
			if got := r.takes(name, "k1", 1, false); got.MaxKeys != 0 {
				r.Errorf("%s: refused by its numbers: %+v", a, got)
			}
			r.clock.Advance(no.RetryAfter - time.Microsecond)
			r.noKey(name, "new", 3)
			r.clock.Advance(time.Microsecond)
			r.takes(name, "new", 1, true)
			r.clock.Advance(time.Hour)
			r.take(name, rules.Take{Key: "a"}, rules.Take{Key: "b"}, rules.Take{Key: "c"})
			r.noKey(name, "d", 3)
			r.keys(name, 3)
		}
	}},
	{"a fresh key keeps its place if asked before another, and finds none afterwards", func(r *rig) {
		for _, a := range rules.Algorithms() {
			name := "g." + string(a)
			r.putKeyed(ruleOf(name, a, twoAMinute[a], holds(2)))
			for i, order := range [][]string{{"old", "new"}, {"new", "old"}, {"old", "new", "old"}, {"new", "old", "new"}} {
				if i > 0 {
					r.check(r.e.ResetRule(r.ctx, name))
				}
				r.clock.Advance(r.takes(name, "old", 1, true).ResetAfter)
				r.takes(name, "other", 1, true)
				var list []rules.Take
				for _, key := range order {
					list = append(list, rules.Take{Key: key, Cost: 1})
				}
				for k, got := range r.take(name, list...) {
					if want := order[k] == order[0]; got.MaxKeys == 0 != want {
						r.Errorf("%s %v, question %d: %+v", a, order, k, got)
					}
				}
				r.keys(name, 2)
			}
		}
	}},
	{"under a lowered bound a fresh key asks for room like a new one", func(r *rig) {
		for _, a := range rules.Algorithms() {
			rule := ruleOf("g."+string(a), a, twoAMinute[a], holds(4))
			r.putKeyed(rule)
			fresh := r.takes(rule.Name, "k0", 1, true).ResetAfter
			r.clock.Advance(fresh)
			for _, key := range []string{"k1", "k2", "k3"} {
				r.takes(rule.Name, key, 1, true)
			}
			rule.MaxKeys = 2
			r.putKeyed(rule)
			r.noKey(rule.Name, "k0", 2)
			r.takes(rule.Name, "k1", 1, a != leaky.AlgorithmGap)
		}
	}},
	{"one call admits as many new keys as there is room for", func(r *rig) {
		r.putKeyed(countingRule("r", 9, holds(3)))
		r.takes("r", "k0", 1, true)
		var list []rules.Take
		for i := range 6 {
			list = append(list, rules.Take{Key: fmt.Sprint("k", i)}, rules.Take{Key: fmt.Sprint("k", i)})
		}
		for i, a := range r.take("r", list...) {
			if want := i < 6; a.Allowed != want || a.MaxKeys == 0 != want {
				r.Errorf("question %d: %+v", i, a)
			}
		}
		r.keys("r", 3)
	}},
	{"a key that was given back or reset is free at once", func(r *rig) {
		for _, a := range rules.Algorithms() {
			name := "g." + string(a)
			r.putKeyed(ruleOf(name, a, twoAMinute[a], holds(1)))
			back := rules.TakeBack
			if rules.NeedsUnit(a) { // its takes are corrected instead
				back = rules.TakeAnew
			}
			for i := range 3 {
				op := []rules.TakeOp{back, rules.TakeAnew}[i%2]
				key, other := fmt.Sprint("k", i), rules.Take{Key: "other", Lease: r.leaseOf(a)}
				got := r.take(name, rules.Take{Key: key, Lease: other.Lease}, other, rules.Take{
					Op: op, Key: key, Lease: other.Lease,
				}, other,
					rules.Take{Op: rules.TakeAnew, Key: "other", Lease: other.Lease})
				if !got[0].Allowed || got[1].MaxKeys != 1 || !got[2].Allowed || !got[3].Allowed || !got[4].Allowed {
					r.Errorf("%s, by %v: %+v", a, op, got)
				}
				r.keys(name, 0)
			}
			one := rules.Take{Key: "k", Lease: r.leaseOf(a)}
			r.take(name, one)
			r.noKey(name, "other", 1)
			one.Op = back
			r.take(name, one)
			r.takes(name, "other", 1, true)
		}
	}},
	{"giving back or resetting a key that is not held does nothing, and the bound refuses neither", func(r *rig) {
		r.putKeyed(countingRule("r", 5, holds(1)))
		r.takes("r", "k", 1, true)
		for _, a := range r.take("r", rules.Take{Op: rules.TakeBack, Key: "new"}, rules.Take{
			Op: rules.TakeAnew, Key: "new",
		}) {
			if !a.Allowed || a.Remaining != 4 || a.MaxKeys != 0 {
				r.Errorf("got %+v", a)
			}
		}
		r.noKey("r", "new", 1)
	}},
	{"a reset, a deletion and another algorithm start without keys", func(r *rig) {
		rule := countingRule("r", 5, holds(1))
		other := ruleOf("r", leaky.AlgorithmSlidingLog, rule.Bound, holds(1))
		for i, again := range []func(){
			func() { r.check(r.e.ResetRule(r.ctx, "r")) },
			func() { r.deleteRule("r"); r.putKeyed(rule) },
			func() { r.putKeyed(other) },
			func() { r.putKeyed(rule) },
		} {
			if i == 0 {
				r.putKeyed(rule)
			}
			r.takes("r", fmt.Sprint("k", i), 1, true)
			r.noKey("r", "new", 1)
			again()
			r.keys("r", 0)
		}
		r.takes("r", "new", 1, true)
	}},
	{"a lowered bound drops no key, and a raised bound applies at once", func(r *rig) {
		rule := countingRule("r", 5, holds(4))
		r.putKeyed(rule)
		for i := range 4 {
			r.takes("r", fmt.Sprint("k", i), 1, true)
		}
		rule.MaxKeys = 2
		r.putKeyed(rule)
		r.noKey("r", "new", 2)
		r.keys("r", 4)
		for i := range 4 {
			r.takes("r", fmt.Sprint("k", i), 1, true)
		}
		for i := range 2 {
			r.take("r", rules.Take{Op: rules.TakeAnew, Key: fmt.Sprint("k", i)})
			r.noKey("r", "new", 2)
		}
		rule.MaxKeys = 3
		r.putKeyed(rule)
		r.takes("r", "new", 1, true)
		r.noKey("r", "newer", 3)
		rule.MaxKeys = 0
		r.putKeyed(rule)
		r.takes("r", "newer", 1, true)
	}},
	{"keys with overrides do not count, and only their numbers refuse them", func(r *rig) {
		rule := countingRule("r", 5, holds(2))
		rule.Overrides = map[string]rules.Bound{"vip": rule.Bound, "vip2": rule.Bound}
		r.putKeyed(rule)
		r.takes("r", "vip", 1, true)
		r.takes("r", "a", 1, true)
		r.takes("r", "b", 1, true)
		r.noKey("r", "new", 2)
		r.takes("r", "vip2", 1, true)
		r.keys("r", 2)
		// The rule holds this key.
		rule.Overrides = map[string]rules.Bound{"vip": rule.Bound, "vip2": rule.Bound, "b": rule.Bound}
		r.putKeyed(rule)
		r.keys("r", 1)
		r.takes("r", "b", 1, true)
		// Keys that lose their override count again.
		rule.Overrides = map[string]rules.Bound{"vip": rule.Bound}
		r.putKeyed(rule)
		r.keys("r", 3)
		r.noKey("r", "new", 2)
		r.take("r", rules.Take{Op: rules.TakeAnew, Key: "b"}, rules.Take{Op: rules.TakeAnew, Key: "vip2"})
		r.takes("r", "new", 1, true)
		r.noKey("r", "newer", 2)
	}},
	{"a fresh key without its former override asks for a place like a new one", func(r *rig) {
		long, short := rules.Bound{Limit: 5, Period: unit.Duration(366 * 24 * time.Hour)}, rules.Bound{
			Limit: 5, Period: unit.Duration(7 * time.Second),
		}
		rule := ruleOf("r", leaky.AlgorithmFixedWindow, long)
		rule.Overrides = map[string]rules.Bound{"vip": long}
		r.putKeyed(rule)
		r.takes("r", "vip", 1, true)
		r.takes("r", "k", 1, true)
		rule.Bound, rule.Overrides, rule.MaxKeys = short, nil, 1
		r.putKeyed(rule)
		r.clock.Advance(10 * time.Second)
		r.noKey("r", "vip", 1)
		r.takes("r", "k", 1, true)
	}},
	{"a key that gave back a part keeps its place only while needed", func(r *rig) {
		for _, a := range []leaky.Algorithm{leaky.AlgorithmMeter, leaky.AlgorithmTokenBucket} {
			name := "g." + string(a)
			r.putKeyed(ruleOf(name, a, twoAMinute[a], holds(1)))
			r.takes(name, "k", 2, true)
			r.take(name, rules.Take{Op: rules.TakeBack, Key: "k", Cost: 1})
			no := r.noKey(name, "new", 1)
			if no.RetryAfter != 30*time.Second {
				r.Errorf("%s: again after %v, want 30s", a, no.RetryAfter)
			}
			r.clock.Advance(no.RetryAfter)
			r.takes(name, "new", 1, true)
		}
	}},
	{"the time until there is room depends on the keys that count", func(r *rig) {
		rule := ruleOf("r", leaky.AlgorithmSlidingLog, twoAMinute[leaky.AlgorithmSlidingLog], holds(1))
		rule.Overrides = map[string]rules.Bound{"vip": rule.Bound, "vip2": rule.Bound}
		r.putKeyed(rule)
		for _, key := range []string{"vip", "vip2", "k"} {
			r.takes("r", key, 1, true)
			r.clock.Advance(time.Second)
		}
		if no := r.noKey("r", "new", 1); no.RetryAfter != 59*time.Second {
			r.Errorf("again after %v, want 59s", no.RetryAfter)
		}
	}},
	{"a shadow refuses no key and does not hold it", func(r *rig) {
		rule := countingRule("q.r", 5, holds(1), withKey(byTo), withAction(rules.Shadow))
		r.putKeyed(rule)
		q := r.queue("q", "unlimited", asks("q.r"))
		r.takes("q.r", "x", 1, true)
		if a := r.noKey("q.r", "new", 1); !a.Shadow {
			r.Errorf("got %+v", a)
		}
		r.checkRules(r.append(jobTo(q, "a", "x"), jobTo(q, "b", "new")), "accepted: q.r (3)", "accepted: q.r (no)")
		r.keys("q.r", 1)
		rule.MaxKeys = 2
		r.putKeyed(rule)
		r.checkRemaining("q.r", "new", 5)
	}},
	{"a job whose key finds no room is refused, with a reason of its own", func(r *rig) {
		r.putKeyed(countingRule("q.r", 2, holds(2), withKey(byTo)))
		r.limiter(countingRule("q.all", 9))
		q := r.queue("q", "unlimited", asks("q.r", "q.all"))
		got := r.append(
			jobTo(q, "a", "x"), jobTo(q, "b", "y"), jobTo(q, "c", "z"), jobTo(q, "d", "x"), jobTo(q, "e", "x"),
		)
		r.checkRules(got, "accepted: q.r 1, q.all 8", "accepted: q.r 1, q.all 7", "limit_reached: q.r no, q.all 6",
			"accepted: q.r 0, q.all 6",
			"limit_reached: q.r no, q.all 5")
		for i, want := range []int64{0, 0, 2, 0, 0} {
			if a := got[i]; a.Rules[0].MaxKeys != want || a.Rules[1].MaxKeys != 0 {
				r.Errorf("%s: %+v", a.ID, a.Rules)
			}
		}
		r.checkRemaining("q.all", "", 6)
		r.keys("q.r", 2)
		r.clock.Advance(got[2].RetryAfter)
		r.checkRules(r.append(jobTo(q, "c", "z")), "accepted: q.r 1, q.all 8")
	}},
	{"a deferring rule sets the job aside and holds no key for it", func(r *rig) {
		r.putKeyed(countingRule("q.r", 2, holds(1), withKey(byTo), withAction(rules.Defer)))
		q := r.queue("q", "unlimited", asks("q.r"))
		got := r.offer(jobTo(q, "a", "x"), jobTo(q, "b", "y"))
		r.checkRules(got, "accepted: q.r 1", "set_aside: q.r no")
		if got[1].Rules[0].MaxKeys != 1 {
			r.Errorf("got %+v", got[1].Rules)
		}
		r.keys("q.r", 1)
	}},
	{"a job that finds no room in its queue holds no key", func(r *rig) {
		r.putKeyed(countingRule("q.r", 2, holds(2), withKey(byTo)))
		q := r.queue("q", "1/h", withCapacity(1), asks("q.r"))
		r.checkRules(r.append(jobTo(q, "a", "x"), jobTo(q, "b", "y")), "accepted: q.r 1", "full: q.r 1")
		r.keys("q.r", 1)
		r.takes("q.r", "z", 1, true)
	}},
}

// leaseOf takes a place if the algorithm has places, and returns its name.
func (r *rig) leaseOf(a leaky.Algorithm) string {
	if a == leaky.AlgorithmConcurrency {
		return "place"
	}
	return ""
}
