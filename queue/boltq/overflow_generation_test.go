package boltq

import (
	"context"
	"fmt"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// Decisions made while records are given up, or moved to the present generation, see that, and the counts are right
// whichever comes first.
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
		s, err := b.Cancel(ctx, "q", enginetest.Job("q", 1).ID)
		return fmt.Sprint(s, err)
	}
	withdraw := func(b *rig) string {
		_, err := b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: enginetest.Job("q", 1).ID, Ticket: b.aside[0].Ticket}})
		return fmt.Sprint(err)
	}
	offer := func(b *rig) string {
		a, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", 1)})
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
			fmt.Sprintf(" %v: %q in q", queue.ErrUnknownJob, enginetest.Job("q", 1).ID), 2, 0, 0,
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
			b.bench, b.aside = orphans(t, Options{synced: h.synced})
			if got := flying(t, h, func() { tt.first(b) }, func() string { return tt.second(b) }); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			b.AppendTo("q", 50, 1) // the correction is written along
			b.balanced(tt.missing, tt.cancelled, tt.deferred)
		})
	}
}

// balanced checks that each deferred job is in exactly one state, also after reopening.
func (b *bench) balanced(missing, cancelled, deferred int64) {
	b.Helper()
	for range 2 {
		b.CheckBalance(missing, cancelled, deferred)
		b.reopen()
	}
}
