package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

func TestReplayed(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e, err := metrics.NewEngine(embedded(t), reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	put(t, e, "a", 1)
	ids := []string{"x", "y"}
	for i, id := range ids {
		if _, err := e.Append(t.Context(), []queue.Job{job("a", id, "1")}); err != nil {
			t.Fatal(err)
		}
		for number := uint64(100*i + 1); ; number++ {
			r, err := e.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: number, Max: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Jobs) == 0 {
				continue
			}
			lease := queue.Lease{Queue: "a", ID: id, Fence: r.Jobs[0].Fence}
			if _, err := e.Settle(t.Context(), []queue.Settlement{{Lease: lease, Verdict: queue.Bury}}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	for range 2 {
		if _, err := e.Replay(t.Context(), "a", append(ids, "nobody")); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, reg, `
# HELP penstock_replayed_total Dead jobs for which a replay was requested, by outcome.
# TYPE penstock_replayed_total counter
penstock_replayed_total{outcome="no_room",queue="a"} 2
penstock_replayed_total{outcome="replayed",queue="a"} 1
`, "penstock_replayed_total")
}
