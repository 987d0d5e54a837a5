package queuetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// pairRules are names of rules. The last is usually a rule of concurrency, which no queue can name.
var pairRules = []string{"g", "g.r", "g.s", "g.w"}

// asks draws the rules that a spec names, sometimes including an unknown one.
func (p *pair) asks(s *queue.Spec) {
	if !p.ruled {
		return
	}
	s.Rules = nil
	for range rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(p.T, "rules") {
		name := rapid.SampledFrom([]string{
			"g", "g.r", "g.s", "g", "g.r", "g.s", "g.r", "g.s", "other", "g.none", "g.w",
		}).Draw(p.T, "rule")
		if !slices.Contains(s.Rules, name) {
			s.Rules = append(s.Rules, name)
		}
	}
}

// makeRules makes the initial rules.
func (p *pair) makeRules() {
	for _, name := range pairRules {
		p.putRuleBoth(p.rule(name), queue.AnyRevision)
	}
}

func (p *pair) rule(name string) rules.Rule {
	a := leaky.AlgorithmConcurrency
	if name != "g.w" {
		a = rapid.SampledFrom([]leaky.Algorithm{
			leaky.AlgorithmMeter, leaky.AlgorithmFixedWindow, leaky.AlgorithmSlidingLog, leaky.AlgorithmSlidingCounter,
			leaky.AlgorithmTokenBucket, leaky.AlgorithmGap,
			leaky.AlgorithmConcurrency, leaky.AlgorithmBudget,
		}).Draw(p.T, "algorithm")
	}
	bound := func() rules.Bound { return rapid.SampledFrom(changeable(a)).Draw(p.T, "bound") }
	return ruleOf(name, a, bound(), func(r *rules.Rule) {
		r.Key = rapid.SampledFrom([]string{"", "{lane}", "{queue}", "{header.x}", "{lane}:{queue}"}).Draw(p.T, "key")
		r.Action = rapid.SampledFrom([]string{rules.Reject, rules.Defer, rules.Shadow}).Draw(p.T, "action")
		r.MaxKeys = rapid.SampledFrom([]int64{0, 0, 1, 2, 4}).Draw(p.T, "max keys")
		if rapid.Bool().Draw(p.T, "override") {
			r.Overrides = map[string]rules.Bound{
				rapid.SampledFrom([]string{"a", "g", "x"}).Draw(p.T, "override of"): bound(),
			}
		}
	})
}

// putRule puts a rule, usually an existing one with other numbers.
func (p *pair) putRule() {
	name := rapid.SampledFrom(pairRules).Draw(p.T, "rule")
	rule := p.rule(name)
	if i, err := p.engines[0].Rule(p.ctx, name); err == nil &&
		rapid.IntRange(0, 3).Draw(p.T, "the same algorithm") < 3 {
		rule.Algorithm, rule.Key, rule.Overrides = i.Algorithm, i.Key, nil
		rule.Bound = rapid.SampledFrom(changeable(rule.Algorithm)).Draw(p.T, "bound")
		if key := rapid.SampledFrom([]string{"", "", "a", "g", "x"}).Draw(p.T, "override of"); key != "" {
			rule.Overrides = map[string]rules.Bound{key: rule.Bound}
		}
		rule.Unit = i.Unit
		rule.Normalize()
	}
	p.putRuleBoth(rule, rapid.SampledFrom([]int{-1, -1, -1, 0, len(p.revs[0])}).Draw(p.T, "expect"))
}

func (p *pair) putRuleBoth(rule rules.Rule, which int) {
	var got [2]int64
	p.both(fmt.Sprintf("put rule %+v expecting %d", rule, which), func(side int, e queue.Engine) string {
		expect := int64(which)
		if which > 0 {
			expect = p.revs[side][which-1]
		}
		res, err := e.PutRule(p.ctx, rule, expect)
		got[side] = res.Revision
		return fmt.Sprintf("%v created %v changed %v", kind(err), res.Created, res.Changed)
	})
	p.revision(got)
}

func (p *pair) deleteRule() {
	name := rapid.SampledFrom(pairRules).Draw(p.T, "rule")
	p.both(
		"delete rule "+name,
		func(_ int, e queue.Engine) string { return kind(e.DeleteRule(p.ctx, name, queue.AnyRevision)) },
	)
}

func (p *pair) resetRule() {
	name := rapid.SampledFrom(pairRules).Draw(p.T, "rule")
	p.both("reset rule "+name, func(_ int, e queue.Engine) string { return kind(e.ResetRule(p.ctx, name)) })
}

