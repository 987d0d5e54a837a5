package machine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Records are dropped when no copy can come back any more, a few at a time, also in the file. An id may be reused
// before its old record is gone.
func TestOldRecordsAreDropped(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", enginetest.Deferring(1))
	b.AppendTo("q", 0, 1)
	b.MustOffer("q", 1, 450)
	b.MustOffer("q", 1000, 1)
	again := b.MustOffer("q", 2000, 1)[0]
	b.Advance(queue.DefaultMaxAge + queue.DefaultRetention)
	fresh := b.MustOffer("q", 2000, 1)[0]
	if fresh.Ticket == again.Ticket {
		t.Fatal("the ticket of a record that lapsed")
	}
	for range 10 {
		b.MustReserve(1)
		b.MustGet("q")
	}
	if i := b.MustGet("q"); i.Deferred != 1 || i.Missing != 452 || i.SetAside != 453 {
		t.Errorf("%+v", i)
	}
	b.MustOffer("q", 3000, 1)
	if n := b.records(deferredTable); n != 2 {
		t.Errorf("%d records on file", n)
	}
	b.reopen()
	if i := b.MustGet("q"); i.Deferred != 2 || i.Missing != 452 || i.SetAside != 454 {
		t.Errorf("%+v", i)
	}
}

// A queue's records are deleted with it, in pieces, and a new queue of that name takes none of its jobs.
func TestDeletionWithABacklog(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited", enginetest.Deferring(1))
	b.AppendTo("q", 0, 1)
	aside := b.MustOffer("q", 1, 1200)
	b.MustPut("other", "unlimited", enginetest.Deferring(1))
	b.AppendTo("other", 0, 1)
	b.MustOffer("other", 1, 2)
	if err := b.Delete(ctx, "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	if totals := first(b.Totals(ctx)); totals.Deferred != 2 {
		t.Errorf("%+v", totals)
	}
	b.MustPut("q", "unlimited", enginetest.Deferring(10))
	if m := b.ReadmitJobs("q", enginetest.Stored("q", 1, 1, aside[0])); m.Outcomes[0] != readmit.Orphaned || m.Order != 0 {
		t.Errorf("%+v", m)
	}
	done := enginetest.Stored("q", 1, 1, aside[0])
	done.Done = true
	// deferred while the store could not be asked
	without := enginetest.Stored("q", 2, 2, queue.Appended{At: aside[1].At})
	b.CheckOutcomes(b.ReadmitJobs("q", done, without), readmit.Passed, readmit.Returned)
	for i := range 9 {
		records := b.records(deferredTable)
		more, err := b.Sweep(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		if freed := records - b.records(deferredTable); freed > sweepMax {
			t.Errorf("%d freed in one sweep", freed)
		}
		if i == 0 {
			b.reopen() // in the middle
		}
		if !more {
			break
		}
	}
	if n := b.records(deferredTable); n != 2 {
		t.Errorf("%d records on file", n)
	}
	if i := b.MustGet("other"); i.Deferred != 2 {
		t.Errorf("%+v", i)
	}
}

// A file whose records contradict each other is not opened.
func TestContradictoryRecordsAreRefused(t *testing.T) {
	whole := deferral{at: 1, seq: 90, cost: 1, state: stillDeferred}
	for what, spoil := range map[string]func(s *effects){
		"cut short": func(s *effects) { s.put(deferredTable, 90, []byte{1, 2}) },
		"of no state": func(s *effects) {
			s.putDeferral(&queueState{number: 1}, 3, "x", deferral{at: 1, seq: 90, state: noDeferral}, "")
		},
		"of no id":      func(s *effects) { s.putDeferral(&queueState{number: 1}, 3, "", whole, "") },
		"out of order":  func(s *effects) { s.putDeferral(&queueState{number: 1}, 1, "x", whole, "") },
		"from tomorrow": func(s *effects) { s.putDeferral(&queueState{number: 1}, 1<<50, "x", whole, "") },
		"a strange flag": func(s *effects) {
			s.putDeferral(&queueState{number: 1}, 3, "x", deferral{seq: 90, state: 9}, "")
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := start(t, Options{})
			b.MustPut("q", "unlimited", enginetest.Deferring(1))
			b.AppendTo("q", 0, 1)
			b.MustOffer("q", 1, 3)
			if _, err := b.Withdraw(context.Background(), []queue.Ticketed{{
				Queue: "q", ID: enginetest.Job("q", 3).ID, Ticket: ticket{1, 3}.text(),
			}}); err != nil {
				t.Fatal(err)
			}
			var s effects
			spoil(&s)
			b.meddle(func(tx Transaction) error { return (&tables{tx}).write(&s) })
			b.read(func(tx Transaction) {
				if err := New(2).Load(t.Context(), tx, noon); !errors.Is(err, queue.ErrCorrupt) {
					t.Error(err)
				}
			})
		})
	}
}

