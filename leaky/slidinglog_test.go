package leaky

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A limit of a thousand million per hour needs only a thousand entries.
func TestLogOfAThousandMillion(t *testing.T) {
	l := SlidingLog{Max: MaxLimit, Period: time.Hour, Resolution: 3600 * time.Millisecond}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	tally := l.Fresh().(*logged)
	rnd := rand.New(rand.NewPCG(1, 41))
	now, allowed := Instant(1_790_000_000_000_000), int64(0)
	for range 380_000 {
		now += Instant(rnd.Int64N(36_000))
		if tally.Take(now, Ask{Cost: 6_000}).Allowed {
			allowed += 6_000
		}
		if tally.n > 1001 || len(tally.ring) > 1024 {
			t.Fatalf("%d entries in a ring of %d", tally.n, len(tally.ring))
		}
	}
	if allowed < 2*MaxLimit*9/10 || allowed > 2*MaxLimit {
		t.Errorf("%d passed in two hours", allowed)
	}
}

// However its rule changes, a log has at most MaxEntries entries, and never allows too much.
func TestLogNeverHasTooManyEntries(t *testing.T) {
	exact := SlidingLog{Max: MaxEntries, Period: time.Minute}
	packed := SlidingLog{Max: 2 * MaxEntries, Period: time.Minute, Resolution: 10 * time.Millisecond}
	tally, now := exact.Fresh(), Instant(1_790_000_000_000_000)
	for range MaxEntries {
		now++
		tally.Take(now, Ask{})
	}
	b, _ := tally.AppendBinary(nil)
	tally, err := packed.Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for range 2 * MaxEntries {
		now += 2 * ms
		if tally.Take(now, Ask{}).Allowed {
			passed++
		}
	}
	if passed != MaxEntries || tally.(*logged).n > MaxEntries {
		t.Errorf("%d passed, %d entries", passed, tally.(*logged).n)
	}
	if b, _ = tally.AppendBinary(nil); len(b) == 0 {
		t.Fatal("nothing written")
	}
	if _, err := packed.Restore(b); err != nil {
		t.Error(err)
	}
}