// take asks a rule.
func (p *pair) take() {
	name := rapid.SampledFrom(pairRules).Draw(p.T, "rule")
	var list []rules.Take
	for range rapid.IntRange(1, 5).Draw(p.T, "questions") {
		t := rules.Take{
			Op: rapid.SampledFrom([]rules.TakeOp{
				rules.TakeNow, rules.TakeNow, rules.TakeNow, rules.TakePeek, rules.TakeBack, rules.TakeAnew,
			}).Draw(p.T, "op"),
			Key:  rapid.SampledFrom([]string{"", "a", "b", "g", "g.a", "x", "a:g", "a:g.a"}).Draw(p.T, "key"),
			Cost: rapid.SampledFrom([]int64{0, 1, 1, 2, 3, 5, 11, -1}).Draw(p.T, "cost"),
		}
		if name == "g.w" || rapid.IntRange(0, 19).Draw(p.T, "odd") == 19 {
			t.Lease = rapid.SampledFrom([]string{"", "p", "q", "s", "t", "not one"}).Draw(p.T, "lease")
		}
		list = append(list, t)
	}
	lists := p.ofUnit(name, list)
	ids := [2][]string{make([]string, len(list)), make([]string, len(list))}
	p.both(fmt.Sprintf("take from %s %+v", name, list), func(side int, e queue.Engine) string {
		got, err := e.Take(p.ctx, name, lists[side])
		text := kind(err)
		for i, a := range got {
			lease := a.Lease
			if list[i].Lease == "" && lease != "" {
				lease = "made"
			}
			ids[side][i] = a.ID
			text += fmt.Sprintf(
				"\n  %+v shadow %v lease %q id %v keys %d %v", fullless(a.Decision, a.MaxKeys), a.Shadow, lease, a.ID != "",
				a.MaxKeys, kind(a.Err),
			)
		}
		return text
	})
	for i, t := range list {
		if ids[0][i] != "" && ids[1][i] != "" {
			p.takes = append(p.takes, pairTake{t.Key, [2]string{ids[0][i], ids[1][i]}})
		}
	}
}

// pairTake is a take that can be corrected, by its ids in both engines.
type pairTake struct {
	key string
	ids [2]string
}

// ofUnit gives takes of a budget their unit, and makes some of them corrections of earlier ones.
func (p *pair) ofUnit(name string, list []rules.Take) (lists [2][]rules.Take) {
	info, err := p.engines[0].Rule(p.ctx, name)
	budget := err == nil && info.Unit != ""
	for i := range list {
		t := &list[i]
		if !budget && rapid.IntRange(0, 39).Draw(p.T, "odd unit") < 39 {
			continue
		}
		t.Unit = "tokens"
		if len(p.takes) > 0 && rapid.IntRange(0, 2).Draw(p.T, "correct") == 0 {
			t.Op = rules.TakeCorrect
			t.ID = fmt.Sprint(rapid.IntRange(max(0, len(p.takes)-6), len(p.takes)-1).Draw(p.T, "which"))
		}
	}
	for side := range lists {
		lists[side] = slices.Clone(list)
		for i := range lists[side] {
			t := &lists[side][i]
			if n, err := strconv.Atoi(t.ID); err == nil {
				if t.ID = p.takes[n].ids[side]; list[i].Cost != 5 { // else of any key
					t.Key = p.takes[n].key
				}
			}
		}
	}
	return lists
}

// fullless removes the time until there is room for another key. Engines may differ in when they look at a key again
// that was used meanwhile.
func fullless(d leaky.Decision, maxKeys int64) leaky.Decision {
	if maxKeys > 0 && d.RetryAfter > 0 {
		d.RetryAfter = 0
	}
	return d
}

// retryOf is when to retry, under the same exception.
func retryOf(a *queue.Appended) time.Duration {
	if a.Outcome == queue.LimitReached &&
		slices.ContainsFunc(a.Rules, func(r rules.Ruling) bool { return r.MaxKeys > 0 && !r.Shadow }) {
		return 0
	}
	return a.RetryAfter
}

// allRules compares all rules.
func (p *pair) allRules() {
	var got [2][]rules.Info
	p.both("rules", func(side int, e queue.Engine) string {
		list, err := e.ListRules(p.ctx, "", 100)
		got[side] = list
		text := kind(err)
		for _, i := range list {
			text += fmt.Sprintf("\n  %+v asked by %v", i.Rule, i.Queues)
		}
		return text
	})
	for i := range got[0] {
		p.revision([2]int64{got[0][i].Revision, got[1][i].Revision})
	}
	for _, name := range pairRules {
		p.both("rule "+name, func(_ int, e queue.Engine) string {
			i, err := e.Rule(p.ctx, name)
			return fmt.Sprintf("%+v asked by %v %v", i.Rule, i.Queues, kind(err))
		})
	}
}

func (p *pair) attend() {
	process := rapid.SampledFrom([]string{"one", "two", "three", "not one"}).Draw(p.T, "process")
	p.both("attend "+process, func(_ int, e queue.Engine) string {
		n, err := e.Attend(p.ctx, process)
		return fmt.Sprint(n, kind(err))
	})
}

// ruledText formats the rulings on a job.
func ruledText(list []rules.Ruling) string {
	var text []string
	for _, s := range list {
		s.Decision = fullless(s.Decision, s.MaxKeys)
		text = append(text, fmt.Sprintf("%+v", s))
	}
	return strings.Join(text, " ")
}
