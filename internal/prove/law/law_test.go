package law_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
)

const ms = time.Millisecond

func rate(t *testing.T, s string) leaky.Rate {
	t.Helper()
	r, err := leaky.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJudgeTable(t *testing.T) {
	ten := func(offsets ...time.Duration) []law.Start { return law.At(offsets) }
	tests := []struct {
		name   string
		law    law.Law
		starts []law.Start
		held   bool
		needed time.Duration
	}{
		{"nothing", law.Law{Rate: leaky.PerSecond(100)}, nil, true, 0},
		{"one", law.Law{Rate: leaky.PerSecond(100)}, ten(5), true, 0},
		{"exactly T apart", law.Law{Rate: leaky.PerSecond(100)}, ten(0, 10*ms, 20*ms), true, 0},
		{"a nanosecond short", law.Law{Rate: leaky.PerSecond(100)}, ten(0, 10*ms-1), false, 1},
		{"a nanosecond short and allowed", law.Law{Rate: leaky.PerSecond(100), Delta: 1}, ten(0, 10*ms-1), true, 1},
		{"two at once", law.Law{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5*ms - 1}, ten(3, 3), false, 10 * ms},
		{
			"two at once, slack of T",
			law.Law{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms},
			ten(3, 3), true,
			10 * ms,
		},
		{"two at once, burst 2", law.Law{Rate: leaky.PerSecond(100), Burst: 2}, ten(3, 3), true, 0},
		{"three at once, burst 2", law.Law{Rate: leaky.PerSecond(100), Burst: 2}, ten(3, 3, 3), false, 10 * ms},
		{
			"many gaps a little too short add up",
			law.Law{Rate: leaky.PerSecond(100), Slack: 2 * ms},
			ten(0, 9*ms, 18*ms, 27*ms), false,
			3 * ms,
		},
		{"any order", law.Law{Rate: leaky.PerSecond(100)}, ten(20*ms, 0, 10*ms), true, 0},
		{"14/s does not drift", law.Law{Rate: leaky.PerSecond(14)}, ten(0, 71428571, 142857142), false, 1},
		{"14/s rounded up", law.Law{Rate: leaky.PerSecond(14)}, ten(0, 71428572, 142857144), true, 0},
		{"unlimited", law.Law{}, ten(0, 0, 0, 0), true, 0},
		{"idle, then a burst", law.Law{Rate: leaky.PerSecond(1)}, ten(0, time.Hour, time.Hour+1), false, time.Second - 1},
		{
			"cost 3, then 1 too soon",
			law.Law{Rate: leaky.PerSecond(100)},
			[]law.Start{{At: 0, Cost: 3}, {At: 10 * ms, Cost: 1}},
			false, 20 * ms,
		},
		{
			"cost 3, then 1 in time",
			law.Law{Rate: leaky.PerSecond(100), MaxCost: 3},
			[]law.Start{{At: 0, Cost: 3}, {At: 30 * ms, Cost: 1}},
			true, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.law.Judge(tt.starts)
			if v.Held != tt.held || v.Needed != tt.needed {
				t.Errorf("held %v, needed %v; want %v, %v (worst %+v)", v.Held, v.Needed, tt.held, tt.needed, v.Worst)
			}
			if len(tt.starts) > 0 && !tt.law.Rate.Unlimited() && v.Held != (v.Worst.Starts <= v.Worst.Allowed) {
				t.Errorf("held %v, but the worst window has %d of %d", v.Held, v.Worst.Starts, v.Worst.Allowed)
			}
		})
	}
}

// naive is the law word for word, in fractions. Every pair of starts bounds a family of windows, and the narrowest
// allows the least.
func naive(l law.Law, starts []law.Start) bool {
	n, d := l.Rate.Fraction()
	burst, maxCost := max(l.Burst, 1), max(l.MaxCost, 1)
	for _, a := range starts {
		for _, b := range starts {
			if b.At < a.At {
				continue
			}
			var sum int64
			for _, s := range starts {
				if s.At >= a.At && s.At <= b.At {
					sum += max(s.Cost, 1)
				}
			}
			// W is barely above b-a, so ceil((W+s)/T) is floor((b-a+s)/T) + 1.
			x := new(big.Rat).SetFrac(
				new(big.Int).Mul(big.NewInt(int64(b.At-a.At+l.Slack+l.Delta)), big.NewInt(n)),
				new(big.Int).Mul(big.NewInt(d), big.NewInt(1000)))
			floor := new(big.Int).Quo(x.Num(), x.Denom()).Int64()
			if sum > floor+1+burst-1+maxCost-1 {
				return false
			}
		}
	}
	return true
}

func TestJudgeAgreesWithNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	rates := []leaky.Rate{rate(t, "14/s"), rate(t, "100/s"), rate(t, "7/3s"), rate(t, "999/s"), rate(t, "3/7us")}
	held := 0
	const rounds = 4000
	for range rounds {
		r := rates[rnd.IntN(len(rates))]
		interval := max(int64(r.Interval()), 1)
		l := law.Law{
			Rate: r, Burst: rnd.Int64N(4), MaxCost: rnd.Int64N(3), Slack: time.Duration(rnd.Int64N(interval)),
			Delta: time.Duration(rnd.Int64N(3)),
		}
		var at int64
		starts := make([]law.Start, 1+rnd.IntN(12))
		for i := range starts {
			switch rnd.IntN(4) {
			case 0: // together
			case 1:
				at += interval + rnd.Int64N(3) - 1
			case 2:
				at += rnd.Int64N(2 * interval)
			case 3:
				at += interval * rnd.Int64N(4)
			}
			starts[i] = law.Start{At: time.Duration(at), Cost: 1 + rnd.Int64N(max(l.MaxCost, 1))}
		}
		rnd.Shuffle(len(starts), func(i, j int) { starts[i], starts[j] = starts[j], starts[i] })
		want, got := naive(l, starts), l.Judge(starts)
		if got.Held != want {
			t.Fatalf("%+v over %v: held %v, the naive judge says %v", l, starts, got.Held, want)
		}
		if want {
			held++
		}
		// Needed is the smallest tolerance: the law holds there, and a nanosecond less breaks it.
		exact := law.Law{Rate: r, Burst: l.Burst, MaxCost: l.MaxCost, Delta: got.Needed}
		if !naive(exact, starts) {
			t.Fatalf("%+v over %v: needs more than %v", l, starts, got.Needed)
		}
		if exact.Delta--; got.Needed > 0 && naive(exact, starts) {
			t.Fatalf("%+v over %v: needs less than %v", l, starts, got.Needed)
		}
	}
	if held < rounds/10 || held > rounds*9/10 {
		t.Fatalf("%d of %d traces hold: the generator tests only one side", held, rounds)
	}
}

func TestAllowed(t *testing.T) {
	l := law.Law{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms}
	for _, tt := range []struct {
		w    time.Duration
		want int64
	}{{0, 0}, {1, 2}, {10 * ms, 2}, {time.Second, 101}, {time.Second + 1, 102}} {
		if got := l.Allowed(tt.w); got != tt.want {
			t.Errorf("Allowed(%v) = %d, want %d", tt.w, got, tt.want)
		}
	}
	if got := (law.Law{}).Allowed(time.Second); got != -1 {
		t.Errorf("unlimited allows %d", got)
	}
}

func TestMost(t *testing.T) {
	starts := law.At([]time.Duration{0, 400 * ms, 999 * ms, 1000 * ms, 1399 * ms, 1999 * ms})
	if most, from := law.Most(starts, time.Second); most != 4 || from != 400*ms {
		t.Errorf("most is %d from %v", most, from)
	}
	if most, _ := law.Most(nil, time.Second); most != 0 {
		t.Errorf("most of an empty trace is %d", most)
	}
}

// A strict 5 in any second, as docs/explanation/strict-five.md says: 1/202ms leaves room for the slack and the way.
func TestStrictFive(t *testing.T) {
	for rate, want := range map[string]int64{"5/s": 6, "1/202ms": 5} {
		r, err := leaky.ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		l := law.Law{Rate: r, Slack: 5 * time.Millisecond, Delta: 5 * time.Millisecond}
		if got := l.Allowed(time.Second); got != want {
			t.Errorf("%s: %d starts in a second, want %d", rate, got, want)
		}
	}
}
