package machine

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func TestEveryStateSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) {
		s.Retry.MaxAttempts = 2
		s.Deliver = []byte(`{ "http": {"url": "http://x"} }`)
	})
	b.MustPut("paused", "14/s")
	if err := b.Pause(context.Background(), "paused", queue.Pause{Reason: "for lunch"}); err != nil {
		t.Fatal(err)
	}
	b.AppendTo("q", 0, 8)
	got := b.MustReserve(5)
	b.MustSettle(queue.Deliver, got[:1])
	b.MustSettle(queue.Bury, got[1:2])
	b.MustSettle(queue.Fail, got[2:3])
	b.MustSettle(queue.Release, got[3:4])
	settled := b.MustSettle(queue.Fail, got[2:3]) // again

	before, paused := b.MustGet("q"), b.MustGet("paused")
	job, err := b.Job(context.Background(), "q", got[2].ID)
	if err != nil || before.Leased != 1 || settled[0].State != queue.Scheduled {
		t.Fatal(job, err, before, settled)
	}
	b.reopen()

	after := b.MustGet("q")
	// its holder is gone
	before.Waiting, before.Leased, before.Outflow, before.Ahead = before.Waiting+1, 0, 0, before.Ahead+1
	// as late as a grant can have been
	before.Bucket.Last = after.Bucket.Last
	// nobody asked this process yet
	before.Asked, paused.Asked = time.Time{}, time.Time{}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	paused.Next = b.MustGet("paused").Next
	if i := b.MustGet("paused"); !reflect.DeepEqual(i, paused) {
		t.Errorf("before %+v\nafter  %+v", paused, i)
	}
	if again, err := b.Job(context.Background(), "q", got[2].ID); err != nil || !reflect.DeepEqual(again, job) {
		t.Errorf("before %+v\nafter  %+v, %v", job, again, err)
	}
	if again := b.MustSettle(queue.Fail, got[2:3]); !reflect.DeepEqual(again, settled) {
		t.Errorf("settled again: %+v, want %+v", again, settled)
	}
	if s := b.MustSettle(queue.Deliver, got[:1])[0]; s.State != queue.Delivered {
		t.Errorf("delivered again: %+v", s)
	}
	if s := b.MustSettle(queue.Deliver, got[4:5])[0]; !s.Stale {
		t.Errorf("a lease of the process before: %+v", s)
	}
	for i, want := range []queue.AppendOutcome{queue.Duplicate, queue.Duplicate, queue.Duplicate, queue.Duplicate} {
		a, err := b.Append(context.Background(), []queue.Job{enginetest.Job("q", i)})
		if err != nil || a[0].Outcome != want {
			t.Errorf("append %d again: %+v, %v", i, a, err)
		}
	}
	b.Advance(time.Minute)
	ids := []string{}
	for _, r := range b.MustReserve(9) {
		ids = append(ids, r.ID)
	}
	want := []string{}
	for _, n := range []int{2, 3, 4, 5, 6, 7} { // in the order of append, whatever happened to them
		want = append(want, enginetest.Job("q", n).ID)
	}
	if !reflect.DeepEqual(ids, want) {
		t.Errorf("granted %v, want %v", ids, want)
	}
}

func TestRevisionsAreNotReused(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "1/s")
	first := b.MustGet("q").Revision
	if err := b.Delete(ctx, "q", first, false); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.MustPut("q", "1/s")
	if again := b.MustGet("q").Revision; again <= first {
		t.Errorf("revision %d after %d", again, first)
	}
	if err := b.Delete(ctx, "q", first, false); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("delete at an old revision: %v", err)
	}
}

func TestDeletedQueuesAreSweptInPieces(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.MustPut("r", "1/s")
	b.AppendTo("r", 0, 3)
	b.AppendTo("q", 0, 1300)
	got := b.MustReserve(9)
	b.MustSettle(queue.Deliver, got[:2])
	b.MustSettle(queue.Bury, got[2:4])
	b.MustSettle(queue.Fail, got[4:6])
	if err := b.Delete(ctx, "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	if totals, _ := b.Totals(ctx); totals.Waiting+totals.Leased+totals.Scheduled != 3 || totals.Dead != 2 {
		t.Errorf("%+v", totals)
	}
	for i := range 4 {
		jobs := b.records(jobsTable)
		more, err := b.Sweep(ctx, 0)
		if err != nil || !more && i < 2 {
			t.Fatal(more, err)
		}
		if freed := jobs - b.records(jobsTable); freed > sweepMax {
			t.Errorf("%d freed in one sweep", freed)
		}
		if i == 0 {
			b.reopen() // in the middle
		}
		if !more {
			break
		}
	}
	b.reopen()
	l, err := b.ListJobs(ctx, queue.ListRequest{Queue: "q", State: queue.Dead, Limit: 9})
	if err != nil || len(l.Jobs) != 2 || len(l.Jobs[0].Timeline) != 1 {
		t.Errorf("the dead of the deleted queue: %+v, %v", l, err)
	}
	for table, want := range map[string]int{
		"jobs": 5, "leases": 0, "ended": 2, "retentions": 1, "specs": 1, "queues": 1, "failures": 0,
	} {
		if n := b.records([]byte(table)); n != want {
			t.Errorf("%d records in %s, want %d", n, table, want)
		}
	}
}

