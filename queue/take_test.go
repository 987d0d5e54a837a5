package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestQuestionsOfARule(t *testing.T) {
	window := queue.Rule{
		Name: "r", Algorithm: leaky.AlgorithmFixedWindow,
		Bound: queue.Bound{Limit: 5, Period: queue.Duration(time.Minute)},
	}
	keyed := window
	keyed.Key = "{lane}"
	places := queue.Rule{
		Name: "r", Algorithm: leaky.AlgorithmConcurrency,
		Bound: queue.Bound{Limit: 5, TTL: queue.Duration(time.Minute)},
	}
	for _, tt := range []struct {
		what  string
		rule  *queue.Rule
		take  queue.Take
		field string // that is at fault; empty if none is
	}{
		{"one", &window, queue.Take{}, ""},
		{"all", &window, queue.Take{Cost: 5}, ""},
		{"more than ever passes", &window, queue.Take{Cost: 6}, "cost"},
		{"so much given back", &window, queue.Take{Op: queue.TakeBack, Cost: 6}, "cost"},
		{"forgotten, whatever it costs", &window, queue.Take{Op: queue.TakeAnew, Cost: 6}, ""},
		{"less than nothing", &window, queue.Take{Cost: -1}, "cost"},
		{"less than nothing forgotten", &window, queue.Take{Op: queue.TakeAnew, Cost: -1}, "cost"},
		{"more than can be counted", &window, queue.Take{Op: queue.TakeAnew, Cost: leaky.MaxLimit + 1}, "cost"},
		{"another operation", &window, queue.Take{Op: queue.TakeAnew + 1}, "op"},
		{"a key nobody asked for", &window, queue.Take{Key: "k"}, ""},
		{"no key", &keyed, queue.Take{}, "key"},
		{"a long key", &keyed, queue.Take{Key: strings.Repeat("k", queue.MaxRuleKeyBytes+1)}, "key"},
		{"a key that is no text", &keyed, queue.Take{Key: "\xff"}, "key"},
		{"a place of a window", &window, queue.Take{Lease: "a"}, "lease"},
		{"a place", &places, queue.Take{Lease: "a"}, ""},
		{"a place that gets a name", &places, queue.Take{}, ""},
		{"is there a place", &places, queue.Take{Op: queue.TakePeek}, ""},
		{"which place", &places, queue.Take{Op: queue.TakeBack}, "lease"},
		{"a new place of more than there is", &places, queue.Take{Cost: 6}, "cost"},
		{"so much given back of a place", &places, queue.Take{Op: queue.TakeBack, Lease: "a", Cost: 6}, ""},
		{"a long name", &places, queue.Take{Lease: strings.Repeat("a", leaky.MaxLease+1)}, "lease"},
		{"a name with a space", &places, queue.Take{Lease: "a b"}, "lease"},
	} {
		l, err := tt.rule.Limiter(tt.rule.Algorithm)
		if err != nil {
			t.Fatal(err)
		}
		ask, err := tt.rule.Ask(tt.take, l)
		var at *queue.FieldError
		switch {
		case tt.field != "":
			if !errors.As(err, &at) || at.Field != tt.field {
				t.Errorf("%s: %v", tt.what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.what, err)
		case tt.take.Op != queue.TakeAnew && leaky.CheckAsk(l, ask) != nil:
			t.Errorf("%s: %v", tt.what, leaky.CheckAsk(l, ask))
		}
	}
	l, _ := places.Limiter(places.Algorithm)
	a, _ := places.Ask(queue.Take{}, l)
	if b, _ := places.Ask(queue.Take{}, l); a == b || a.Lease == "" {
		t.Errorf("places named %q and %q", a.Lease, b.Lease)
	}
}
