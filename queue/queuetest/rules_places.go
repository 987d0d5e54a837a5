package queuetest

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// working puts a rule of concurrency and returns its name.
func (r *rig) working(name string, most int64, ttl unit.Duration) string {
	r.Helper()
	return r.putKeyed(ruleOf(name, leaky.AlgorithmConcurrency, rules.Bound{Limit: most, TTL: ttl}))
}

// place takes a place under the key k and checks whether it is allowed.
func (r *rig) place(rule, lease string, allowed bool) rules.Taken {
	r.Helper()
	a := r.take(rule, rules.Take{Key: "k", Lease: lease})[0]
	if a.Err != nil || a.Allowed != allowed || allowed && a.Lease == "" || allowed && lease != "" && a.Lease != lease ||
		!allowed && a.Lease != "" {
		r.Errorf("%s: the place %q at %d: %+v, %v; want allowed: %v", rule, lease, r.clock.Now(), a, a.Err, allowed)
	}
	return a
}

// frees gives a place back and checks how many are left.
func (r *rig) frees(rule, lease string, left int64) {
	r.Helper()
	a := r.take(rule, rules.Take{Op: rules.TakeBack, Key: "k", Lease: lease})[0]
	if a.Err != nil || a.Allowed != (left > 0) || a.Remaining != max(0, left-1) || a.Lease != "" {
		r.Errorf("%s: %q given back at %d: %+v, %v; want %d left", rule, lease, r.clock.Now(), a, a.Err, left)
	}
}

