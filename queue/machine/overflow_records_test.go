package machine

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Records are dropped when no copy can come back any more, a few at a time, and the
// file follows. An id may be used again before its old record is gone.
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

// A queue's records go with it, in pieces, and a queue made again under its name
// takes none of its jobs.
func TestDeletedWithABacklog(t *testing.T) {
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
	without := enginetest.Stored("q", 2, 2, queue.Appended{At: aside[1].At}) // put aside while nobody could be asked
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
func TestRecordsThatAreNotOurs(t *testing.T) {
	whole := deferral{at: 1, seq: 90, cost: 1, state: stillDeferred}
	for what, spoil := range map[string]func(s *effects){
		"cut short": func(s *effects) { s.put(deferredTable, 90, []byte{1, 2}) },
		"of no state": func(s *effects) {
			s.putDeferral(&queueState{number: 1}, 3, "x", deferral{at: 1, seq: 90, state: noDeferral})
		},
		"of no id":      func(s *effects) { s.putDeferral(&queueState{number: 1}, 3, "", whole) },
		"out of order":  func(s *effects) { s.putDeferral(&queueState{number: 1}, 1, "x", whole) },
		"from tomorrow": func(s *effects) { s.putDeferral(&queueState{number: 1}, 1<<50, "x", whole) },
		"a strange flag": func(s *effects) {
			s.putDeferral(&queueState{number: 1}, 3, "x", deferral{seq: 90, state: 9})
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
