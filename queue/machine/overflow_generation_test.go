package machine

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// orphans is a queue with a backlog that can be given up now.
func orphans(t *testing.T, o Options) (b *bench, aside []queue.Appended) {
	t.Helper()
	b = start(t, o)
	return b, b.OrphanedBacklog()
}

// balanced checks that what was set aside is in one state each, also after reopening.
func (b *bench) balanced(missing, cancelled, deferred int64) {
	b.Helper()
	for _, when := range []string{"before", "after"} {
		b.CheckBalance(missing, cancelled, deferred)
		if a := b.queues["q"].overflow; a.olderGeneration.n > deferred || a.olderGeneration.n < 0 ||
			a.olderGeneration.cost < 0 || a.olderGeneration.cost > a.cost {
			b.Errorf("%s reopening: older %+v, of %d that cost %d", when, a.olderGeneration, deferred, a.cost)
		}
		b.reopen()
	}
}

// Generations, and the counts of the older one, survive reopening.
func TestGenerationsSurviveReopening(t *testing.T) {
	b, aside := orphans(t, Options{})
	ctx := context.Background()
	b.Advance(-time.Second)
	b.MustOffer("q", 3, 1)
	again, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", 1)})
	if err != nil || again[0].Outcome != queue.Duplicate || again[0].Ticket == aside[0].Ticket {
		t.Fatalf("%+v, %v", again, err)
	}
	if n := b.records(deferredTable); n != 3 {
		t.Errorf("%d records on file", n)
	}
	if err := b.Announce(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	before := b.queues["q"].overflow
	b.reopen()
	after := b.queues["q"].overflow
	if before.olderGeneration != (recordCount{1, 1, before.bytes / 3}) || before.progress.announced == 0 ||
		after.olderGeneration != before.olderGeneration || after.progress != before.progress ||
		after.cost != before.cost || after.bytes != before.bytes || after.lastTicket != before.lastTicket {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	empty := queue.ReadmitRequest{Queue: "q", Empty: true, AsOf: noon.Add(time.Hour).Time()}
	if m := b.MustReadmit(empty); m.Missing != 0 || m.Deferred != 3 {
		t.Errorf("too early: %+v", m)
	}
	b.Advance(time.Second)
	if m := b.MustReadmit(empty); m.Missing != 1 || m.Deferred != 2 {
		t.Errorf("%+v", m)
	}
	b.reopen()
	if b.State("q", 1) != queue.Deferred || b.State("q", 2) != queue.StateNone || b.State("q", 3) != queue.Deferred {
		t.Errorf("%v %v %v", b.State("q", 1), b.State("q", 2), b.State("q", 3))
	}
	b.balanced(1, 0, 2)
	b.Advance(queue.OrphanAfter + time.Microsecond)
	if m := b.MustReadmit(empty); m.Missing != 2 || m.Deferred != 0 {
		t.Errorf("%+v", m)
	}
	b.balanced(3, 0, 0)
}
