package machine

import (
	"testing"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

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
