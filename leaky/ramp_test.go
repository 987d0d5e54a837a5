package leaky

import (
	"math/rand/v2"
	"testing"
)

// growing is a ramp as its page describes it, window by window, without arithmetic.
type growing struct {
	q     Quota
	begun Instant // the end of the first window that counts, without Hold
	step  int64
	used  map[Instant]int64
	last  Instant // the end of the last window that was used
}

// most returns the maximum of the window that contains t.
func (g *growing) most(t Instant) int64 {
	end, step := g.q.Calendar.End(t), int64(0)
	if g.q.Ramp.Hold {
		step = g.step
		if end > g.last && g.used[g.last] > 0 && g.last > g.q.Ramp.From {
			step++
		}
	} else {
		for e := g.begun; e < end; e = g.q.Calendar.End(e) {
			step++
		}
	}
	return g.q.Ramp.Steps[min(step, int64(len(g.q.Ramp.Steps)-1))]
}

func (g *growing) take(t Instant, cost int64) {
	end := g.q.Calendar.End(t)
	if end > g.last {
		if g.used[g.last] > 0 && g.last > g.q.Ramp.From {
			g.step++
		}
		g.last = end
	}
	g.used[end] += cost
}

func randomRamp(rnd *rand.Rand, c Calendar) *growing {
	steps := []int64{1 + rnd.Int64N(5)}
	for range rnd.IntN(6) {
		steps = append(steps, steps[len(steps)-1]+1+rnd.Int64N(20))
	}
	r := Ramp{Steps: steps, Hold: rnd.IntN(2) == 0, From: Instant(1_000_000 + rnd.Int64N(3000) - 300)}
	r.Past = -c.Number(c.End(r.From))
	return &growing{q: Quota{Max: 1, Calendar: c, Ramp: r}, begun: c.End(r.From), used: map[Instant]int64{}}
}

// TestRamp checks random traces: how much departs in each window, and that nothing waits without need.
func TestRamp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 10_000 {
		g := randomRamp(rnd, randomCalendar(rnd))
		var w Window
		now := Instant(1_000_000)
		for range 60 {
			now += Instant(rnd.Int64N(400))
			d, most := g.q.Next(w, now), g.most(now)
			if d > now {
				if d != g.q.Calendar.End(now) || g.used[d] < most {
					t.Fatalf("waits at %d until %d: %d of %d are used, %+v", now, d, g.used[d], most, g.q.Ramp)
				}
				continue
			}
			cost, end := 1+rnd.Int64N(8), g.q.Calendar.End(now)
			fits := g.used[end]+min(cost, most) <= most
			if g.q.Take(&w, now, cost) != fits {
				t.Fatalf("at %d a job of cost %d, %d of %d are used, %+v", now, cost, g.used[end], most, g.q.Ramp)
			}
			if !fits {
				g.take(now, most-g.used[end]) // forfeited
				continue
			}
			g.take(now, min(cost, most))
			if rnd.IntN(8) == 0 {
				g.q.GiveBack(&w, now, cost)
				g.take(now, -min(cost, most))
			}
		}
	}
}

// TestRampTurn compares Turn with letting out one job after the other.
func TestRampTurn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 10_000 {
		g := randomRamp(rnd, randomCalendar(rnd))
		var w Window
		now := Instant(1_000_000 + rnd.Int64N(1000))
		for range rnd.IntN(8) {
			if g.q.Next(w, now) == now {
				g.q.Take(&w, now, 1)
			}
			now += Instant(rnd.Int64N(300))
		}
		ahead := rnd.Int64N(200)
		begins, rest := g.q.Turn(w, now, ahead)
		at, left := now, int64(0)
		for range ahead + 1 {
			d := g.q.Next(w, at)
			if left++; d > at {
				at, left = d, 0
			}
			g.q.Take(&w, at, 1)
		}
		if rest < 0 && at != now || rest >= 0 && (begins != at || rest != left) {
			t.Fatalf("%d ahead at %d: window from %d and %d before it, in fact %d and %d; %+v", ahead, now, begins, rest, at,
				left, g.q.Ramp)
		}
	}
}

// A ramp that replaces another one goes on from where that was, never above it; a new one begins with its first step.
func TestRampFollow(t *testing.T) {
	day := Every(100, 0)
	ramp := func(steps ...int64) Quota {
		return Quota{Max: steps[0], Calendar: day, Ramp: Ramp{Steps: steps, Hold: true}}
	}
	for _, tt := range []struct {
		from, to     Quota
		during, over int64 // the step while 40 are allowed, and when 80 are, because the window is over
	}{
		{ramp(10, 20, 40, 80), ramp(5, 10, 30, 40, 41), 3, 4},
		{ramp(10, 20, 40, 80), ramp(50, 60), 0, 1},
		{ramp(10, 20, 40, 80), ramp(1, 2), 1, 1},
		{Quota{Max: 100, Calendar: day}, ramp(5, 10), 0, 0},
		{ramp(10, 20, 40, 80), Quota{Max: 100, Calendar: day}, 0, 0},
	} {
		before := Window{Ends: 300, Used: 7, Step: 2}
		during, over := tt.to.Follow(tt.from, before, 250), tt.to.Follow(tt.from, before, 310)
		if during.Step != tt.during || during.Used != 7 || over.Step != tt.over || over.Used != 0 {
			t.Errorf("%v to %v: %+v, %+v", tt.from.Ramp, tt.to.Ramp, during, over)
		}
	}
}