var workingRules = []rule{
	{"places are given out up to the limit, until one is given back", func(r *rig) {
		w := r.working("w", 2, 60*second)
		a, b := r.place(w, "", true).Lease, r.place(w, "b", true).Lease
		if a == b || len(a) > leaky.MaxLease {
			r.Errorf("the places %q and %q", a, b)
		}
		d := r.place(w, "", false)
		if d.RetryAfter != time.Minute || d.Remaining != 0 || d.Limit != 2 {
			r.Errorf("got %+v", d)
		}
		r.frees(w, a, 1)
		r.frees(w, a, 1) // the second time changes nothing
		r.frees(w, "nobody's", 1)
		r.place(w, "c", true)
		r.frees(w, "b", 1)
		r.frees(w, "c", 2)
		if a := r.take(w, rules.Take{Key: "other"})[0]; !a.Allowed || a.Remaining != 1 {
			r.Errorf("another key: %+v", a)
		}
	}},
	{"each generated name is unique", func(r *rig) {
		w := r.working("w", 1000, 60*second)
		seen := map[string]bool{}
		for _, a := range r.take(w, slices.Repeat([]rules.Take{{Key: "k"}}, 1000)...) {
			seen[a.Lease] = true
		}
		if len(seen) != 1000 || seen[""] {
			r.Errorf("%d names", len(seen))
		}
		r.checkRemaining(w, "k", 0)
	}},
	{"a renewed place is kept, and another expires", func(r *rig) {
		w := r.working("w", 1, 10*second)
		r.place(w, "a", true)
		r.clock.Advance(9 * time.Second)
		r.place(w, "a", true)
		r.clock.Advance(10*time.Second - time.Microsecond)
		if d := r.place(w, "b", false); d.RetryAfter != time.Microsecond {
			r.Errorf("got %+v", d)
		}
		r.clock.Advance(time.Microsecond)
		r.place(w, "b", true)
		r.place(w, "a", false)
		r.frees(w, "a", 0) // a no longer has it
		r.place(w, "b", true)
		r.frees(w, "b", 1)
	}},
	{"a peek looks at the named place, or at a new one", func(r *rig) {
		w := r.working("w", 1, 10*second)
		peek := func(lease string, allowed bool) {
			r.Helper()
			if a := r.take(w, rules.Take{Op: rules.TakePeek, Key: "k", Lease: lease})[0]; a.Err != nil ||
				a.Allowed != allowed || a.Lease != "" {
				r.Errorf("a peek at %q: %+v, %v", lease, a, a.Err)
			}
		}
		peek("", true)
		peek("a", true)
		r.place(w, "a", true)
		peek("", false)
		peek("b", false)
		peek("a", true)
		r.clock.Advance(10 * time.Second) // the peek renewed nothing
		r.place(w, "b", true)
	}},
	{"a place keeps the cost it was taken at", func(r *rig) {
		w := r.working("w", 5, 10*second)
		cost := func(lease string, cost int64, allowed bool, left int64) {
			r.Helper()
			if a := r.take(w, rules.Take{Key: "k", Lease: lease, Cost: cost})[0]; a.Err != nil ||
				a.Allowed != allowed || a.Remaining != left {
				r.Errorf("%q at %d: %+v, %v", lease, cost, a, a.Err)
			}
		}
		cost("a", 3, true, 2)
		cost("b", 3, false, 2)
		cost("b", 2, true, 0)
		r.clock.Advance(time.Second)
		cost("a", 1, true, 0)
		r.clock.Advance(9 * time.Second) // b expires
		cost("c", 2, true, 0)
		r.frees(w, "c", 2)
		r.frees(w, "a", 5)
	}},
	{"a holder renews and gives back a place at its cost, even above a lowered limit", func(r *rig) {
		w := r.working("w", 5, 10*second)
		ask := func(op rules.TakeOp, lease string, cost int64) rules.Taken {
			r.Helper()
			return r.take(w, rules.Take{Op: op, Key: "k", Lease: lease, Cost: cost})[0]
		}
		never := func(what string, a rules.Taken) {
			r.Helper()
			var at *invalid.Error
			if !errors.As(a.Err, &at) || at.Field != "cost" || a.Decision != (leaky.Decision{}) {
				r.Errorf("%s: %+v, %v", what, a, a.Err)
			}
		}
		if a := ask(rules.TakeNow, "a", 4); !a.Allowed {
			r.Errorf("got %+v, %v", a, a.Err)
		}
		r.working("w", 2, 10*second)
		r.clock.Advance(9 * time.Second)
		if a := ask(rules.TakePeek, "a", 4); !a.Allowed || a.Lease != "" || a.ResetAfter != 10*time.Second ||
			a.Err != nil {
			r.Errorf("a peek at it: %+v, %v", a, a.Err)
		}
		if a := ask(rules.TakeNow, "a", 4); !a.Allowed || a.Lease != "a" || a.Remaining != 0 ||
			a.ResetAfter != 10*time.Second || a.Err != nil {
			r.Errorf("renewed: %+v, %v", a, a.Err)
		}
		never("another's", ask(rules.TakeNow, "b", 4))
		never("a peek at another's", ask(rules.TakePeek, "b", 4))
		never("one that gets a name", ask(rules.TakeNow, "", 4))
		never("one of another key", r.take(w, rules.Take{Key: "other", Lease: "a", Cost: 3})[0])
		r.clock.Advance(10*time.Second - time.Microsecond)
		if a := ask(rules.TakeBack, "a", 4); !a.Allowed || a.Remaining != 1 || a.Err != nil {
			r.Errorf("given back: %+v, %v", a, a.Err)
		}
		never("what was given back", ask(rules.TakeNow, "a", 4))
		r.place(w, "b", true)
	}},
	{"a holder keeps its place under a lowered limit, and a reset frees all places", func(r *rig) {
		w := r.working("w", 3, 60*second)
		for _, lease := range []string{"a", "b", "c"} {
			r.place(w, lease, true)
		}
		r.working("w", 1, 60*second)
		r.place(w, "c", true)
		r.frees(w, "a", 0)
		r.frees(w, "b", 0)
		r.place(w, "d", false)
		r.place(w, "c", true)
		r.take(w, rules.Take{Op: rules.TakeAnew, Key: "k"})
		r.place(w, "d", true)
		r.place(w, "c", false)
		r.check(r.e.ResetRule(r.ctx, w))
		r.place(w, "c", true)
	}},
}
