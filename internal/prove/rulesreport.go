package prove

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
)

// RulesReport is the outcome of a run of rules.
type RulesReport struct {
	Ingresses int           `json:"ingresses"`
	Callers   int           `json:"callers"`
	Keys      int           `json:"keys"` // of each rule
	Rate      string        `json:"rate"`
	Faults    Faults        `json:"faults"`
	Injected  int           `json:"faults_injected"`
	Duration  time.Duration `json:"duration_ns"`
	// Delta is the law's tolerance for two clocks.
	Delta time.Duration `json:"delta_ns"`

	Rules []RuleReport `json:"rules"`

	// Held is true if Broken is empty.
	Held   bool     `json:"held"`
	Broken []string `json:"broken"`
}

// RuleReport is the verdict on a rule.
type RuleReport struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	// Asked counts all takes except the Undecided, which changed nothing. Unknown takes may have been allowed.
	Asked     int64 `json:"asked"`
	Allowed   int64 `json:"allowed"`
	Refused   int64 `json:"refused"`
	Unknown   int64 `json:"unknown"`
	Undecided int64 `json:"undecided"`
	// Most is the greatest cost known to be allowed under one key in any span of Window, Law the limit.
	Window time.Duration `json:"window_ns"`
	Most   int64         `json:"most_in_window"`
	Law    int64         `json:"law_allows_in_window"`
	Held   bool          `json:"held"`
	// Worst is the span, of any width, that broke the law most or came nearest to breaking it; Key is its key.
	Worst law.Window `json:"worst_span"`
	Key   string     `json:"worst_key"`
	// Idle has the keys under which the rule was never near its limit, or refused nothing.
	Idle []string `json:"idle_keys,omitempty"`
}

// judge judges each key by itself.
func (o *RulesOptions) judge(q *questions, marks []Mark) *RulesReport {
	r := &RulesReport{
		Ingresses: len(o.URLs), Callers: o.Callers, Keys: o.Keys, Rate: o.Rate.String(), Faults: o.Faults,
		Injected: len(marks), Duration: o.Duration,
		Delta: q.rules[0].law.Delta, Rules: make([]RuleReport, len(q.rules)),
	}
	if o.Forgets == 0 {
		marks = nil // to this store, a kill is a fault like any other
	}
	var all sync.WaitGroup
	for i := range q.rules {
		all.Go(func() { r.Rules[i] = o.judgeRule(q.rules[i], q.accounts[i*o.Keys:(i+1)*o.Keys], marks) })
	}
	all.Wait()
	r.conclude()
	return r
}

func (o *RulesOptions) judgeRule(a asked, keys []keyAccount, marks []Mark) RuleReport {
	v := RuleReport{Name: a.rule.Name, Algorithm: string(a.rule.Algorithm), Window: o.window(), Held: true}
	v.Law = a.law.Allowed(v.Window)
	for i := range keys {
		k, key := &keys[i], fmt.Sprintf("key-%d", i+1)
		v.Asked += k.allowed + k.refused + k.unknown
		v.Allowed += k.allowed
		v.Refused += k.refused
		v.Unknown += k.unknown
		v.Undecided += k.undecided
		var most int64
		for _, passed := range lives(k.passed, marks, o.Forgets+a.law.Delta) {
			most = max(most, law.MostPassed(passed, v.Window))
			if w := a.law.Judge(passed); v.Key == "" || w.Worst.Starts-w.Worst.Allowed > v.Worst.Starts-v.Worst.Allowed {
				v.Key, v.Worst = key, w.Worst
				v.Held = v.Held && w.Held
			}
		}
		v.Most = max(v.Most, most)
		// When asked for more, even the tightest rule allows at least the rate's share of the window.
		if k.refused == 0 || 2*float64(most) < o.Rate.PerSecond()*v.Window.Seconds() {
			v.Idle = append(v.Idle, key)
		}
	}
	return v
}

// lives splits takes by the lives of a store that forgets the most recent takes when killed. Each life has its own
// takes and the remembered ones of the previous life. Takes whose life is unknown are left out, since fewer takes never
// break a law.
func lives(passed []law.Passed, marks []Mark, forgets time.Duration) [][]law.Passed {
	var all [][]law.Passed
	for _, m := range marks {
		if m.Fault != Kill {
			continue
		}
		life, left := []law.Passed{}, []law.Passed{}
		for _, p := range passed {
			switch {
			case p.Answered <= m.At-forgets:
				life, left = append(life, p), append(left, p)
			case p.Answered <= m.Ended:
				life = append(life, p)
			case p.Asked > m.Ended:
				left = append(left, p)
			}
		}
		all, passed = append(all, life), left
	}
	return append(all, passed)
}

func (r *RulesReport) conclude() {
	r.Broken = []string{}
	broken := func(format string, args ...any) { r.Broken = append(r.Broken, fmt.Sprintf(format, args...)) }
	if r.Faults != NoFaults && r.Injected == 0 {
		broken("no fault was injected: the run was too short")
	}
	for _, v := range r.Rules {
		if w := v.Worst; !v.Held {
			broken(
				"the law of the rule %s: %d let through under %s in %v, from %v into the run, where %d are allowed", v.Algorithm,
				w.Starts, v.Key, w.Width.Round(time.Microsecond), w.From.Round(time.Millisecond), w.Allowed,
			)
		}
		if len(v.Idle) > 0 && v.Held {
			broken(
				"the rule %s was never near its limit under %v, which proves nothing about it (try a lower rate, fewer "+
					"keys or more callers)",
				v.Algorithm, slices.Sorted(slices.Values(v.Idle)),
			)
		}
	}
	r.Held = len(r.Broken) == 0
}
