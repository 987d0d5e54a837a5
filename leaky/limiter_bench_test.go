package leaky

import (
	"strconv"
	"testing"
	"time"
)

// steady is a limiter, a question, and the time between two questions, chosen so that some are refused.
type steady struct {
	name    string
	limiter Limiter
	ask     Ask
	pause   Instant
}

func steadies() []steady {
	rate := PerSecond(14)
	return []steady{
		{"meter", Meter{Rate: rate, Burst: 20}, Ask{}, 60_000},
		{"meter refused", Meter{Rate: rate, Burst: 20}, Ask{}, 1},
		{"token bucket", TokenBucket{Rate: rate, Capacity: 1000}, Ask{Cost: 3}, 60_000},
		{"budget", Allowance{Rate: rate, Burst: 1000}, Ask{Cost: 3}, 60_000},
		{"budget refused", Allowance{Rate: rate, Burst: 20}, Ask{}, 1},
		{"gap", Gap{Least: time.Second}, Ask{}, 600_000},
		{"fixed window", FixedWindow{Max: 14, Period: time.Second}, Ask{}, 60_000},
		{"sliding counter", SlidingCounter{Max: 14, Period: time.Second}, Ask{}, 60_000},
		{"sliding counter refused", SlidingCounter{Max: 14, Period: time.Second}, Ask{}, 1},
		{"sliding log", SlidingLog{Max: 1000, Period: time.Minute}, Ask{}, 60_000},
		{"sliding log full", SlidingLog{Max: MaxEntries, Period: time.Minute}, Ask{}, 5_900},
		{
			"sliding log packed",
			SlidingLog{Max: MaxLimit, Period: time.Hour, Resolution: 3600 * time.Millisecond},
			Ask{Cost: 3},
			10,
		},
		{"concurrency", Concurrency{Max: 20, TTL: time.Minute}, Ask{}, 2_900_000},
		{"concurrency renewed", Concurrency{Max: 1000, TTL: time.Minute}, Ask{}, 10_000},
		{"concurrency refused", Concurrency{Max: 20, TTL: time.Minute}, Ask{}, 1},
	}
}

// run asks n more questions; names of places repeat after 128.
func (s steady) run() func(n int) {
	var names [128]string
	for i := range names {
		names[i] = "place-" + strconv.Itoa(i)
	}
	tally, now, k := s.limiter.Fresh(), Instant(1_790_000_000_000_000), 0
	return func(n int) {
		a := s.ask
		for range n {
			now += s.pause
			k++
			a.Lease = names[k%len(names)]
			tally.Take(now, a)
		}
	}
}

func BenchmarkLimiterTake(b *testing.B) {
	for _, s := range steadies() {
		b.Run(s.name, func(b *testing.B) {
			take := s.run()
			take(30_000)
			b.ReportAllocs()
			b.ResetTimer()
			take(b.N)
		})
	}
}

func TestLimitersDoNotAllocate(t *testing.T) {
	for _, s := range steadies() {
		take := s.run()
		take(30_000) // until memory no longer grows
		if n := testing.AllocsPerRun(10, func() { take(1000) }); n != 0 {
			t.Errorf("%s: %v allocations in a thousand takes", s.name, n)
		}
	}
}
