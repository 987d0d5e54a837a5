package queuecmd

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

func TestLaneListText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon := now.Add(150 * time.Second)
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
	} {
		if got := laneListText(c.v, now); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
