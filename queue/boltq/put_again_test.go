package boltq

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// remake deletes a queue and creates it again at another rate.
func (b *bench) remake(name, rate string, change ...func(*queue.Spec)) {
	b.Helper()
	if err := b.Delete(context.Background(), name, queue.AnyRevision, true); err != nil {
		b.Fatal(err)
	}
	b.MustPut(name, rate, change...)
}

// The pace that a deleted queue leaves applies to each spec that it is created again with, one after the other, also
// after reopening.
func TestARemadeQueueIsBoundByItsRules(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/h")
	b.AppendTo("q", 0, 1)
	if got := b.MustReserve(1); len(got) != 1 {
		t.Fatal("not granted")
	}
	next := func() time.Duration { return b.MustGet("q").Next.Sub(noon.Time()) }
	b.remake("q", "1/m")
	if d := next(); d != time.Minute {
		t.Errorf("made again at 1/m, it departs after %v", d)
	}
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.MustPut("q", "1/h")
	if d := next(); d != time.Hour {
		t.Errorf("and then at 1/h, after %v", d)
	}
}

// A departure at this instant still counts against a burst that is raised after the queue was created again.
func TestARemadeQueueRemembersNow(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited")
	b.AppendTo("q", 0, 1)
	if got := b.MustReserve(1); len(got) != 1 {
		t.Fatal("not granted")
	}
	b.remake("q", "10/s")
	b.MustPut("q", "10/s", func(s *queue.Spec) { s.Burst = 3 })
	b.AppendTo("q", 1, 4)
	if got := b.MustReserve(9); len(got) != 0 {
		t.Errorf("%d granted at once", len(got))
	}
}
