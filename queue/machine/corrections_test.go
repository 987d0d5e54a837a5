package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// Takes that can no longer be corrected take no memory: later takes forget them, and so do requests for jobs.
func TestOldTakesAreForgotten(t *testing.T) {
	for what, later := range map[string]func(b *bench) (kept int){
		"takes": func(b *bench) int {
			b.MustTake("r", rules.Take{Key: "late", Unit: "tokens", Cost: 1})
			return 1
		},
		"reservations": func(b *bench) int {
			b.MustReserve(1)
			return 0
		},
	} {
		b := start(t, Options{})
		b.MustPutRule(rules.Rule{
			Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmBudget, Unit: "tokens",
			Bound: rules.Bound{Rate: leaky.PerSecond(1), Burst: 1000},
		})
		takes := make([]rules.Take, 200)
		for i := range takes {
			takes[i] = rules.Take{Key: fmt.Sprint(i), Unit: "tokens", Cost: 1}
		}
		if _, err := b.Take(context.Background(), "r", takes); err != nil {
			t.Fatal(err)
		}
		open := func() int {
			b.Engine.mu.Lock()
			defer b.Engine.mu.Unlock()
			if o := &b.Engine.openTakes; len(o.byID) != o.order.n {
				t.Errorf("%s: %d by id, %d in order", what, len(o.byID), o.order.n)
			}
			return b.Engine.openTakes.order.n
		}
		b.Advance(rules.CorrectFor)
		kept := later(b)
		if n := open(); n != len(takes)+kept {
			t.Errorf("%s: %d takes can be corrected, want all %d", what, n, len(takes)+kept)
		}
		b.Advance(time.Second)
		for range len(takes) {
			kept += later(b)
		}
		if n := open(); n != kept {
			t.Errorf("%s: %d takes are kept, want %d", what, n, kept)
		}
	}
}
