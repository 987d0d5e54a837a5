package queuecmd

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

func TestCurveText(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	for _, tt := range []struct {
		what string
		v    wire.QueueForecast
		want []string
	}{
		{
			"lanes",
			wire.QueueForecast{
				Now: now, FinishAt: in(time.Minute), Bends: []wire.Bend{
					{At: now, Remaining: 100, Rate: 4, Why: "lane_rate"},
					{At: *in(10 * time.Second), Remaining: 60, Rate: 1.5, Why: "lane_rate", Drained: "gmail.com"},
					{At: *in(time.Minute)},
				},
			},
			[]string{
				"100", "1.5", "lane gmail.com is empty; waits for its turn at the rate of its lane", "empty in 1m", "an estimate",
			},
		},
		{
			"never",
			wire.QueueForecast{
				Now: now, Bends: []wire.Bend{{At: now, Remaining: 7, Why: "paused", Reason: "lunch"}},
			},
			[]string{"(lunch)", "7 jobs will not leave: they wait for the queue to be resumed"},
		},
		{
			"a quota",
			wire.QueueForecast{
				Now: now, FinishAt: in(time.Hour), Exact: true,
				Bends: []wire.Bend{
					{At: now, Remaining: 7, Why: "quota", Reason: "50/d", Until: in(time.Hour)}, {At: *in(time.Hour)},
				},
			},
			[]string{"waits for the next window of the quota (50/d) until", ": exact"},
		},
		{
			"empty",
			wire.QueueForecast{Now: now, FinishAt: &now, Bends: []wire.Bend{{At: now}}},
			[]string{"the queue is empty"},
		},
	} {
		text := curveText(tt.v)
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", tt.what, want, text)
			}
		}
	}
}
