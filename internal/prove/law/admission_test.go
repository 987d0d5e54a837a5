package law_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

func TestAdmissionAllows(t *testing.T) {
	tests := []struct {
		by    leaky.Limiter
		delta time.Duration
		w     time.Duration
		want  int64
	}{
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, 0, -1, 0},
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, 0, 0, 5},
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, 0, 10*ms - 1, 5},
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, 1, 10*ms - 1, 6},
		{leaky.SlidingLog{Max: 7, Period: time.Second}, 0, time.Second - 1, 7},
		{leaky.SlidingLog{Max: 7, Period: time.Second}, 1, time.Second - 1, 14},
		{leaky.FixedWindow{Max: 7, Period: time.Second}, 0, time.Second, 14},
		{leaky.FixedWindow{Max: 7, Period: time.Second}, 1, time.Second, 21},
		{leaky.Concurrency{Max: 7, TTL: time.Second}, 0, time.Second, -1},
	}
	for _, tt := range tests {
		if got := (law.Admission{By: tt.by, Delta: tt.delta}).Allowed(tt.w); got != tt.want {
			t.Errorf("%T%+v allows %d in %v with a delta of %v, want %d", tt.by, tt.by, got, tt.w, tt.delta, tt.want)
		}
	}
}

func TestJudgeAdmission(t *testing.T) {
	three := law.Admission{By: leaky.SlidingLog{Max: 3, Period: time.Second}}
	tests := []struct {
		name            string
		passed          []law.Passed
		held            bool
		starts, allowed int64
	}{
		{"nothing", nil, true, 0, 0},
		{"as many as allowed", []law.Passed{{0, 1, 1}, {2, 3, 1}, {4, 5, 1}}, true, 3, 3},
		{"one too many", []law.Passed{{0, 1, 1}, {2, 3, 1}, {4, 5, 1}, {900 * ms, 999 * ms, 1}}, false, 4, 3},
		{"one too many, in any order", []law.Passed{{900 * ms, 999 * ms, 1}, {4, 5, 1}, {0, 1, 1}, {2, 3, 1}}, false, 4, 3},
		{"by its cost", []law.Passed{{0, 1, 2}, {2, 3, 2}}, false, 4, 3},
		{"a cost of 0 is 1", []law.Passed{{0, 1, 0}, {2, 3, 0}, {2, 3, 0}, {2, 3, 0}}, false, 4, 3},
		{
			"the last may have come after the period",
			[]law.Passed{{0, 1, 1}, {2, 3, 1}, {4, 5, 1}, {900 * ms, 1000 * ms, 1}},
			true, 3, 3,
		},
		{
			"the first may have come before it",
			[]law.Passed{{-2 * ms, 1, 1}, {2, 3, 1}, {4, 5, 1}, {900 * ms, 999 * ms, 1}},
			true, 3, 3,
		},
		{
			"a late answer hides no other",
			[]law.Passed{{0, 3 * time.Second, 1}, {2, 3, 2}, {4, 5, 2}},
			false, 4,
			3,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := three.Judge(tt.passed)
			if v.Held != tt.held || v.Worst.Starts != tt.starts || v.Worst.Allowed != tt.allowed {
				t.Errorf("%+v, want held %v, %d of %d", v, tt.held, tt.starts, tt.allowed)
			}
		})
	}
	if v := (law.Admission{By: leaky.Concurrency{Max: 1, TTL: 1}}).Judge([]law.Passed{{0, 1, 5}, {0, 1, 5}}); !v.Held {
		t.Errorf("concurrency bounds what comes: %+v", v)
	}
}

