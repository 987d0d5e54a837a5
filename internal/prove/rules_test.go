package prove

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// provable is the number of algorithms that limit a rate: all but concurrency.
var provable = len(rules.Algorithms()) - 1

func TestRunRulesSeesThrough(t *testing.T) {
	honest := func(own leaky.Limiter, _ time.Duration) leaky.Limiter { return own }
	loosened := func(some string) *desk {
		return &desk{by: func(own leaky.Limiter, after time.Duration) leaky.Limiter {
			if slices.Contains(strings.Fields(some), string(own.Algorithm())) && after > time.Second {
				return looser(own)
			}
			return own
		}}
	}
	tests := []struct {
		name string
		desk *desk
		law  string // rules whose law is broken; others may be too
		fair bool   // no other rules are
		idle bool   // no rule proves anything
	}{
		{"honest", &desk{by: honest}, "", true, false},
		{
			"each ingress counts for itself", &desk{by: honest, apart: true}, "meter token_bucket sliding_log gap", false, false,
		},
		{"three loosened in the run", loosened("meter fixed_window gap"), "meter fixed_window gap", true, false},
		{
			"the others loosened in the run", loosened("token_bucket sliding_log sliding_counter"),
			"token_bucket sliding_log sliding_counter", true, false,
		},
		{"nothing gets through", &desk{by: func(leaky.Limiter, time.Duration) leaky.Limiter {
			return leaky.FixedWindow{Max: 1, Period: leaky.MaxPeriod}
		}}, "", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine a short run may have too few takes to find a violation. It must never report a false
			// one.
			for duration := 5 * time.Second; ; duration *= 2 {
				o := tt.desk.options(t)
				o.Rate, o.Duration = leaky.PerSecond(5), duration
				r, err := RunRules(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				var missed []string
				said := strings.Join(r.Broken, "; ")
				if r.Held != (len(r.Broken) == 0) || len(r.Rules) != provable || tt.desk.removed != provable {
					t.Errorf("held %v, %d rules, %d of them removed: %s", r.Held, len(r.Rules), tt.desk.removed, said)
				}
				for _, v := range r.Rules {
					broken := slices.Contains(strings.Fields(tt.law), v.Algorithm)
					if v.Held && broken {
						missed = append(missed, v.Algorithm)
					}
					if !v.Held && !broken && tt.fair || v.Held == strings.Contains(said, "the law of the rule "+v.Algorithm+":") {
						t.Errorf("%s: held %v, most %d of %d: %s", v.Algorithm, v.Held, v.Most, v.Law, said)
					}
					if tt.idle && !strings.Contains(said, "the rule "+v.Algorithm+" was never near its limit") {
						t.Errorf("%s: idle under %v, %s", v.Algorithm, v.Idle, said)
					}
					if v.Asked == 0 || v.Asked != v.Allowed+v.Refused+v.Unknown {
						t.Errorf("%+v", v)
					}
				}
				if len(missed) == 0 {
					return
				}
				if duration > time.Minute {
					t.Fatalf("%v held in %v: %s", missed, duration, said)
				}
			}
		})
	}
}

