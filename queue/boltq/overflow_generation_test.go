package boltq

import (
	"context"
	"fmt"
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
		if a := &b.queues["q"].overflow; a.olderGeneration.n > deferred || a.olderGeneration.n < 0 ||
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

// What is decided while records are given up, or moved to the present generation, sees
// that, and the counts are right whichever comes first.
func TestGenerationsWhileOthersDecide(t *testing.T) {
	ctx := context.Background()
	type rig struct {
		*bench
		aside []queue.Appended
	}
	giveUp := func(b *rig) string {
		m, err := b.Readmit(ctx, queue.ReadmitRequest{Queue: "q", Holder: "h", Overflow: "nats", Empty: true})
		return fmt.Sprint(m.Missing, m.Deferred, err)
	}
	cancel := func(b *rig) string {
		s, err := b.Cancel(ctx, "q", jobOf("q", 1).ID)
		return fmt.Sprint(s, err)
	}
	withdraw := func(b *rig) string {
		_, err := b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: jobOf("q", 1).ID, Ticket: b.aside[0].Ticket}})
		return fmt.Sprint(err)
	}
	offer := func(b *rig) string {
		a, err := b.Offer(ctx, []queue.Job{jobOf("q", 1)})
		return fmt.Sprint(a[0].Outcome, a[0].Ticket == b.aside[0].Ticket, err)
	}
	for _, tt := range []struct {
		what                         string
		first, second                func(*rig) string
		want                         string
		missing, cancelled, deferred int64
	}{
		{
			"given up, then cancelled", giveUp, cancel,
			fmt.Sprintf(" %v: %q in q", queue.ErrUnknownJob, jobOf("q", 1).ID), 2, 0, 0,
		},
		{"given up, then withdrawn", giveUp, withdraw, "<nil>", 2, 0, 0},
		{"given up, then deferred again", giveUp, offer, "accepted false <nil>", 2, 0, 0},
		{"cancelled, then given up", cancel, giveUp, "1 0 <nil>", 1, 1, 0},
		{"withdrawn, then given up", withdraw, giveUp, "1 0 <nil>", 1, 0, 0},
		{"deferred again, then given up", offer, giveUp, "1 1 <nil>", 1, 0, 1},
		{"deferred again, then again", offer, offer, "duplicate false <nil>", 0, 0, 2},
		{"deferred again, then cancelled", offer, cancel, "cancelled <nil>", 0, 1, 1},
		{"deferred again, then withdrawn by its old ticket", offer, withdraw, "<nil>", 0, 0, 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h := holding()
			b := &rig{}
			b.bench, b.aside = older(t, Options{synced: h.synced})
			if got := flying(t, h, func() { tt.first(b) }, func() string { return tt.second(b) }); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			b.append("q", 50, 1) // what was corrected goes along
			b.balanced(tt.missing, tt.cancelled, tt.deferred)
		})
	}
}
