package leaky

import (
	"strings"
	"testing"
	"time"
)

// asked is a question at an instant, in milliseconds, and the expected answer, with times in milliseconds.
type asked struct {
	at    Instant
	cost  int64 // below 0: given back
	lease string
	want  answer
}

type answer struct {
	allowed      bool
	remaining    int64
	retry, reset int64
}

func yes(remaining, reset int64) answer       { return answer{true, remaining, 0, reset} }
func no(remaining, retry, reset int64) answer { return answer{false, remaining, retry, reset} }

func TestLimiterTables(t *testing.T) {
	const t0 = 1_790_000_000 / 10 * 10 * sec // the beginning of a window of 10 s
	for _, tt := range []struct {
		name    string
		limiter Limiter
		asks    []asked
	}{
		{"a meter allows a burst, and then the rate", Meter{PerSecond(10), 3}, []asked{
			{0, 1, "", yes(2, 100)},
			{0, 1, "", yes(1, 200)},
			{0, 1, "", yes(0, 300)},
			{0, 1, "", no(0, 100, 300)},
			{99, 1, "", no(0, 1, 201)},
			{100, 1, "", yes(0, 300)},
			{150, 2, "", no(0, 150, 250)},
			{300, 2, "", yes(0, 300)},
		}},
		{"a meter takes back no more than was taken", Meter{PerSecond(10), 3}, []asked{
			{0, 3, "", yes(0, 300)}, {0, -1, "", yes(0, 300)}, {0, -3, "", yes(2, 100)}, {0, 3, "", yes(0, 300)},
		}},
		{"tokens are what remains", TokenBucket{PerSecond(10), 5}, []asked{
			{0, 3, "", yes(2, 300)},
			{0, 3, "", no(2, 100, 300)},
			{100, 3, "", yes(0, 500)},
			{250, 2, "", no(1, 50, 350)},
			{300, 2, "", yes(0, 500)},
		}},
		{"a gap", Gap{Least: time.Second}, []asked{
			{0, 1, "", yes(0, 1000)},
			{1, 1, "", no(0, 999, 999)},
			{999, 1, "", no(0, 1, 1)},
			{1000, 1, "", yes(0, 1000)},
			{1500, -1, "", yes(0, 1000)},
			{1500, 1, "", yes(0, 1000)},
		}},
		{"a fixed window allows two bursts around its end", FixedWindow{5, 10 * time.Second}, []asked{
			{9999, 5, "", yes(0, 1)},
			{9999, 1, "", no(0, 1, 1)},
			{10_000, 5, "", yes(0, 10_000)},
			{10_001, 1, "", no(0, 9999, 9999)},
			{20_000, 2, "", yes(3, 10_000)},
			{25_000, 4, "", no(3, 5000, 5000)},
			{25_000, -1, "", yes(3, 5000)},
			{25_000, 4, "", yes(0, 5000)},
		}},
		{"a refund in the next window goes to the window of the take", FixedWindow{5, 10 * time.Second}, []asked{
			{9999, 5, "", yes(0, 1)},
			{10_000, 2, "", yes(3, 10_000)},
			{10_000, -5, "", yes(4, 10_000)},
			{10_000, 5, "", yes(0, 10_000)},
			{10_000, 1, "", no(0, 10_000, 10_000)},
		}},
		{"weeks begin on Thursdays", FixedWindow{1, 7 * 24 * time.Hour}, []asked{ // t0 is a Monday, 14:13:20
			{0, 1, "", yes(0, 208_000_000)}, {208_000_000, 1, "", yes(0, 604_800_000)},
		}},
		{"a log forgets each entry a period later", SlidingLog{Max: 3, Period: 10 * time.Second}, []asked{
			{0, 1, "", yes(2, 10_000)},
			{2000, 2, "", yes(0, 10_000)},
			{2000, 1, "", no(0, 8000, 10_000)},
			{2000, 2, "", no(0, 10_000, 10_000)},
			{9999, 1, "", no(0, 1, 2001)},
			{10_000, 1, "", yes(0, 10_000)},
			{10_000, 2, "", no(0, 2000, 10_000)},
			{12_000, 2, "", yes(0, 10_000)},
		}},
		{"a log takes back the latest first", SlidingLog{Max: 3, Period: 10 * time.Second}, []asked{
			{0, 1, "", yes(2, 10_000)},
			{5000, 2, "", yes(0, 10_000)},
			{6000, -2, "", yes(1, 10_000)},
			{6000, 3, "", no(2, 4000, 4000)},
			{10_000, 3, "", yes(0, 10_000)},
		}},
		{"a packed log keeps a step under the latest", SlidingLog{
			Max: 3, Period: 10 * time.Second, Resolution: time.Second,
		}, []asked{
			// 9000 without
			{0, 1, "", yes(2, 10_000)},
			{999, 1, "", yes(1, 10_000)},
			{1000, 1, "", yes(0, 10_000)},
			{1000, 1, "", no(0, 9999, 10_000)},
			{10_998, 1, "", no(0, 1, 2)},
			{10_999, 2, "", yes(0, 10_000)},
		}},
		{"a counter assumes takes spread evenly", SlidingCounter{Max: 10, Period: 10 * time.Second}, []asked{
			{0, 10, "", yes(0, 20_000)},
			{0, 1, "", no(0, 11_000, 20_000)},
			{9999, 1, "", no(0, 1001, 10_001)},
			{10_000, 1, "", no(0, 1000, 10_000)},
			{11_000, 1, "", yes(0, 19_000)},
			{15_000, 4, "", yes(0, 15_000)},
			{15_000, 1, "", no(0, 1000, 15_000)},
			{15_000, 6, "", no(0, 7000, 15_000)},
			{20_000, 1, "", yes(4, 20_000)},
		}},
		{"a counter takes back from the present window first", SlidingCounter{Max: 10, Period: 10 * time.Second}, []asked{
			{0, 8, "", yes(2, 20_000)},
			{10_000, 2, "", yes(0, 20_000)},
			{10_000, -4, "", yes(3, 20_000)},
			{10_000, 5, "", no(4, 1667, 10_000)},
		}},
		{"places are freed, renewed, and expire by themselves", Concurrency{Max: 2, TTL: 10 * time.Second}, []asked{
			{0, 1, "a", yes(1, 10_000)},
			{1000, 1, "b", yes(0, 10_000)},
			{1000, 1, "c", no(0, 9000, 10_000)},
			{5000, 1, "a", yes(0, 10_000)},
			{5000, 1, "c", no(0, 6000, 10_000)},
			{5000, 2, "c", no(0, 10_000, 10_000)},
			{5000, -1, "x", no(0, 6000, 10_000)},
			{5000, -1, "a", yes(0, 10_000)},
			{5000, 1, "c", yes(0, 10_000)},
			{11_000, 1, "d", yes(0, 10_000)},
			{15_000, 2, "e", no(1, 6000, 6000)},
			{21_000, 2, "e", yes(0, 10_000)},
			{22_000, 1, "e", yes(0, 10_000)},
			{22_000, -1, "e", yes(1, 10_000)},
		}},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			tally := tt.limiter.Fresh()
			for i, k := range tt.asks {
				var d Decision
				now, a := t0+k.at*ms, Ask{Cost: max(k.cost, -k.cost), Lease: k.lease}
				if k.cost < 0 {
					d = tally.Refund(now, a)
				} else {
					d = tally.Take(now, a)
				}
				want := Decision{
					k.want.allowed, tt.limiter.Limit(), k.want.remaining, micros(1000 * k.want.retry),
					micros(1000 * k.want.reset),
				}
				if d.RetryAfter%time.Millisecond != 0 { // the one that is not a whole number
					d.RetryAfter = d.RetryAfter.Truncate(time.Millisecond) + time.Millisecond
				}
				if d != want {
					t.Errorf("ask %d at %d: %+v, want %+v", i, k.at, d, want)
				}
			}
		})
	}
}

