package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// countingRule returns a rule that allows limit jobs in each minute of the clock, under any key.
func countingRule(name string, limit int64, change ...func(*rules.Rule)) rules.Rule {
	return ruleOf(
		name, leaky.AlgorithmFixedWindow, rules.Bound{Limit: limit, Period: unit.Duration(time.Minute)}, change...,
	)
}

// ruleOf returns a normalized rule.
func ruleOf(name string, a leaky.Algorithm, b rules.Bound, change ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{Name: name, Algorithm: a, Bound: b}
	if rules.NeedsUnit(a) {
		r.Unit = "tokens"
	}
	for _, c := range change {
		c(&r)
	}
	r.Normalize()
	return r
}

// withKey sets the key template of a rule.
func withKey(template string) func(*rules.Rule) { return func(r *rules.Rule) { r.Key = template } }

func withAction(action string) func(*rules.Rule) { return func(r *rules.Rule) { r.Action = action } }
func asks(list ...string) func(*queue.Spec)      { return func(s *queue.Spec) { s.Rules = list } }

func (r *rig) putRule(rule rules.Rule) queue.PutResult {
	r.Helper()
	res, err := r.e.PutRule(r.ctx, rule, queue.AnyRevision)
	if err != nil {
		r.Fatalf("put the rule %s: %v", rule.Name, err)
	}
	if r.units == nil {
		r.units = map[string]string{}
	}
	r.units[rule.Name] = rule.Unit
	return res
}

// limiter puts a rule and returns its name.
func (r *rig) limiter(rule rules.Rule) string {
	r.Helper()
	r.putRule(rule)
	return rule.Name
}

// putKeyed puts a rule that counts by any keys, which takes name.
func (r *rig) putKeyed(rule rules.Rule) string {
	r.Helper()
	if rule.Key == "" {
		rule.Key = "{lane}"
	}
	return r.limiter(rule)
}

func (r *rig) ruleInfo(name string) rules.Info {
	r.Helper()
	i, err := r.e.Rule(r.ctx, name)
	if err != nil {
		r.Fatalf("rule %s: %v", name, err)
	}
	return i
}

// askedBy checks which queues of its group name a rule.
func (r *rig) askedBy(rule string, queues ...string) {
	r.Helper()
	if i := r.ruleInfo(rule); !slices.Equal(i.Queues, queues) {
		r.Errorf("%s is named by %v, want %v", rule, i.Queues, queues)
	}
}

func (r *rig) deleteRule(name string) {
	r.Helper()
	if err := r.e.DeleteRule(r.ctx, name, queue.AnyRevision); err != nil {
		r.Fatalf("delete the rule %s: %v", name, err)
	}
}

// allRules returns every rule, read in pages.
func (r *rig) allRules(page int) []rules.Info {
	r.Helper()
	var all []rules.Info
	for after := ""; ; {
		list, err := r.e.ListRules(r.ctx, after, page)
		if err != nil || len(list) > page {
			r.Fatalf("list rules: %d of at most %d, %v", len(list), page, err)
		}
		if len(list) == 0 {
			return all
		}
		all = append(all, list...)
		after = list[len(list)-1].Name
	}
}

