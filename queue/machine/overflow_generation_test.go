package machine

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// older is a queue with a backlog of the jobs 1 and 2, which are recorded in the older
// generation and on no overflow, so that they can be given up now.
func older(t *testing.T, o Options) (b *bench, aside []queue.Appended) {
	t.Helper()
	b = start(t, o)
	b.put("q", "unlimited", deferring(2))
	b.append("q", 90, 2)
	aside = b.offer("q", 1, 2)
	b.settleAll(queue.Deliver, b.reserve(2))
	if m := b.readmitAs(queue.ReadmitRequest{Queue: "q", Empty: true}); m.Missing != 0 {
		t.Fatalf("%+v", m)
	}
	b.advance(queue.OrphanAfter + time.Microsecond)
	return b, aside
}

// balanced checks that what was set aside is in one state each, also after reopening.
func (b *bench) balanced(missing, cancelled, deferred int64) {
	b.Helper()
	for _, when := range []string{"before", "after"} {
		i := b.info("q")
		if i.Missing != missing || i.Cancelled != cancelled || i.Deferred != deferred ||
			i.SetAside != i.Returned+missing+cancelled+deferred {
			b.Errorf("%s reopening: %+v", when, i)
		}
		if a := b.queues["q"].overflow; a.olderGeneration.n > deferred || a.olderGeneration.n < 0 ||
			a.olderGeneration.cost < 0 || a.olderGeneration.cost > a.cost {
			b.Errorf("%s reopening: older %+v, of %d that cost %d", when, a.olderGeneration, deferred, a.cost)
		}
		b.reopen()
	}
}

// Generations, and the counts of the older one, survive reopening.
func TestGenerationsSurviveReopening(t *testing.T) {
	b, aside := older(t, Options{})
	ctx := context.Background()
	b.advance(-time.Second)
	b.offer("q", 3, 1)
	again, err := b.Offer(ctx, []queue.Job{jobOf("q", 1)})
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
	if before.olderGeneration != (recordCount{1, 1}) || before.progress.announced == 0 ||
		after.olderGeneration != before.olderGeneration || after.progress != before.progress ||
		after.cost != before.cost || after.lastTicket != before.lastTicket {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	empty := queue.ReadmitRequest{Queue: "q", Empty: true, AsOf: noon.Add(time.Hour).Time()}
	if m := b.readmitAs(empty); m.Missing != 0 || m.Deferred != 3 {
		t.Errorf("too early: %+v", m)
	}
	b.advance(time.Second)
	if m := b.readmitAs(empty); m.Missing != 1 || m.Deferred != 2 {
		t.Errorf("%+v", m)
	}
	b.reopen()
	if b.state("q", 1) != queue.Deferred || b.state("q", 2) != queue.StateNone || b.state("q", 3) != queue.Deferred {
		t.Errorf("%v %v %v", b.state("q", 1), b.state("q", 2), b.state("q", 3))
	}
	b.balanced(1, 0, 2)
	b.advance(queue.OrphanAfter + time.Microsecond)
	if m := b.readmitAs(empty); m.Missing != 2 || m.Deferred != 0 {
		t.Errorf("%+v", m)
	}
	b.balanced(3, 0, 0)
}
