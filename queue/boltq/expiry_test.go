package boltq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// A Reserve ends a limited number of expired jobs, in all queues, and is not answered before that is on disk. Meanwhile
// they are not granted, and can be looked up.
func TestExpiringJobsCanBeLookedUp(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	ctx := context.Background()
	for _, name := range []string{"a", "b"} {
		b.MustPut(name, "unlimited")
		for n := range 70 {
			b.MustAppend(expiring(name, n, time.Second))
		}
		b.AppendTo(name, 100, 1)
	}
	b.Advance(time.Minute)
	h.on.Store(true)
	answer := make(chan []queue.Reservation)
	go func() { answer <- b.MustReserve(9) }()
	<-h.arrived
	select {
	case got := <-answer:
		t.Fatalf("answered with %v before it was on disk", got)
	default:
	}
	looked := make(chan queue.State, 1)
	look := func(n int) {
		j, err := b.Job(ctx, "a", enginetest.Job("a", n).ID)
		if err != nil {
			t.Error(err)
		}
		looked <- j.State
	}
	unanswered := func() {
		t.Helper()
		select {
		case s := <-looked:
			t.Errorf("%v is shown before it is on disk", s)
		case <-time.After(20 * time.Millisecond):
		}
	}
	go look(3)
	unanswered()
	h.on.Store(false)
	h.release <- struct{}{}
	if got := <-answer; len(got) != 1 || got[0].Queue != "a" || b.MustGet("a").TimedOut != 70 ||
		b.MustGet("b").TimedOut != 100-70 {
		t.Errorf("%v: %+v, %+v", got, b.MustGet("a"), b.MustGet("b"))
	}
	if s := <-looked; s != queue.Expired {
		t.Errorf("it is %v", s)
	}
	if got := b.MustReserve(9); len(got) != 1 || got[0].Queue != "b" || b.MustGet("b").TimedOut != 70 {
		t.Errorf("%v: %+v", got, b.MustGet("b"))
	}

	// One job is being cancelled: the only waiting one, so the FIFO is empty.
	b.AppendTo("a", 200, 1)
	h.on.Store(true)
	gone := make(chan error)
	go func() { gone <- second(b.Cancel(ctx, "a", enginetest.Job("a", 200).ID)) }()
	<-h.arrived
	b.Number++
	r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: b.Number, Max: 9})
	if err != nil || len(r.Jobs) != 0 {
		t.Errorf("granted while it is being cancelled: %+v, %v", r, err)
	}
	go look(200)
	unanswered()
	h.on.Store(false)
	h.release <- struct{}{}
	if s := <-looked; s != queue.Cancelled {
		t.Errorf("it is %v", s)
	}
	if err := <-gone; err != nil || b.State("a", 200) != queue.Cancelled {
		t.Errorf("%v, %v", b.State("a", 200), err)
	}
}

// A listener that does not read blocks nobody.
func TestRoomWaitsForNobody(t *testing.T) {
	b := start(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	deaf := b.Room(ctx)
	b.MustPut("q", "unlimited", enginetest.Deferring(1))
	for n := range roomBuffer + 50 {
		b.MustAppend(enginetest.Job("q", 2*n))
		a := b.MustOffer("q", 2*n+1, 1)
		b.MustSettle(queue.Deliver, b.MustReserve(1)) // there is room: its name is published
		b.CheckOutcomes(b.ReadmitJobs("q", enginetest.Stored("q", 2*n+1, int64(n+1), a[0])), readmit.Returned)
		b.MustSettle(queue.Deliver, b.MustReserve(1))
	}
	if len(deaf) != roomBuffer {
		t.Errorf("%d unheard", len(deaf))
	}
	heard := b.Room(ctx)
	b.AppendTo("q", 1_000_000, 1)
	b.MustOffer("q", 1_000_001, 1)
	b.MustSettle(queue.Deliver, b.MustReserve(1))
	if name := <-heard; name != "q" {
		t.Errorf("heard %q", name)
	}
	cancel()
	for range heard {
	}
	if _, err := b.Backlogged(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
