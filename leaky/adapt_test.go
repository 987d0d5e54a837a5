package leaky

import (
	"math/rand/v2"
	"testing"
	"time"
)

func adaptRule(t *testing.T, floor, ceiling string) Adapt {
	t.Helper()
	return Adapt{Floor: mustRate(t, floor), Ceiling: mustRate(t, ceiling), Horizon: 50 * time.Millisecond}
}

// A truth table of one history: each report, its time and departure, and the rate afterwards.
func TestAdapt(t *testing.T) {
	const t0 = 1_000 * sec
	a := adaptRule(t, "2/s", "20/s")
	s := a.Begin(PerSecond(10))
	for _, c := range []struct {
		name         string
		refused      bool
		at, departed Instant
		changed      bool
		rate         string
	}{
		{"the first increases are small", false, t0, t0 - 1, true, "36024/h"},
		{"not within a second of a change", false, t0 + sec - 1, t0, false, "36024/h"},
		{"and grow", false, t0 + sec, t0, true, "36120/h"},
		{"a quarter less", true, t0 + sec, t0, true, "27090/h"},
		{"once for all jobs granted before it", true, t0 + sec, t0 + sec + 50*ms, false, "27090/h"},
		{"a job granted before it does not raise it", false, t0 + 5*sec, t0 + sec + 50*ms, false, "27090/h"},
		{
			"a quarter of the distance to the peak, except for a part of it", false, t0 + 5*sec, t0 + 2*sec, true,
			"29065/h",
		},
		{"and again", false, t0 + 6*sec, t0 + 5*sec, true, "30546/h"},
		{"half, when it comes soon after", true, t0 + 7*sec, t0 + 6*sec, true, "15273/h"},
		{"at least the floor", true, t0 + 8*sec, t0 + 8*sec, true, "7636/h"},
		{"at least the floor", true, t0 + 9*sec, t0 + 9*sec, true, "2/s"},
		{"at least the floor", true, t0 + 10*sec, t0 + 10*sec, false, "2/s"},
	} {
		tell := a.Taken
		if c.refused {
			tell = a.Refused
		}
		if changed := tell(&s, c.departed, c.at); changed != c.changed || s.Rate != mustRate(t, c.rate) {
			t.Errorf("%s: %v, %s; want %v, %s", c.name, changed, s.Rate, c.changed, c.rate)
		}
	}
	for now := t0 + 11*sec; s.Rate != a.Ceiling; now += sec {
		if now > t0+100*sec {
			t.Fatalf("it is at %s and not at the ceiling", s.Rate)
		}
		before := s.Rate.PerSecond()
		a.Taken(&s, now-1, now)
		if s.Rate.PerSecond() < before {
			t.Fatalf("it was lowered to %s by successes", s.Rate)
		}
	}
	if run := s.Run; a.Taken(&s, t0+200*sec, t0+200*sec) || s.Run != run {
		t.Error("something was added to the ceiling")
	}
}

// For random reports and bounds, the rate stays within them, a Pacer can use it, and no number exceeds Lua's range.
func TestAdaptBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		floor, ceiling := randomRate(rnd), randomRate(rnd)
		if rnd.IntN(4) == 0 {
			ceiling = PerSecond(MaxPerSecond)
		}
		if rnd.IntN(4) == 0 {
			floor = mustRate(t, "1/744h")
		}
		if floor.PerSecond() > ceiling.PerSecond() {
			floor, ceiling = ceiling, floor
		}
		a := Adapt{Floor: floor, Ceiling: ceiling, Horizon: 50 * time.Millisecond}
		s := a.Begin(floor)
		now := 1_000 * sec
		for range 300 {
			now += Instant(rnd.Int64N(2_000_000))
			if rnd.IntN(10) == 0 {
				a.Refused(&s, now, now)
			} else {
				a.Taken(&s, now, now)
			}
			if s.Rate.PerSecond() < floor.PerSecond() || s.Rate.PerSecond() > ceiling.PerSecond() {
				t.Fatalf("%s is not from %s to %s", s.Rate, floor, ceiling)
			}
			if n, d := s.Rate.Fraction(); s.Rate != floor && s.Rate != ceiling &&
				(n >= adaptDigits || d > maxDenominator) {
				t.Fatalf("%d/%d has too many digits, from %s to %s", n, d, floor, ceiling)
			}
			if most := s.Peak * (adaptMost - adaptStay); most >= maxDenominator || s.Level >= maxDenominator {
				t.Fatalf("level %d, peak %d: beyond 2^53, from %s to %s", s.Level, s.Peak, floor, ceiling)
			}
		}
	}
}
