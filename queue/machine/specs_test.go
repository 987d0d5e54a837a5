package machine

import (
	"errors"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// put makes the queue, or changes its rate, durably.
func (h *held) put(perSecond int64) {
	h.Helper()
	s, err := NewSpecText(queue.Spec{Name: "q", Rate: leaky.PerSecond(perSecond)})
	if err == nil {
		_, _, err = h.m.Put(noon, audit.Actor{}, s, queue.AnyRevision)
	}
	if err != nil {
		h.Fatal(err)
	}
	h.commit()
}

// delete deletes the queue, durably.
func (h *held) delete() {
	h.Helper()
	if _, err := h.m.Delete(noon, audit.Actor{}, "q", queue.AnyRevision, true); err != nil {
		h.Fatal(err)
	}
	h.commit()
}

// A history read while its queue changes names the revision of its newest spec.
func TestAHistoryNamesTheRevisionThatItEndsWith(t *testing.T) {
	h := newHeld(t)
	read := func(p Past) (past queue.History) {
		_ = h.store.View(func(tx Transaction) (err error) {
			if past, err = p.Read(tx); err != nil {
				t.Fatal(err)
			}
			return nil
		})
		return past
	}
	p, _ := h.m.History(noon, "q")
	h.put(5)
	if past := read(p); past.Revision != past.Specs[0].Revision || past.Revision != h.m.queues["q"].revision {
		t.Errorf("it names revision %d, and ends with %d", past.Revision, past.Specs[0].Revision)
	}
	p, _ = h.m.History(noon, "q")
	h.delete()
	if past := read(p); past.Revision != 0 {
		t.Errorf("of a deleted queue it names revision %d", past.Revision)
	}
}

// If a queue was created and deleted after its history was read, the rollback must read the history again.
func TestARollbackOfADeletedQueueGoesToItsLastSpec(t *testing.T) {
	h := newHeld(t)
	h.delete()
	p, _ := h.m.History(noon, "q")
	var past queue.History
	var err error
	_ = h.store.View(func(tx Transaction) error { past, err = p.Read(tx); return nil })
	if err != nil {
		t.Fatal(err)
	}
	h.put(5)
	h.delete()
	if put, _, err := h.m.Rollback(noon, audit.Actor{}, p, past, 0, queue.AnyRevision); !errors.Is(err, ErrOutdated) {
		t.Errorf("%+v, %v", put, err)
	}
}

// A revision that a failed commit used is not given to another change.
func TestRevisionsAreNotGivenAgain(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/s")
	s, err := NewSpecText(queue.Spec{Name: "q", Rate: leaky.PerSecond(5)})
	if err != nil {
		t.Fatal(err)
	}
	lost, _, err := b.Machine.Put(b.now(), audit.Actor{}, s, queue.AnyRevision)
	if err != nil {
		t.Fatal(err)
	}
	b.undo(b.now())
	b.MustPut("q", "9/s")
	if i := b.MustGet("q"); i.Revision <= lost.Revision || i.Rate != leaky.PerSecond(9) {
		t.Errorf("%v at revision %d, and %d was another's", i.Rate, i.Revision, lost.Revision)
	}
}

// A Put concurrent with a Reserve leaves a ceiling on file that covers the grant, and is not far ahead.
func TestPutDuringReserve(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/h")
	b.AppendTo("q", 0, 2)
	check := func(when string) {
		t.Helper()
		q := b.queues["q"]
		if need, is := tat(q.bucket), q.ceiling.durable.tat; is < need || is.Sub(need) > ceilingAhead {
			t.Errorf("%s: the ceiling is at %v, the bucket at %v", when, since(is), since(need))
		}
	}
	g, err := b.Machine.Reserve(b.now(), queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 9})
	if err != nil || g.Wait == 0 || len(g.grant.jobs) != 1 {
		t.Fatalf("%+v, %v: a grant of a slow queue waits for its ceiling", g, err)
	}
	spec, err := NewSpecText(func() queue.Spec { s := b.queues["q"].fullSpec(); s.Rate = rateOf(t, "100/s"); return s }())
	if err != nil {
		t.Fatal(err)
	}
	c := b.Collect(b.now()) // the grant's commit is under way
	if _, wait, err := b.Machine.Put(b.now(), audit.Actor{}, spec, queue.AnyRevision); err != nil || wait <= c.Number {
		t.Fatal(wait, err)
	}
	b.keep(c)
	if err := b.commit(b.now()); err != nil {
		t.Fatal(err)
	}
	check("beside the commit of a grant")
	b.MustReserve(9)
	check("and behind the next")
}

func TestWhichRequestsAreFresh(t *testing.T) {
	for _, tt := range []struct {
		what   string
		client client
		number uint64
		want   bool
	}{
		{"the first", client{}, 1, true},
		{"a later one", client{lastNumber: 6, grant: &grant{}}, 7, true},
		{"the last one again", client{lastNumber: 6, grant: &grant{}}, 6, false},
		{"one that was overtaken", client{lastNumber: 6, grant: &grant{}}, 5, false},
		{"the last one, which failed", client{lastNumber: 6}, 6, true},
		{"one that was overtaken by one that failed", client{lastNumber: 6}, 5, false},
	} {
		if got := tt.client.isNew(tt.number); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}
