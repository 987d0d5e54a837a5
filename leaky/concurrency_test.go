package leaky

import (
	"strconv"
	"testing"
	"time"
)

// No matter how many places come and go, the table never has more than the maximum at once.
func TestPlacesAreUsedAgain(t *testing.T) {
	l := Concurrency{Max: 20, TTL: time.Second}
	tally := l.Fresh().(*placeTable)
	now := Instant(1_790_000_000_000_000)
	for i := range 10_000 {
		if now += 20 * ms; i%100 == 0 {
			now += sec // all end at once
		}
		tally.Take(now, Ask{Lease: strconv.Itoa(i)})
		if i%3 == 0 {
			tally.Refund(now, Ask{Lease: strconv.Itoa(i - 4)})
		}
	}
	if n := len(tally.places); n > 21 || tally.n > 20 {
		t.Errorf("%d places, %d names", n, tally.n)
	}
}

// In a crowd, holders who renew in time keep their places, and others lose them.
func TestPlacesRenewed(t *testing.T) {
	l := Concurrency{Max: 3, TTL: time.Second}
	tally := l.Fresh()
	now := Instant(1_790_000_000_000_000)
	for range 100 {
		now += 900 * ms
		for _, name := range []string{"a", "b", "c"} {
			if d := tally.Take(now, Ask{Lease: name}); !d.Allowed || d.ResetAfter != time.Second {
				t.Fatalf("%s: %+v", name, d)
			}
		}
		if tally.Take(now+899*ms, Ask{Lease: "d"}).Allowed {
			t.Fatal("a fourth among three")
		}
	}
	if !tally.Take(now+sec, Ask{Lease: "d"}).Allowed {
		t.Fatal("three places are held by nobody")
	}
}
