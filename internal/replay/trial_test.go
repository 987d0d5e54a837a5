package replay

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/penstock/penstock/leaky"
)

// TestForgotten checks that the states of keys that do not return are forgotten, but not their counts.
func TestForgotten(t *testing.T) {
	p, err := newPlay(t.Context(), &Options{Rules: list(t, "meter rate=5/s burst=10", "meter rate=1/s burst=1000")})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	for i := range n {
		r := request{at: leaky.Instant(i) * 1000, cost: 1}
		r.keys[0] = p.rings[0].number([]byte(fmt.Sprint(i)))
		if i == 0 {
			r.cost = 999
		}
		if err := p.take(r); err != nil {
			t.Fatal(err)
		}
		r.cost = 1 // a key that occurs once has no state
		if err := p.take(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.take(request{at: leaky.Instant(n) * 1000, cost: 1000}); err != nil { // the first key again
		t.Fatal(err)
	}
	if got := p.trials[1].refused; got != 1 {
		t.Errorf("%d refused for a key that used up its burst of 1000 s 100 s ago", got)
	}
	if live := p.trials[0].live; live > 10_000 {
		t.Errorf("%d states are kept", live)
	}
	// They cost more than 10.
	if o := p.trials[0].outcome(p.rings[0], 0); o.Keys != n || o.Requests != 2*n+1 || o.Refused != 2 || o.Never != 2 {
		t.Errorf("%+v", o)
	}
}

// TestOnceAndAgain checks that a key that occurs once gets the same outcome as with a state, for all algorithms, even
// if its request costs too much.
func TestOnceAndAgain(t *testing.T) {
	for _, text := range []string{
		"meter rate=1/s burst=5", "token_bucket rate=1/s burst=5", "fixed_window limit=5 period=1s",
		"sliding_log limit=5 period=1s", "sliding_counter limit=5 period=1s",
		"concurrency limit=5 ttl=1s",
	} {
		for _, cost := range []int32{1, 5, 6} {
			p, err := newPlay(t.Context(), &Options{Rules: list(t, text)})
			if err != nil {
				t.Fatal(err)
			}
			r := request{at: 7_000_000, cost: cost}
			r.keys[0] = p.rings[0].number([]byte("k"))
			if err := p.take(r); err != nil {
				t.Fatal(err)
			}
			once := p.trials[0].outcome(p.rings[0], 0)
			if p.trials[0].keys[0].more != nil {
				t.Fatal("a key that occurred once has a state")
			}
			p.trials[0].repeated(0, "k", r.at)
			if again := p.trials[0].outcome(p.rings[0], 0); !reflect.DeepEqual(again, once) {
				t.Errorf("%s, cost %d:\n%+v once\n%+v again", text, cost, once, again)
			}
			if cost < 6 != (once.Refused == 0) || once.Own.Allowed != int64(cost)*(1-once.Refused) ||
				once.Own.Asked != int64(cost) || once.Own.Key != "k" {
				t.Errorf("%s, cost %d: %+v", text, cost, once)
			}
		}
	}
}