func TestTheFileForgetsWhatMemoryForgot(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 5 })
	b.AppendTo("q", 0, 60)
	b.MustSettle(queue.Deliver, b.MustReserve(30))
	b.MustSettle(queue.Bury, b.MustReserve(20))
	b.reopen()
	if ended, jobs := b.records(endedTable), b.records(jobsTable); ended != 10 || jobs != 10+5 {
		t.Errorf("%d ended and %d jobs on file", ended, jobs)
	}
	b.Advance(queue.DefaultRetention)
	b.reopen()
	b.AppendTo("q", 0, 1) // written along with forgotten records
	if ended, jobs := b.records(endedTable), b.records(jobsTable); ended != 0 || jobs != 11 {
		t.Errorf("%d ended and %d jobs on file after the retention", ended, jobs)
	}
	if i := b.MustGet("q"); i.Died != 20 || i.Dead != 0 || i.Delivered != 30 {
		t.Errorf("%+v", i)
	}
}

// A pull queue remains one after reopening, and still cannot have children.
func TestPullSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Pull = true })
	b.AppendTo("q", 0, 2)
	b.reopen()
	if got := b.MustReserve(5); len(got) != 0 {
		t.Errorf("a drainer was granted %d jobs", len(got))
	}
	res, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "p"}, Number: 1, Max: 5, Queue: "q",
	})
	if err != nil || len(res.Jobs) != 2 {
		t.Errorf("%d jobs, %v", len(res.Jobs), err)
	}
	child := queue.Spec{Name: "q.child"}
	var field *invalid.Error
	if _, err := b.Put(context.Background(), child, 0); !errors.As(err, &field) || field.Field != "name" {
		t.Errorf("a child: %v", err)
	}
}

func TestTalliesSurviveReopening(t *testing.T) {
	b := start(t, Options{behind: true})
	peek := func(r *rules.Rule, key string) leaky.Decision {
		return b.MustTake(r.Name, rules.Take{Op: rules.TakePeek, Key: key, Cost: 1, Unit: r.Unit}).Decision
	}
	for _, r := range oneOfEach() {
		b.MustPutRule(r)
		for range 2 {
			b.MustTake(r.Name, rules.Take{Key: "a", Cost: 1, Unit: r.Unit})
			b.Advance(time.Second)
		}
		b.MustTake(r.Name, rules.Take{Key: "b", Cost: 1, Unit: r.Unit})
	}
	before := map[string]leaky.Decision{}
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			before[r.Name+key] = peek(&r, key)
		}
	}
	b.reopen()
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			if got, want := peek(&r, key), before[r.Name+key]; got != want {
				t.Errorf("%s of %s: %+v, before %+v", key, r.Name, got, want)
			}
		}
	}
}

// The holder of a place keeps it under its name after reopening.
func TestAPlaceSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: 1, TTL: unit.Duration(time.Hour)},
	})
	place := b.MustTake("r", rules.Take{})
	b.reopen()
	if d := b.MustTake("r", rules.Take{}); d.Allowed {
		t.Errorf("%+v", d)
	}
	b.MustTake("r", rules.Take{Op: rules.TakeBack, Lease: place.Lease})
	if d := b.MustTake("r", rules.Take{}); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// An unreadable tally counts as nothing, and is deleted from the file.
func TestATallyThatCannotBeRead(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(enginetest.PerHour("r", 1))
	for _, key := range []string{"cut", "other", "well"} {
		b.MustTake("r", rules.Take{Key: key})
	}
	b.save()
	err := b.store.Update(func(tx Transaction) error {
		of := tx.Table(talliesTable)
		return errors.Join(of.Put(key(1), []byte{200}), of.Put(key(2), append(of.Get(key(2)), 9)))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	for name, want := range map[string]int64{"cut": 1, "other": 1, "well": 0} {
		if got := b.Left("r", name); got != want {
			t.Errorf("%s: %d left", name, got)
		}
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// If a key has two records because the first was not deleted, the second counts.
func TestTwoTalliesOfAKey(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(enginetest.PerHour("r", 9))
	for range 2 {
		b.MustTake("r", rules.Take{Key: "k"})
	}
	b.save()
	err := b.store.Update(func(tx Transaction) error {
		of := tx.Table(talliesTable)
		later := bytes.Clone(of.Get(key(1)))
		later[len(later)-1] = 5 << 1 // of a window the count, as a varint
		return of.Put(key(2), later)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	if left := b.Left("r", "k"); left != 4 {
		t.Errorf("%d left", left)
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// An override's tally is not lost when it is loaded before its key is known.
func TestAnOverrideSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
		Bound:     rules.Bound{Limit: 1, Period: unit.Duration(time.Second)},
		Overrides: map[string]rules.Bound{"k": {Limit: 5, Period: unit.Duration(time.Hour)}},
	})
	for range 2 {
		b.MustTake("r", rules.Take{Key: "k"})
	}
	b.reopen()
	if left := b.Left("r", "k"); left != 3 {
		t.Errorf("%d left", left)
	}
}
