package api

import (
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A queue and its parent show how much of each rate in another unit is in use, and quotas have their unit.
func TestUnitsAreShown(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	rate, err := leaky.ParseRate("60000/m")
	if err != nil {
		t.Fatal(err)
	}
	tokens := queue.Limit{Unit: "tokens", Rate: rate, Burst: 5000}
	used := func(after time.Duration) queue.LimitState {
		return queue.LimitState{Bucket: leaky.Bucket{TAT: leaky.Instant(now.Add(after).UnixMicro())}}
	}
	info := func(name string, after time.Duration) *queue.Info {
		return &queue.Info{
			Now: now, Spec: queue.Spec{Name: name, Limits: []queue.Limit{
				tokens,
				{Rate: leaky.PerSecond(5)},
				{Unit: "tokens", Quota: queue.Quota{Max: 1000, Per: "d"}},
				{Quota: queue.Quota{Max: 10, Per: "h"}},
			}}, Limits: []queue.LimitState{
				used(after),
				{},
				{Window: leaky.Window{Used: 400, Ends: leaky.Instant(now.Add(12 * time.Hour).UnixMicro())}},
				{Window: leaky.Window{Used: 4, Ends: leaky.Instant(now.Add(time.Hour).UnixMicro())}},
			},
		}
	}
	i := info("llm.live", 2500*time.Millisecond)
	i.Parent = info("llm", 7*time.Second) // in debt
	q := shown(i)
	want := wire.Budget{Unit: "tokens", Rate: rate, Burst: 5000, Used: 2500, Free: now.Add(2500 * time.Millisecond)}
	if !slices.Equal(q.Stats.Budgets, []wire.Budget{want}) {
		t.Errorf("%+v", q.Stats.Budgets)
	}
	want.Used, want.Free = 7000, now.Add(7*time.Second)
	if !slices.Equal(q.Parent.Budgets, []wire.Budget{want}) {
		t.Errorf("%+v", q.Parent.Budgets)
	}
	if q := q.Stats.Quotas; len(q) != 2 || q[0].Unit != "tokens" || q[0].Left != 600 || q[1].Unit != "" || q[1].Left != 6 {
		t.Errorf("%+v", q)
	}

	i = info("idle", -time.Hour)
	want.Used, want.Free = 0, now
	if q := shown(i); !slices.Equal(q.Stats.Budgets, []wire.Budget{want}) {
		t.Errorf("%+v", q.Stats.Budgets)
	}
	i.Limits = nil // the engine does not know them yet
	if q := shown(i); len(q.Stats.Budgets) != 0 || len(q.Stats.Quotas) != 0 {
		t.Errorf("%+v", q.Stats)
	}
}
