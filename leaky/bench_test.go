package leaky

import (
	"testing"
	"time"
)

func BenchmarkTake(b *testing.B) {
	p := Pacer{Rate: PerSecond(14), Burst: 1, Horizon: 50 * time.Millisecond}
	var s Bucket
	now := Instant(1_790_000_000_000_000)
	b.ReportAllocs()
	for b.Loop() {
		now += 71_429
		p.Take(&s, now, 1)
	}
}

func BenchmarkNext(b *testing.B) {
	p := Pacer{Rate: PerSecond(14), Burst: 5, Horizon: 50 * time.Millisecond}
	s := Bucket{TAT: 1_790_000_000_000_000, Rem: 3, Last: 1_790_000_000_000_000, LastCost: 1}
	b.ReportAllocs()
	for b.Loop() {
		p.Next(s, 1_790_000_000_000_000)
	}
}

func BenchmarkParseRate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRate("14/s"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	p := Pacer{Rate: PerSecond(14), Burst: 3, Horizon: 50 * time.Millisecond}
	var s Bucket
	now := Instant(0)
	if n := testing.AllocsPerRun(1000, func() { now += 10_000; p.Take(&s, now, 2) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
