package leaky

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestQuotaNeverExceeded checks random traces against the rule: how much departed in each window of the calendar, and
// that the quota does not wait without need.
func TestQuotaNeverExceeded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := randomCalendar(rnd)
		q := Quota{Max: 1 + rnd.Int64N(20), Calendar: c}
		var w Window
		used, now := map[Instant]int64{}, Instant(1_000_000)
		for range 300 {
			now += Instant(rnd.Int64N(400))
			d := q.Next(w, now)
			if d > now {
				if d != c.End(now) || used[d] < q.Max {
					t.Fatalf(
						"waits at %d until %d, the end of the window is %d and %d of %d are used in it", now, d,
						c.End(now), used[c.End(now)], q.Max,
					)
				}
				if rnd.IntN(2) == 0 {
					continue
				}
				now = d
			}
			cost := 1 + rnd.Int64N(25)
			end := c.End(now)
			if took := q.Take(&w, now, cost); took != (used[end]+min(cost, q.Max) <= q.Max) {
				t.Fatalf("a job of cost %d was taken: %v, and %d of %d are used", cost, took, used[end], q.Max)
			} else if !took {
				used[end] = q.Max // forfeited
				continue
			}
			used[end] += min(cost, q.Max)
			if rnd.IntN(8) == 0 {
				q.GiveBack(&w, now, cost)
				used[end] -= min(cost, q.Max)
			}
		}
	}
}

// TestQuotaAhead grants departures up to a horizon ahead, into the next window too, with a pace whose departures may
// run back. None is in a full window.
func TestQuotaAhead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	const horizon = 50
	for range 2000 {
		c := Every(horizon+1+Instant(rnd.Int64N(500)), Instant(rnd.Int64N(500)))
		q := Quota{Max: 1 + rnd.Int64N(20), Calendar: c}
		var w Window
		used, now := map[Instant]int64{}, Instant(1_000_000)
		for range 300 {
			now += Instant(rnd.Int64N(20))
			d := max(q.Next(w, now), now+Instant(rnd.Int64N(horizon)))
			if d > now+horizon {
				continue
			}
			if d = max(d, q.Next(w, d)); d > now+horizon {
				continue
			}
			cost := min(1+rnd.Int64N(3), q.Max)
			afford := q.Affords(w, d, cost)
			if took := q.Take(&w, d, cost); took != afford {
				t.Fatalf("taken: %v, afforded: %v", took, afford)
			} else if took {
				used[c.End(d)] += cost
			}
			if used[c.End(d)] > q.Max {
				t.Fatalf("%d of %d depart in the window that ends at %d", used[c.End(d)], q.Max, c.End(d))
			}
		}
	}
}

// TestQuotaFree checks since when a quota has let jobs out: since the end of a window that was used up, however long
// ago that was.
func TestQuotaFree(t *testing.T) {
	q := Quota{Max: 2, Calendar: Every(100, 0)}
	var w Window
	for _, step := range []struct{ take, now, want Instant }{
		{0, 1010, 0},
		{1010, 1010, 0},
		{1020, 1020, 1100},
		{0, 1099, 1100},
		{0, 5000, 1100},
		{5001, 5001, 0},
		{5002, 5002, 5100},
		{5150, 5099, 5100}, // let out ahead
		{0, 5150, 0},
	} {
		if step.take > 0 {
			q.Take(&w, step.take, 1)
		}
		if got := q.Free(w, step.now); got != step.want {
			t.Errorf("at %d it is free since %d, want %d", step.now, got, step.want)
		}
	}
}

// TestQuotaLoweredAndRaised checks that used quota is not forgotten in between.
func TestQuotaLoweredAndRaised(t *testing.T) {
	q := Quota{Max: 50, Calendar: Every(1000, 0)}
	low := Quota{Max: 5, Calendar: q.Calendar}
	w := Window{Ends: 1000, Used: 40}
	if w = low.Repair(w, 500); low.Next(w, 500) != 1000 || low.Take(&w, 500, 1) {
		t.Errorf("%+v allows departures with 40 of 5 used", w)
	}
	if w = q.Repair(w, 500); w.Used != 40 {
		t.Errorf("%d are used, want 40", w.Used)
	}
}

