package leaky

import "testing"

// TestMeterAsPublished is the table with which redis-cell tests its own arithmetic.
func TestMeterAsPublished(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	m := Meter{Rate: PerSecond(1), Burst: 5}
	var l Level
	for i, c := range []struct {
		at           Instant
		cost         int64
		remaining    int64
		reset, retry int64 // ms; retry -1: not told
		limited      bool
	}{
		{0, 6, 5, 0, -1, true}, // more than there ever is
		{0, 1, 4, 1000, -1, false},
		{0, 1, 3, 2000, -1, false},
		{0, 1, 2, 3000, -1, false},
		{0, 1, 1, 4000, -1, false},
		{0, 1, 0, 5000, -1, false},
		{0, 1, 0, 5000, 1000, true},
		{3000, 1, 2, 3000, -1, false},
		{3100, 1, 1, 3900, -1, false},
		{4000, 1, 1, 4000, -1, false},
		{8000, 1, 4, 1000, -1, false},
		{9500, 1, 4, 1000, -1, false},
		{9500, 2, 2, 3000, -1, false},
		{9500, 5, 2, 3000, 3000, true},
	} {
		d := m.Take(&l, t0+c.at*ms, c.cost)
		want := Decision{Allowed: !c.limited, Limit: 5, Remaining: c.remaining, ResetAfter: micros(c.reset * 1000)}
		if c.retry > 0 {
			want.RetryAfter = micros(c.retry * 1000)
		}
		if d != want {
			t.Errorf("case %d: %+v, want %+v", i, d, want)
		}
	}
}