func TestTickets(t *testing.T) {
	for _, want := range []ticket{{1, 1}, {7, 1 << 40}, {^uint64(0), ^uint64(0)}} {
		if s := want.text(); len(s) > queue.MaxTicketBytes || parseTicket(s) != want {
			t.Errorf("%+v is %s", want, s)
		}
	}
	for _, s := range []queue.Ticket{
		"", ".", "1", "1.", ".1", "01.1", "1.1 ", "A.1", "1.1.1", "-1.1", "zzzzzzzzzzzzzzzz.1",
	} {
		if got := parseTicket(s); got != (ticket{}) {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

func TestReadmitRequestsThatAreRefused(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", enginetest.Deferring(1))
	ok := queue.Readmission{Job: enginetest.Job("q", 1), Order: 1, At: noon.Time()}
	for field, r := range map[string]queue.ReadmitRequest{
		"holder":        {Queue: "q"},
		"overflow":      {Queue: "q", Holder: "h", Overflow: string(make([]byte, 65))},
		"jobs":          {Queue: "q", Holder: "h", Jobs: make([]queue.Readmission, queue.MaxReadmit+1)},
		"behind":        {Queue: "q", Holder: "h", Behind: -1},
		"empty":         {Queue: "q", Holder: "h", Empty: true, Behind: 1},
		"jobs[0].order": {Queue: "q", Holder: "h", Jobs: []queue.Readmission{{Job: ok.Job}}},
		"jobs[1].order": {Queue: "q", Holder: "h", Jobs: []queue.Readmission{ok, {Job: ok.Job, Order: 1}}},
	} {
		_, err := b.Readmit(context.Background(), r)
		var fe *invalid.Error
		if !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := b.Readmit(context.Background(), queue.ReadmitRequest{
		Queue: "r", Holder: "h",
	}); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Error(err)
	}
	bad := ok
	bad.ID, ok.Order = "has a space", 2
	b.CheckOutcomes(b.ReadmitJobs("q", bad, ok), readmit.Unreadable, readmit.NotYet)
	if i := b.MustGet("q"); i.Size() != 0 {
		t.Errorf("%+v", i)
	}
}

// standing returns everything that a failed change must restore.
func (b *bench) standing(name string) string {
	b.Helper()
	q := b.queues[name]
	a := q.overflow
	return fmt.Sprintf("%+v older %+v cost %d tickets %d readmitted %d\n"+
		"incoming %+v size %d turn %d records %d expiries %d lanes %d\n%s",
		a.progress, a.olderGeneration, a.cost, a.lastTicket, a.readmitted,
		q.incoming.sum(), q.size(), q.turn, a.records.n, len(q.expiries), len(q.lanes), b.Standing(name))
}

// A failed commit of the overflow restores everything (counts, records and places), and the same change works when
// there is room again.
func TestEveryChangeOfTheOverflowCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited", enginetest.Deferring(6))
	soon := enginetest.Job("q", 0)
	soon.ExpiresAt = noon.Add(time.Hour).Time()
	if _, err := b.Append(ctx, []queue.Job{soon}); err != nil {
		t.Fatal(err)
	}
	b.AppendTo("q", 1, 5)
	aside := b.MustOffer("q", 6, 5)
	b.MustReadmit(queue.ReadmitRequest{Queue: "q", Empty: true, Leave: true}) // now they are of the older generation
	// one is scheduled, and there is room for three
	got := b.MustReserve(6)
	b.MustSettle(queue.Release, got[:2])
	b.MustSettle(queue.Fail, got[2:3])
	b.MustSettle(queue.Deliver, got[3:])
	list := enginetest.AllStored("q", 6, 1, aside)[:3]
	list[1].At = list[1].At.Add(-48 * time.Hour)
	if s := b.cancelJob("q", 8); s != queue.Cancelled {
		t.Fatal(s)
	}

	fails := func(what string, f func() error) {
		t.Helper()
		n.refuse(b, what, f)
	}
	request := queue.ReadmitRequest{Queue: "q", Holder: "h", Overflow: "nats", Jobs: list, Behind: 3}
	readmit := func() error { return second(b.Readmit(ctx, request)) }
	offer := func() error { return second(b.Offer(ctx, []queue.Job{enginetest.Job("q", 11)})) }
	withdraw := func() error {
		return second(b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: enginetest.Job("q", 9).ID, Ticket: aside[3].Ticket}}))
	}
	cancel := func(n int) func() error {
		return func() error { return second(b.Cancel(ctx, "q", enginetest.Job("q", n).ID)) }
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"offer", offer},
		{"withdraw", withdraw},
		{"announce", func() error { return b.Announce(ctx, "q") }},
		{"cancel of a deferred one", cancel(10)},
		{"cancel of a scheduled one", cancel(2)},
		{"cancel of a waiting one", cancel(1)},
		{"readmit", readmit},
		{"giving up", func() error {
			request.Jobs, request.Behind, request.Empty = nil, 0, true
			return readmit()
		}},
		{"offer of a deferred one", func() error { return second(b.Offer(ctx, []queue.Job{enginetest.Job("q", 9)})) }},
	}
	b.Advance(time.Minute)
	for _, s := range steps {
		fails(s.what, s.do)
	}
	request.Jobs, request.Behind, request.Empty = list, 3, false

	b.Advance(3 * time.Hour) // the first job has expired, and cannot be ended
	before := b.standing("q")
	n.all.Store(true)
	b.Number++
	r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: b.Number, Max: 1})
	n.all.Store(false)
	b.forgive()
	if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ID != enginetest.Job("q", 1).ID {
		t.Fatalf("%+v, %v", r.Jobs, err)
	}
	b.MustSettle(queue.Release, r.Jobs)
	if b.State("q", 0) != queue.Waiting || b.MustGet("q").TimedOut != 0 {
		t.Errorf("before\n%s\nafter\n%s", before, b.standing("q"))
	}

	for _, s := range steps[:7] { // all of it works when there is room
		if err := s.do(); err != nil {
			t.Errorf("%s: %v", s.what, err)
		}
	}
	b.MustReserve(1)
	want := map[int]queue.State{
		0: queue.Expired, 1: queue.Cancelled, 2: queue.Cancelled, 6: queue.Leased, 7: queue.Dead, 8: queue.Cancelled,
		9: queue.StateNone, 10: queue.Cancelled, 11: queue.Deferred,
	}
	for n, s := range want {
		if got := b.State("q", n); got != s {
			t.Errorf("job %d is %v, want %v", n, got, s)
		}
	}
	want[6] = queue.Waiting // its holder is gone
	m := b.ReadmitJobs("q")
	b.reopen()
	for n, s := range want {
		if got := b.State("q", n); got != s {
			t.Errorf("opened again, job %d is %v, want %v", n, got, s)
		}
	}
	again := b.ReadmitJobs("q")
	again.Now, m.Now = time.Time{}, time.Time{}
	if !reflect.DeepEqual(again, m) {
		t.Errorf("opened again: %+v, before %+v", again, m)
	}
}

