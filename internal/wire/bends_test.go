package wire_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// Each bend says what happens there.
func TestBendText(t *testing.T) {
	now := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time { t := now.Add(time.Duration(minutes) * time.Minute); return &t }
	clock := func(t time.Time) string { return t.Format("15:04") }
	for _, c := range []struct {
		name   string
		bends  []wire.Bend
		finish *time.Time
		want   []string
		never  string
	}{
		{"a pause that ends", []wire.Bend{
			{Remaining: 100, Why: "paused", Until: at(10), Reason: "wrong link"},
			{At: *at(10), Remaining: 100, Rate: 20, Why: "rate"},
			{At: *at(15), Why: ""},
		}, at(15), []string{"paused until 14:10", "pause ends 14:10", "done 14:15"}, ""},
		{"a parent's pause without an end", []wire.Bend{
			{Remaining: 100, Why: "paused", Queue: "ses"},
		}, nil, []string{"ses: paused"}, "never: ses: paused"},
		{"lanes and a quota", []wire.Bend{
			{Remaining: 100, Rate: 4, Why: "lane_rate"},
			{At: *at(1), Remaining: 80, Rate: 1.5, Why: "lane_rate", Drained: "gmail.com"},
			{At: *at(2), Remaining: 60, Why: "quota", Reason: "1000/d", Until: at(600)},
			{At: *at(600), Remaining: 60, Rate: 0.2, Why: "rate"},
			{At: *at(601), Remaining: 50, Rate: 0.002, Why: "rate", Reason: "7/h"},
			{At: *at(700), Why: ""},
		}, at(700), []string{
			"4/s by the rates of its lanes", "lane gmail.com is empty", "quota 1000/d used up until 00:00",
			"quota renews 00:00", "7.2/h by the limit 7/h", "done 01:40",
		}, ""},
		{
			"nobody asks",
			[]wire.Bend{{Remaining: 1, Why: "drainer"}},
			nil,
			[]string{"no drainer asks for jobs"},
			"never: no drainer asks for jobs",
		},
		{"a cause of a newer server", []wire.Bend{
			{Remaining: 2, Why: "some_thing"},
			{At: *at(1), Remaining: 2, Rate: 30, Why: "other_thing"},
			{At: *at(2), Remaining: 1, Why: "some_thing"},
		}, nil, []string{"some thing", "jobs leave again 14:01", "some thing"}, "never: some thing"},
	} {
		f := wire.QueueForecast{Now: now, Bends: c.bends, FinishAt: c.finish}
		for n, want := range c.want {
			if got := f.BendText(n, clock); got != want {
				t.Errorf("%s: bend %d says %q, want %q", c.name, n, got, want)
			}
		}
		if got := f.Never(clock); got != c.never {
			t.Errorf("%s: %q, want %q", c.name, got, c.never)
		}
	}
	none := wire.QueueForecast{}
	if none.Never(clock) != "" {
		t.Error("an absent forecast says never")
	}
}