func randomCalendar(rnd *rand.Rand) Calendar {
	if rnd.IntN(2) == 0 {
		return Every(1+Instant(rnd.Int64N(3000)), Instant(rnd.Int64N(5000)))
	}
	ends, at := []Instant(nil), Instant(1_000_000)
	for range 2 + rnd.IntN(40) {
		at += 1 + Instant(rnd.Int64N(3000))
		ends = append(ends, at)
	}
	return Ending(ends)
}

func TestCalendarGoesOn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := randomCalendar(rnd)
		at := Instant(990_000 + rnd.Int64N(80_000))
		end := c.End(at)
		if end <= at {
			t.Fatalf("the window of %d ends at %d", at, end)
		}
		if before := c.End(at - 1); before != at && before != end {
			t.Fatalf("%d is in the window that ends at %d, %d in that of %d", at-1, before, at, end)
		}
		k, next := rnd.Int64N(100), end
		for range k {
			next = c.End(next)
		}
		if got := c.skip(end, k); got != next {
			t.Fatalf("%d windows behind that which ends at %d: %d, want %d", k, end, got, next)
		}
	}
}

// TestQuotaETA lets jobs leave one after the other and compares.
func TestQuotaETA(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		q := Quota{Max: 1 + rnd.Int64N(20), Calendar: Every(60_000_000, 0)}
		p := Pacer{Rate: PerSecond(10), Burst: 1, Horizon: time.Millisecond} // Max leave well within a window
		now := Instant(120_000_000)
		w := Window{Ends: 180_000_000, Used: rnd.Int64N(q.Max + 1)}
		left, b, at := w, Bucket{}, now
		for ahead := range int64(100) {
			at = q.Next(left, p.Next(b, at))
			if got := max(p.ETA(Bucket{}, now, ahead), q.ETA(p, w, now, ahead)); got != at {
				t.Fatalf("quota %d, %d used, %d ahead: expected at %d, leaves at %d", q.Max, w.Used, ahead, got, at)
			}
			if _, ok := p.Take(&b, at, 1); !ok || !q.Take(&left, at, 1) {
				t.Fatal("what may leave could not be taken")
			}
		}
	}
}

// TestQuotaPlanted checks that no state blocks a quota for longer than the present window.
func TestQuotaPlanted(t *testing.T) {
	q := Quota{Max: 5, Calendar: Every(1000, 0)}
	for _, w := range []Window{
		{Ends: 1 << 60, Used: 5}, {Ends: 1 << 60, Used: 1 << 60}, {Ends: -5, Used: -5}, {Ends: 1000, Used: -7},
	} {
		w = q.Repair(w, 500)
		d := q.Next(w, 500)
		if d > 1000 {
			t.Errorf("%+v: shut until %d", w, d)
		}
		if !q.Take(&w, d, 1) || w.Used != 1 {
			t.Errorf("after a departure: %+v", w)
		}
	}
}

// TestQuotaFollow checks that a changed quota forgets nothing, even if a job was let out ahead of the end of a window.
func TestQuotaFollow(t *testing.T) {
	minute := Quota{Max: 100, Calendar: Every(60, 0)}
	more, hour := Quota{Max: 101, Calendar: Every(60, 0)}, Quota{Max: 50, Calendar: Every(3600, 0)}
	for _, c := range []struct {
		to         Quota
		was, wants Window
	}{
		{more, Window{Ends: 60, Used: 100}, Window{Ends: 60, Used: 100}},
		{more, Window{Ends: 120, Used: 1}, Window{Ends: 120, Used: 1}}, // granted ahead
		{more, Window{Ends: 50, Used: 100}, Window{}},                  // it is over
		{hour, Window{Ends: 60, Used: 7}, Window{Ends: 3600, Used: 7}},
		{hour, Window{Ends: 120, Used: 1}, Window{Ends: 3600, Used: 50}},
		{hour, Window{Ends: 60, Used: 90}, Window{Ends: 3600, Used: 90}},
	} {
		if got := c.to.Follow(minute, c.was, 55); got != c.wants {
			t.Errorf("%d of %+v becomes %+v, want %+v", c.to.Max, c.was, got, c.wants)
		}
	}
}
