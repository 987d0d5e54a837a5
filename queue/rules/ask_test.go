package rules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func TestQuestionsOfARule(t *testing.T) {
	window := rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmFixedWindow,
		Bound: rules.Bound{Limit: 5, Period: unit.Duration(time.Minute)},
	}
	keyed := window
	keyed.Key = "{lane}"
	overridden := window
	overridden.Overrides = map[string]rules.Bound{"vip": {Limit: 9, Period: unit.Duration(time.Minute)}}
	places := rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmConcurrency,
		Bound: rules.Bound{Limit: 5, TTL: unit.Duration(time.Minute)},
	}
	for _, tt := range []struct {
		what  string
		rule  *rules.Rule
		take  rules.Take
		field string // that is at fault; empty if none is
	}{
		{"one", &window, rules.Take{}, ""},
		{"all", &window, rules.Take{Cost: 5}, ""},
		{"more than ever passes", &window, rules.Take{Cost: 6}, "cost"},
		{"so much given back", &window, rules.Take{Op: rules.TakeBack, Cost: 6}, "cost"},
		{"forgotten, whatever it costs", &window, rules.Take{Op: rules.TakeAnew, Cost: 6}, ""},
		{"less than nothing", &window, rules.Take{Cost: -1}, "cost"},
		{"less than nothing forgotten", &window, rules.Take{Op: rules.TakeAnew, Cost: -1}, "cost"},
		{"more than can be counted", &window, rules.Take{Op: rules.TakeAnew, Cost: leaky.MaxLimit + 1}, "cost"},
		{"another operation", &window, rules.Take{Op: rules.TakeAnew + 1}, "op"},
		{"a key of a rule that counts all as one", &window, rules.Take{Key: "k"}, "key"},
		{"such a key, to look", &window, rules.Take{Op: rules.TakePeek, Key: "k"}, "key"},
		{"a key of a rule that has overrides", &overridden, rules.Take{Key: "k"}, ""},
		{"all but those", &overridden, rules.Take{}, ""},
		{"no key", &keyed, rules.Take{}, "key"},
		{"a long key", &keyed, rules.Take{Key: strings.Repeat("k", rules.MaxKeyBytes+1)}, "key"},
		{"a key that is no text", &keyed, rules.Take{Key: "\xff"}, "key"},
		{"a place of a window", &window, rules.Take{Lease: "a"}, "lease"},
		{"a place", &places, rules.Take{Lease: "a"}, ""},
		{"a place that gets a name", &places, rules.Take{}, ""},
		{"is there a place", &places, rules.Take{Op: rules.TakePeek}, ""},
		{"which place", &places, rules.Take{Op: rules.TakeBack}, "lease"},
		{"a new place of more than there is", &places, rules.Take{Cost: 6}, "cost"},
		{"so much given back of a place", &places, rules.Take{Op: rules.TakeBack, Lease: "a", Cost: 6}, ""},
		{"a long name", &places, rules.Take{Lease: strings.Repeat("a", leaky.MaxLease+1)}, "lease"},
		{"a name with a space", &places, rules.Take{Lease: "a b"}, "lease"},
	} {
		l, err := tt.rule.Limiter(tt.rule.Algorithm)
		if err != nil {
			t.Fatal(err)
		}
		ask, err := tt.rule.Ask(tt.take, l)
		var at *invalid.Error
		switch {
		case tt.field != "":
			if !errors.As(err, &at) || at.Field != tt.field {
				t.Errorf("%s: %v", tt.what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.what, err)
		case tt.take.Op != rules.TakeAnew && leaky.CheckAsk(l, ask) != nil:
			t.Errorf("%s: %v", tt.what, leaky.CheckAsk(l, ask))
		}
	}
	l, _ := places.Limiter(places.Algorithm)
	a, _ := places.Ask(rules.Take{}, l)
	if b, _ := places.Ask(rules.Take{}, l); a == b || a.Lease == "" {
		t.Errorf("places named %q and %q", a.Lease, b.Lease)
	}
}