// The documented worst bursts happen.
func TestWorstBursts(t *testing.T) {
	const t0 = 1_790_000_000 / 100 * 100 * sec
	passed := func(l Limiter, from, to Instant) (sum int64) {
		tally := l.Fresh()
		for at := from; at <= to; at += 10 * ms {
			for tally.Take(at, Ask{}).Allowed {
				sum++
			}
		}
		return sum
	}
	for _, c := range []struct {
		limiter  Limiter
		from, to Instant
		want     int64
	}{
		{Meter{PerSecond(1), 100}, t0, t0 + 99_990*ms, 199},
		{FixedWindow{100, 100 * time.Second}, t0 - 10*ms, t0, 200},
		{SlidingLog{100, 100 * time.Second, 0}, t0 - 10*ms, t0 + 99_980*ms, 100},
		{SlidingLog{100, 100 * time.Second, time.Second}, t0 - 10*ms, t0 + 99_980*ms, 100},
		{SlidingCounter{100, 100 * time.Second}, t0 - 10*ms, t0 + 99_980*ms, 199},
	} {
		if got := passed(c.limiter, c.from, c.to); got != c.want {
			t.Errorf("%+v: %d passed within %v, want %d", c.limiter, got, c.to.Sub(c.from), c.want)
		}
	}
}
