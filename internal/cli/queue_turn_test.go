package cli

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// A turn is waited for, and one that is too far off is told by the exit code.
func TestTurn(t *testing.T) {
	store := settled(t, queue.Hold, 0, 1)
	rate, err := leaky.ParseRate("1/h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), queue.Spec{Name: "calls", Rate: rate, Pull: true}, 0); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "waited", "", "queue", "turn", "calls")
	expect(t, ExitRefused, "", "come back in", "queue", "turn", "calls", "--wait", "100ms")
	expect(t, ExitRefused, "", "from 100ms to 1m0s", "queue", "turn", "calls", "--wait", "2m")
	expect(t, ExitRefused, "", "unknown_queue", "queue", "turn", "none")

	rule := rules.Rule{Name: "api", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(20)}}
	rule.Normalize()
	if _, err := store.PutRule(t.Context(), rule, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		expect(t, ExitDone, "allowed", "", "rule", "take", "api", "--wait", "10s")
	}
	expect(t, ExitUsage, "", "below 0", "rule", "take", "api", "--wait=-1s")
}
