package boltq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// flying runs f while the commit of what first enqueued is on disk and not acknowledged yet; it returns f's result once
// that commit is released. f's change must not be decided before.
func flying[T any](t *testing.T, h *held, first func(), f func() T) T {
	t.Helper()
	h.on.Store(true)
	one := make(chan struct{})
	go func() { defer close(one); first() }()
	<-h.arrived
	two := make(chan T, 1)
	go func() { two <- f() }()
	select {
	case v := <-two:
		t.Errorf("decided while another change was under way: %+v", v)
		two <- v
	case <-time.After(20 * time.Millisecond): // a decision that does not wait takes microseconds
	}
	h.on.Store(false)
	h.release <- struct{}{}
	<-one
	return <-two
}

// Of two concurrent changes of one job, the second sees the effect of the first.
func TestOnlyOneDecidesAboutAJob(t *testing.T) {
	ctx := context.Background()
	type rig struct {
		*bench
		aside []queue.Appended
	}
	must := func(b *rig, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	offer := func(n int) func(*rig) string {
		return func(b *rig) string {
			a, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", n)})
			must(b, err)
			return fmt.Sprint(a[0].Outcome, " ", a[0].State)
		}
	}
	appendOne := func(n int) func(*rig) string {
		return func(b *rig) string {
			a, err := b.Append(ctx, []queue.Job{enginetest.Job("q", n)})
			must(b, err)
			return fmt.Sprint(a[0].Outcome, " ", a[0].State)
		}
	}
	cancel := func(n int) func(*rig) string {
		return func(b *rig) string {
			s, err := b.Cancel(ctx, "q", enginetest.Job("q", n).ID)
			must(b, err)
			return s.String()
		}
	}
	withdraw := func(b *rig) string {
		_, err := b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: enginetest.Job("q", 1).ID, Ticket: b.aside[0].Ticket}})
		must(b, err)
		return ""
	}
	readmit := func(order int64) func(*rig) string {
		return func(b *rig) string {
			m, err := b.Readmit(ctx, queue.ReadmitRequest{
				Queue: "q", Holder: "h", Jobs: []queue.Readmission{enginetest.Stored("q", 1, order, b.aside[0])},
			})
			must(b, err)
			return fmt.Sprint(m.Outcomes[0], " ", m.Order, " ", m.Deferred)
		}
	}
	for _, tt := range []struct {
		what          string
		first, second func(*rig) string
		want          string
	}{
		{"offer, then append", offer(5), appendOne(5), "duplicate deferred"},
		{"offer, then offer", offer(5), offer(5), "duplicate deferred"},
		{"offer, then cancel", offer(5), cancel(5), "cancelled"},
		{"cancel, then offer", cancel(1), offer(1), "duplicate cancelled"},
		{"cancel, then readmit", cancel(1), readmit(1), "passed 1 1"},
		{"cancel, then withdraw", cancel(1), withdraw, ""},
		{"withdraw, then offer", withdraw, offer(1), "set_aside deferred"},
		{"withdraw, then cancel of another", withdraw, cancel(2), "cancelled"},
		{"readmit, then append", readmit(1), appendOne(1), "duplicate waiting"},
		{"readmit, then offer", readmit(1), offer(1), "duplicate waiting"},
		{"readmit, then cancel", readmit(1), cancel(1), "cancelled"},
		{"readmit, then readmit", readmit(1), readmit(1), "passed 1 1"},
		{"readmit, then another copy", readmit(1), readmit(2), "passed 2 1"},
		{"cancel of one that waits, then append", cancel(0), appendOne(0), "duplicate cancelled"},
		{"cancel of one that waits, then cancel", cancel(0), cancel(0), "cancelled"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h := holding()
			b := &rig{bench: start(t, Options{synced: h.synced})}
			b.MustPut("q", "unlimited", enginetest.Deferring(3))
			b.AppendTo("q", 0, 1)
			b.AppendTo("q", 90, 2)
			b.aside = b.MustOffer("q", 1, 2)
			granted := b.MustReserve(3) // job 0 waits again, and there is room for two
			b.MustSettle(queue.Release, granted[:1])
			b.MustSettle(queue.Deliver, granted[1:])
			got := flying(t, h, func() { tt.first(b) }, func() string { return tt.second(b) })
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