func TestMostPassed(t *testing.T) {
	passed := []law.Passed{
		{900 * ms, 990 * ms, 1}, {0, 10 * ms, 2}, {5 * ms, 20 * ms, 0}, {6 * ms, 950 * ms, 4}, {2000 * ms, 2001 * ms, 3},
	}
	for w, want := range map[time.Duration]int64{
		0: 0, ms: 3, 14 * ms: 3, 20 * ms: 3, 949 * ms: 5, 950 * ms: 7, 990 * ms: 8, 3000 * ms: 11,
	} {
		if got := law.MostPassed(passed, w); got != want {
			t.Errorf("%d in %v, want %d", got, w, want)
		}
	}
	if got := law.MostPassed(nil, time.Hour); got != 0 {
		t.Error(got)
	}
}

// The takes that the limiters themselves allow keep the law, however vague their times. A limiter that allows a little
// more breaks it. So a new limiter cannot be mistaken for one without a limit, as concurrency is here.
func TestAdmissionJudgesLimiters(t *testing.T) {
	const count = 200
	judged := map[leaky.Algorithm]bool{leaky.AlgorithmConcurrency: true}
	for _, tt := range []struct {
		by, lax leaky.Limiter
	}{
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, leaky.Meter{Rate: leaky.PerSecond(100), Burst: 6}},
		{leaky.Meter{Rate: leaky.PerSecond(100), Burst: 5}, leaky.Meter{Rate: leaky.PerSecond(110), Burst: 5}},
		{leaky.TokenBucket{Rate: leaky.PerSecond(7), Capacity: 3}, leaky.TokenBucket{Rate: leaky.PerSecond(7), Capacity: 4}},
		{leaky.Allowance{Rate: leaky.PerSecond(100), Burst: 5}, leaky.Allowance{Rate: leaky.PerSecond(110), Burst: 6}},
		{leaky.Gap{Least: 10 * ms}, leaky.Gap{Least: 9 * ms}},
		{leaky.SlidingLog{Max: 20, Period: 100 * ms}, leaky.SlidingLog{Max: 21, Period: 100 * ms}},
		{leaky.SlidingLog{Max: 20, Period: 100 * ms, Resolution: 10 * ms}, leaky.SlidingLog{Max: 20, Period: 70 * ms}},
		{leaky.FixedWindow{Max: 20, Period: 100 * ms}, leaky.FixedWindow{Max: 45, Period: 100 * ms}},
		{leaky.SlidingCounter{Max: 20, Period: 100 * ms}, leaky.SlidingCounter{Max: 70, Period: 100 * ms}},
	} {
		judged[tt.by.Algorithm()] = true
		for seed := range uint64(10) {
			if v := (law.Admission{By: tt.by}).Judge(passing(tt.by, seed, count, 20*ms)); !v.Held {
				t.Fatalf("%T%+v, seed %d: %+v", tt.by, tt.by, seed, v)
			}
			if v := (law.Admission{By: tt.by}).Judge(passing(tt.lax, seed, count, 0)); v.Held {
				t.Errorf("%T%+v passes for %+v, seed %d: %+v", tt.lax, tt.lax, tt.by, seed, v)
			}
		}
	}
	for _, a := range rules.Algorithms() {
		if !judged[a] {
			t.Errorf("no limiter of %s is judged: add one, and one that allows a little more", a)
		}
	}
}

// passing asks a limiter until count takes passed, each known to within blur.
func passing(l leaky.Limiter, seed uint64, count int, blur time.Duration) (passed []law.Passed) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	tally, now := l.Fresh(), leaky.Instant(1_000_000)
	for len(passed) < count {
		if rnd.IntN(3) == 0 {
			now += leaky.Instant(rnd.Int64N(3000))
		}
		cost := min(1+rnd.Int64N(3), l.Limit())
		if tally.Take(now, leaky.Ask{Cost: cost}).Allowed {
			at := time.Duration(now) * time.Microsecond
			passed = append(passed, law.Passed{
				Asked: at - time.Duration(rnd.Int64N(int64(blur)+1)), Answered: at + time.Duration(rnd.Int64N(int64(blur)+1)),
				Cost: cost,
			})
		}
	}
	return passed
}
