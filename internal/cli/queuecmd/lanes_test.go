package queuecmd

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
)

func TestLaneListText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon := now.Add(150 * time.Second)
	rate, err := leaky.ParseRate("20000/m")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		v    wire.Lanes
		want string
	}{
		{"empty", wire.Lanes{Now: now}, "no jobs are waiting\n"},
		{
			"some never empty",
			wire.Lanes{
				Now: now, Total: 20_000, Waiting: 30_000, Never: 1, Estimated: true, Why: &wire.Bend{Why: "quota"},
				Lanes: []wire.Lane{
					{Lane: "", Waiting: 7, Weight: 1},
					{
						Lane: "gmail.com", Waiting: 300, PerSecond: 2, Limit: "2/s", FinishAt: &soon, Weight: 3, Guaranteed: 0.375,
					},
				},
			},
			"LANE       WEIGHT  WAITING  PER SECOND  AT LEAST  LIMIT  EMPTY IN  AT\n" +
				"                1        7           -                      never\n" +
				"gmail.com       3      300        2.00   0.375/s    2/s     2m30s  2026-01-02T03:06:35.000Z\n" +
				"2 of 20000 lanes, 30000 jobs waiting, an estimate; 1 never empty: " +
				"their jobs wait for the next window of the quota\n",
		},
		{
			"budgets",
			wire.Lanes{
				Now: now, Total: 2, Waiting: 5,
				Lanes: []wire.Lane{
					{Lane: "acme", Waiting: 4, FinishAt: &soon, Budgets: []wire.Budget{
						{Unit: "tokens", Rate: rate, Burst: 5000, Used: 6000, Free: now.Add(18 * time.Second)},
					}},
					{Lane: "free", Waiting: 1, FinishAt: &soon},
				},
			},
			"LANE  WEIGHT  WAITING  PER SECOND  AT LEAST  LIMIT  EMPTY IN  AT                        BUDGETS\n" +
				"acme       1        4           -                      2m30s  2026-01-02T03:06:35.000Z  " +
				"tokens: 6000 of 5000 used at 20000/m, all free in 18.0s\n" +
				"free       1        1           -                      2m30s  2026-01-02T03:06:35.000Z\n" +
				"2 of 2 lanes, 5 jobs waiting\n",
		},
	} {
		if got := laneListText(c.v, now); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
