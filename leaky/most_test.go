package leaky

import (
	"testing"
	"time"
)

// The figures are counted by hand: the burst plus one per interval, or the windows that a span touches.
func TestMost(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		limiter Limiter
		w       time.Duration
		want    int64
	}{
		{Meter{PerSecond(100), 5}, 0, 5},
		{Meter{PerSecond(100), 5}, 10*ms - 1, 5},
		{Meter{PerSecond(100), 5}, 10 * ms, 6},
		{Meter{PerSecond(100), 5}, 30 * ms, 8},
		// A seventh of a second is 142857142.86 ns.
		{TokenBucket{PerSecond(7), 3}, 142_857_142, 3},
		{TokenBucket{PerSecond(7), 3}, 142_857_143, 4},
		{TokenBucket{PerSecond(7), 3}, time.Second, 10},
		{Allowance{PerSecond(7), 3}, time.Second, 10},
		{Gap{Least: time.Minute}, 0, 1},
		{Gap{Least: time.Minute}, time.Minute - 1, 1},
		{Gap{Least: time.Minute}, time.Minute, 2},
		{Gap{Least: time.Minute}, time.Hour, 61},
		{SlidingLog{Max: 7, Period: time.Second}, 0, 7},
		{SlidingLog{Max: 7, Period: time.Second}, time.Second - 1, 7},
		{SlidingLog{Max: 7, Period: time.Second}, time.Second, 14},
		{SlidingLog{Max: 7, Period: time.Second}, 3 * time.Second, 28},
		{SlidingLog{Max: 7, Period: time.Second, Resolution: 10 * ms}, time.Second - 1, 7},
		{SlidingLog{Max: MaxLimit, Period: MinPeriod}, 1 << 62, 1 << 61}, // far, and no overflow
		{FixedWindow{Max: 7, Period: time.Second}, 0, 7},
		{FixedWindow{Max: 7, Period: time.Second}, 1, 14},
		{FixedWindow{Max: 7, Period: time.Second}, time.Second, 14},
		{FixedWindow{Max: 7, Period: time.Second}, time.Second + 1, 21},
		{SlidingCounter{Max: 7, Period: time.Second}, 0, 7},
		{SlidingCounter{Max: 7, Period: time.Second}, time.Second, 14},
		{SlidingCounter{Max: 7, Period: time.Second}, time.Second + 1, 21},
		{Concurrency{Max: 7, TTL: time.Second}, time.Second, -1},
	} {
		if got := tt.limiter.Most(tt.w); got != tt.want {
			t.Errorf("at most %d pass %T%+v in %v, want %d", got, tt.limiter, tt.limiter, tt.w, tt.want)
		}
	}
}