// A meter of 10/s with a burst of 2, in spans of 500 ms, judged by the callers' answers.
func TestRulesJudged(t *testing.T) {
	by := leaky.Meter{Rate: leaky.PerSecond(10), Burst: 2}
	// pass returns n takes, one every interval, each answered a little after it was asked.
	pass := func(n int, from, every time.Duration, cost int64) (passed []law.Passed) {
		for i := range n {
			at := from + time.Duration(i)*every
			passed = append(passed, law.Passed{Asked: at, Answered: at + ms, Cost: cost})
		}
		return passed
	}
	good := keyAccount{allowed: 30, refused: 90, unknown: 5, undecided: 7, passed: pass(30, 0, 100*ms, 1)}
	for _, tt := range []struct {
		name   string
		second keyAccount // the second of two keys; the first is good
		faults Faults
		marks  []Mark
		broken string // part of the verdict; empty if it holds
		most   int64
	}{
		{"as many as allowed", good, NoFaults, nil, "", 5},
		{"by cost, and bursts", keyAccount{allowed: 15, refused: 9, passed: pass(15, 0, 200*ms, 2)}, NoFaults, nil, "", 6},
		{
			"too many",
			keyAccount{allowed: 31, refused: 90, passed: append(pass(30, 0, 100*ms, 1), pass(3, 550*ms, ms, 1)...)},
			NoFaults, nil,
			"the law of the rule meter: 9 let through under key-2 in 553ms, from 0s into the run, where 7 are allowed", 8,
		},
		{
			"a little too fast",
			keyAccount{allowed: 300, refused: 90, passed: pass(300, 0, 98*ms, 1)},
			NoFaults, nil,
			"the law of the rule meter: ", 6,
		},
		{
			"no more takes than it allows",
			keyAccount{allowed: 30, passed: pass(30, 0, 100*ms, 1)},
			NoFaults, nil,
			"never near its limit under [key-2]", 5,
		},
		{
			"few takes are allowed",
			keyAccount{allowed: 3, refused: 99, passed: pass(3, 0, time.Second, 1)},
			NoFaults, nil,
			"never near its limit under [key-2]", 5,
		},
		{"nothing happened", keyAccount{}, NoFaults, nil, "never near its limit under [key-2]", 5},
		{"no fault was injected", good, Kill, nil, "no fault was injected", 5},
		{"a fault was", good, Kill, []Mark{{Fault: Kill}}, "", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := RulesOptions{URLs: []string{""}, Rate: by.Rate, Keys: 2, Faults: tt.faults}
			q := &questions{
				rules:    []asked{{rules.Rule{Algorithm: leaky.AlgorithmMeter}, law.Admission{By: by, Delta: time.Microsecond}}},
				accounts: []keyAccount{good, tt.second},
			}
			r := o.judge(q, tt.marks)
			said := strings.Join(r.Broken, "; ")
			if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) || len(r.Broken) > 1 {
				t.Errorf("held %v: %s; want %q", r.Held, said, tt.broken)
			}
			v := r.Rules[0]
			if v.Most != tt.most || v.Law != 7 || v.Window != 500*ms || v.Allowed != 30+tt.second.allowed ||
				v.Undecided != 7+tt.second.undecided {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestRunRulesReportsADeletedRule(t *testing.T) {
	d := &desk{by: func(own leaky.Limiter, _ time.Duration) leaky.Limiter { return own }}
	o := d.options(t)
	o.Duration = time.Minute
	o.Progress = func(time.Duration, int64, int64, []Mark) {
		d.mu.Lock()
		defer d.mu.Unlock()
		clear(d.rules)
	}
	if _, err := RunRules(t.Context(), o); err == nil || !strings.Contains(err.Error(), "unknown_rule") {
		t.Error(err)
	}
}

func TestRulesOptions(t *testing.T) {
	d := &desk{}
	for want, change := range map[string]func(o *RulesOptions){
		"ingresses":           func(o *RulesOptions) { o.URLs = nil },
		"keys":                func(o *RulesOptions) { o.Keys = -1 },
		"callers":             func(o *RulesOptions) { o.Callers = 5000 },
		"unlimited":           func(o *RulesOptions) { o.Rate = leaky.Rate{} },
		"can be judged":       func(o *RulesOptions) { o.Rate = leaky.PerSecond(5000) },
		"too few for a proof": func(o *RulesOptions) { o.Rate = leaky.PerSecond(1) },
		"at least 1s":         func(o *RulesOptions) { o.Duration = time.Millisecond },
		"must be longer than": func(o *RulesOptions) { o.Faults = Kill },
		"earthquake":          func(o *RulesOptions) { o.Faults, o.Every = "earthquake", time.Second },
	} {
		o := d.options(t)
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// Rules can be made for every rate that can be proved.
	for _, rate := range []string{"1/3s", "7/s", "100/m", "333/s", "1000/s", "10000/s"} {
		r, err := leaky.ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		o := RulesOptions{Rate: r}
		if list, err := o.rules("prove-x"); err != nil || len(list) != provable {
			t.Errorf("%s: %d rules, %v", rate, len(list), err)
		}
	}
}

// A store that forgets the last takes before it was killed may allow as many again. Earlier and later takes all count.
func TestLives(t *testing.T) {
	at := func(s ...float64) (passed []law.Passed) {
		for _, one := range s {
			d := time.Duration(one * float64(time.Second))
			passed = append(passed, law.Passed{Asked: d - ms, Answered: d})
		}
		return passed
	}
	two := law.Admission{By: leaky.SlidingLog{Max: 2, Period: time.Minute}}
	kill := func(from, to float64) Mark {
		return Mark{
			Fault: Kill, At: time.Duration(from * float64(time.Second)), Ended: time.Duration(to * float64(time.Second)),
		}
	}
	for _, tt := range []struct {
		name   string
		passed []law.Passed
		marks  []Mark
		lives  int
		held   bool
	}{
		{"no kill", at(1, 2), nil, 1, true},
		{"too much", at(1, 2, 3), nil, 1, false},
		{"twice as much, since it was forgotten", at(1.5, 1.6, 3, 4), []Mark{kill(2, 2.1)}, 2, true},
		{"one too many among the forgotten", at(1.5, 1.6, 1.7, 3), []Mark{kill(2, 2.1)}, 2, false},
		{"more than it can have forgotten", at(0.9, 1.6, 3, 4), []Mark{kill(2, 2.1)}, 2, false},
		{"too much after it", at(1.5, 3, 4, 5), []Mark{kill(2, 2.1)}, 2, false},
		{"two kills", at(1.5, 1.6, 3.5, 3.6, 5, 6), []Mark{kill(2, 2.1), kill(4, 4.1)}, 3, true},
		{
			"two kills, and takes that the first did not remove", at(0.5, 1.6, 3.5, 3.6, 5, 6),
			[]Mark{kill(2, 2.1), kill(4, 4.1)},
			3,
			false,
		},
		{
			"decided before or after the kill",
			append(at(1.5, 1.6, 3, 4), law.Passed{Asked: 2 * time.Second, Answered: 3 * time.Second}),
			[]Mark{kill(2, 2.1)},
			2,
			true,
		},
		{"another fault forgets nothing", at(1.5, 1.6, 4), []Mark{{Fault: Pause, At: 2 * time.Second}}, 1, false},
	} {
		all, held := lives(tt.passed, tt.marks, time.Second), true
		for _, life := range all {
			held = held && two.Judge(life).Held
		}
		if len(all) != tt.lives || held != tt.held {
			t.Errorf("%s: held %v in %d lives %v", tt.name, held, len(all), all)
		}
	}
}

// A run does not wait for an installation whose process ended: nothing is left there to remove.
func TestRunRulesReportsAnEndedProcessAtOnce(t *testing.T) {
	d := &desk{by: func(own leaky.Limiter, _ time.Duration) leaky.Limiter { return own }}
	o := d.options(t)
	o.Ingress = func(int) Command { return Command{Path: "/bin/false"} }
	o.Store = gone{d}
	done := make(chan error, 1)
	go func() {
		_, err := RunRules(t.Context(), o)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "ended by itself") {
			t.Error(err)
		}
	case <-time.After(patience / 2):
		t.Fatal("it waits for a store that has ended")
	}
}

// gone is a store that no longer exists.
type gone struct{ *desk }

func (gone) RemoveRule(context.Context, string) error { return queue.ErrUnavailable }