// needsRoom fails commits that defer jobs or bring them back.
type needsRoom struct {
	noSpace
	*bench
}

func (n *needsRoom) fault(c *Commit) error {
	for _, f := range c.list {
		isNew := string(f.table) == "deferred" && f.number > n.durableKeys.deferred || string(f.table) == "jobs"
		if n.all.Load() && f.value != nil && isNew {
			return syscall.ENOSPC
		}
	}
	return nil
}

// Calls that free room work while the store is full: withdrawals, cancellations, ending records.
func TestTheOverflowOfAFullStore(t *testing.T) {
	n := &needsRoom{}
	b := start(t, Options{fault: n.fault})
	n.bench = b
	ctx := context.Background()
	b.MustPut("q", "unlimited", enginetest.Deferring(4))
	b.AppendTo("q", 0, 4)
	aside := b.MustOffer("q", 4, 4)
	b.MustSettle(queue.Deliver, b.MustReserve(3))
	list := enginetest.AllStored("q", 4, 1, aside)
	n.all.Store(true)
	if _, err := b.Offer(ctx, []queue.Job{enginetest.Job("q", 20)}); !errors.Is(err, queue.ErrStoreFull) {
		t.Error(err)
	}
	if _, err := b.Readmit(ctx, queue.ReadmitRequest{
		Queue: "q", Holder: "h", Jobs: list,
	}); !errors.Is(err, queue.ErrStoreFull) {
		t.Error(err)
	}
	b.forgive()
	if _, err := b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: aside[3].ID, Ticket: aside[3].Ticket}}); err != nil {
		t.Error(err)
	}
	for _, n := range []int{3, 4, 5} {
		if s := b.cancelJob("q", n); s != queue.Cancelled {
			t.Errorf("job %d is %v", n, s)
		}
	}
	b.forgive()
	b.CheckOutcomes(b.ReadmitJobs("q", list[:2]...), readmit.Passed, readmit.Passed)
	done := list[2]
	done.Done = true
	b.CheckOutcomes(b.ReadmitJobs("q", done), readmit.Passed)
	b.reopen()
	if i := b.MustGet("q"); i.Deferred != 0 || i.SetAside != 3 || i.Cancelled != 3 || i.Size() != 0 {
		t.Errorf("%+v", i)
	}
	if n := b.records(deferredTable); n != 0 {
		t.Errorf("%d records on file", n)
	}
}