var ruleRules = []rule{
	{"a new rule has the given values and the defaults", func(r *rig) {
		given := rules.Rule{
			Name: "otp.to", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(3)},
			Key: "{payload/to}:{lane}",
			Overrides: map[string]rules.Bound{
				"a%3Ab:c": {Rate: leaky.PerSecond(9), Burst: 4}, "x": {Rate: leaky.PerSecond(1)},
			},
		}
		before := maps.Clone(given.Overrides)
		want := given
		want.Normalize()
		res, err := r.e.PutRule(r.ctx, given, 0)
		if err != nil || !res.Created || !res.Changed || res.Revision <= 0 {
			r.Fatalf("put: %+v, %v", res, err)
		}
		if !maps.Equal(given.Overrides, before) {
			r.Errorf("the caller's rule was changed: %+v", given.Overrides)
		}
		if i := r.ruleInfo("otp.to"); !reflect.DeepEqual(i, rules.Info{
			Rule: want, Revision: res.Revision, Queues: i.Queues,
		}) ||

			len(i.Queues) > 0 {
			r.Errorf("got %+v\nwant %+v", i, want)
		}
	}},
	{"an equal rule changes nothing, and every change has a new revision", func(r *rig) {
		rule := countingRule("r", 5)
		last := r.putRule(rule).Revision
		written := rules.Rule{
			Name: "r", Algorithm: rule.Algorithm, Bound: rule.Bound, Overrides: map[string]rules.Bound{},
		}
		for _, expect := range []int64{queue.AnyRevision, last} {
			if res, err := r.e.PutRule(r.ctx, written, expect); err != nil || res != (queue.PutResult{Revision: last}) {
				r.Errorf("put again: %+v, %v", res, err)
			}
		}
		for what, change := range map[string]func(*rules.Rule){
			"limit": func(r *rules.Rule) { r.Limit++ }, "period": func(r *rules.Rule) { r.Period++; r.Period += 999 },
			"key": withKey("{lane}"), "action": withAction(rules.Shadow),
			"away": func(r *rules.Rule) { r.Away = rules.AwayShare },
			"overrides": func(r *rules.Rule) {
				r.Overrides = map[string]rules.Bound{
					"a": {Limit: 1, Period: r.Period},
				}
			},
			"algorithm": func(r *rules.Rule) { r.Algorithm = leaky.AlgorithmSlidingCounter },
		} {
			change(&rule)
			res := r.putRule(rule)
			if res.Revision <= last || res.Created || !res.Changed {
				r.Errorf("another %s: %+v after revision %d", what, res, last)
			}
			last = res.Revision
			if i := r.ruleInfo("r"); i.Revision != last || !reflect.DeepEqual(i.Rule, rule) {
				r.Errorf("another %s: got %+v", what, i)
			}
		}
		r.deleteRule("r")
		if res := r.putRule(rule); !res.Created || res.Revision <= last {
			r.Errorf("made again: %+v, the previous rule had revision %d", res, last)
		}
	}},
	{"rules and queues share revisions, and no revision is used twice in a group", func(r *rig) {
		last := int64(0)
		for i := range 4 {
			for _, got := range []int64{
				r.putRule(countingRule("g.r", int64(i+1))).Revision,
				r.put(spec("g.q", "1/s", withCapacity(int64(i+1)))).Revision,
			} {
				if got <= last {
					r.Errorf("revision %d after %d", got, last)
				}
				last = got
			}
		}
	}},
	{"a change or a deletion needs the expected revision", func(r *rig) {
		rule := countingRule("r", 5)
		res, err := r.e.PutRule(r.ctx, rule, 5)
		r.refuses(err, queue.ErrRevision)
		if res.Revision != 0 {
			r.Errorf("no such rule, at revision %d", res.Revision)
		}
		_, err = r.e.Rule(r.ctx, "r")
		r.refuses(err, rules.ErrUnknown)
		res, err = r.e.PutRule(r.ctx, rule, 0)
		r.check(err)
		rev := res.Revision
		rule.Limit = 6
		for _, expect := range []int64{0, rev + 1, rev + 1000} {
			res, err = r.e.PutRule(r.ctx, rule, expect)
			r.refuses(err, queue.ErrRevision)
			if res.Revision != rev || res.Changed || res.Created {
				r.Errorf("refused: %+v, the rule is at %d", res, rev)
			}
			r.refuses(r.e.DeleteRule(r.ctx, "r", expect), queue.ErrRevision)
		}
		if i := r.ruleInfo("r"); i.Limit != 5 || i.Revision != rev {
			r.Errorf("a refused put changed the rule: %+v", i)
		}
		res, err = r.e.PutRule(r.ctx, rule, rev)
		if err != nil || !res.Changed || res.Revision <= rev {
			r.Errorf("got %+v, %v", res, err)
		}
		r.refuses(r.e.DeleteRule(r.ctx, "r", rev), queue.ErrRevision)
		r.check(r.e.DeleteRule(r.ctx, "r", res.Revision))
		_, err = r.e.Rule(r.ctx, "r")
		r.refuses(err, rules.ErrUnknown)
		r.refuses(r.e.DeleteRule(r.ctx, "r", queue.AnyRevision), rules.ErrUnknown)
	}},
	{"an invalid rule is refused with its field and changes nothing", func(r *rig) {
		good := countingRule("r", 5)
		r.putRule(good)
		for field, change := range map[string]func(*rules.Rule){
			"name":              func(r *rules.Rule) { r.Name = "a..b" },
			"algorithm":         func(r *rules.Rule) { r.Algorithm = "bucket" },
			"limit":             func(r *rules.Rule) { r.Limit = -1 },
			"period":            func(r *rules.Rule) { r.Period = unit.Duration(100 * 365 * 24 * time.Hour) },
			"rate":              func(r *rules.Rule) { r.Rate = leaky.PerSecond(1) },
			"key":               withKey("{to}"),
			"action":            withAction("drop"),
			"away":              func(r *rules.Rule) { r.Away = "ajar" },
			"overrides":         func(r *rules.Rule) { r.Overrides = map[string]rules.Bound{"": r.Bound} },
			"overrides.a.limit": func(r *rules.Rule) { r.Overrides = map[string]rules.Bound{"a": {Period: r.Period}} },
		} {
			rule := good
			rule.Limit = 7
			change(&rule)
			_, err := r.e.PutRule(r.ctx, rule, queue.AnyRevision)
			r.refusesField(field, err)
		}
		if all := r.allRules(9); len(all) != 1 || !reflect.DeepEqual(all[0].Rule, good) {
			r.Errorf("there is %+v", all)
		}
	}},
	{"names of every allowed shape are kept apart, also from queue names", func(r *rig) {
		names := []string{
			"a", "a-b", "a.a", "a.b", "a0", "a_b", "b", "b.a", "0", "0.0",
			strings.Repeat("n", 64) + "." + strings.Repeat("m", 64),
		}
		for i, name := range names {
			r.queue(name, "unlimited", withCapacity(int64(i+1)))
			r.putKeyed(countingRule(name, int64(i+1)))
			r.takes(name, "k", int64(i+1), true)
		}
		for i, name := range names {
			if got := r.ruleInfo(name); got.Name != name || got.Limit != int64(i+1) {
				r.Errorf("%s: got %+v", name, got)
			}
			if got := r.info(name); got.Spec.Capacity != int64(i+1) {
				r.Errorf("%s: got %+v", name, got.Spec)
			}
			r.takes(name, "k", 1, false)
		}
	}},
	{"rules are listed by name, in pages", func(r *rig) {
		var names []string
		for i := range 53 {
			names = append(names, fmt.Sprintf("r%02d", i*37%53))
		}
		names = append(names, "r1.x", "r1-x", "r1_x", "r1")
		for i, n := range names {
			r.limiter(countingRule(n, int64(i+1)))
		}
		r.queue("r1.q", "1/s", asks("r1.x", "r1"))
		limits := map[string]int64{}
		for i, n := range names {
			limits[n] = int64(i + 1)
		}
		slices.Sort(names)
		for _, page := range []int{1, 7, 56, 57, 58, 1000} {
			all := r.allRules(page)
			if len(all) != len(names) {
				r.Fatalf("pages of %d: %d rules", page, len(all))
			}
			for i, got := range all {
				if got.Name != names[i] || got.Limit != limits[got.Name] ||
					!reflect.DeepEqual(got, r.ruleInfo(got.Name)) {
					r.Errorf("pages of %d: %+v", page, got)
				}
			}
		}
		if page, err := r.e.ListRules(r.ctx, "r1-", 2); err != nil || len(page) != 2 || page[0].Name != "r1-x" ||
			page[1].Name != "r1.x" {
			r.Errorf("behind r1-: %v, %v", page, err)
		}
		if page, err := r.e.ListRules(r.ctx, "zzz", 9); err != nil || len(page) != 0 {
			r.Errorf("after all: %v, %v", page, err)
		}
	}},
	{"a thousand overrides are kept, with any keys", func(r *rig) {
		rule := countingRule("r", 1, func(r *rules.Rule) {
			r.Overrides = map[string]rules.Bound{
				strings.Repeat("k", rules.MaxKeyBytes): r.Bound, "a.b": r.Bound, "é\x00\n\"\\": r.Bound,
				"overrides": r.Bound, "{lane}": r.Bound,
			}
			for i := range rules.MaxOverrides - len(r.Overrides) {
				r.Overrides[fmt.Sprint("k", i)] = rules.Bound{Limit: int64(i + 2), Period: r.Period}
			}
		})
		r.limiter(rule)
		if i := r.ruleInfo("r"); !reflect.DeepEqual(i.Rule, rule) {
			r.Error("the overrides differ from those put")
		}
		r.takes("r", "k997", 1, true)
		for _, key := range []string{"k7", "k994", "other"} {
			r.takes("r", key, rule.Of(key).Limit, true)
			r.takes("r", key, 1, false)
		}
	}},
	{"an unknown rule is not found", func(r *rig) {
		r.queue("nobody", "1/s")
		for _, name := range []string{"nobody", "not a name", "", "a{b}", strings.Repeat("n", 1<<20)} {
			_, err := r.e.Rule(r.ctx, name)
			r.refuses(err, rules.ErrUnknown)
			r.refuses(r.e.DeleteRule(r.ctx, name, queue.AnyRevision), rules.ErrUnknown)
			r.refuses(r.e.ResetRule(r.ctx, name), rules.ErrUnknown)
			_, err = r.e.Take(r.ctx, name, []rules.Take{{}})
			r.refuses(err, rules.ErrUnknown)
		}
		if all := r.allRules(9); len(all) != 0 {
			r.Errorf("there is %+v", all)
		}
	}},
	{"a call whose context has ended does nothing", func(r *rig) {
		r.limiter(countingRule("r", 5))
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		for name, err := range r.ruleCalls(ctx) {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, queue.ErrOutcomeUnknown) &&
				!errors.Is(err, queue.ErrUnavailable) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if i := r.ruleInfo("r"); i.Limit != 5 {
			r.Errorf("something was done: %+v", i)
		}
		r.takes("r", "", 5, true)
	}},
	{"a closed engine says so", func(r *rig) {
		r.limiter(countingRule("r", 5))
		r.check(r.e.Close())
		r.closed = true
		for name, err := range r.ruleCalls(r.ctx) {
			r.refuses(err, queue.ErrClosed)
			if r.Failed() {
				r.Fatal(name)
			}
		}
	}},
}

// ruleCalls makes every call of queue.Rules about the rule r.
func (r *rig) ruleCalls(ctx context.Context) map[string]error {
	_, put := r.e.PutRule(ctx, countingRule("r", 6), queue.AnyRevision)
	_, get := r.e.Rule(ctx, "r")
	_, list := r.e.ListRules(ctx, "", 9)
	_, take := r.e.Take(ctx, "r", []rules.Take{{}})
	_, attend := r.e.Attend(ctx, "process")
	return map[string]error{
		"put": put, "get": get, "list": list, "take": take, "attend": attend,
		"reset": r.e.ResetRule(ctx, "r"), "delete": r.e.DeleteRule(ctx, "r", queue.AnyRevision),
	}
}
