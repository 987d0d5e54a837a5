package machine

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

func TestEveryStateSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", func(s *queue.Spec) {
		s.Retry.MaxAttempts = 2
		s.Deliver = []byte(`{ "http": {"url": "http://x"} }`)
	})
	b.put("paused", "14/s")
	if err := b.Pause(context.Background(), "paused", queue.Pause{Reason: "for lunch"}); err != nil {
		t.Fatal(err)
	}
	b.append("q", 0, 8)
	got := b.reserve(5)
	b.settleAll(queue.Deliver, got[:1])
	b.settleAll(queue.Bury, got[1:2])
	b.settleAll(queue.Fail, got[2:3])
	b.settleAll(queue.Release, got[3:4])
	settled := b.settleAll(queue.Fail, got[2:3]) // again

	before, paused := b.info("q"), b.info("paused")
	job, err := b.Job(context.Background(), "q", got[2].ID)
	if err != nil || before.Leased != 1 || settled[0].State != queue.Scheduled {
		t.Fatal(job, err, before, settled)
	}
	b.reopen()

	after := b.info("q")
	// its holder is gone
	before.Waiting, before.Leased, before.Outflow, before.Ahead = before.Waiting+1, 0, 0, before.Ahead+1
	// as late as a grant can have been
	before.Bucket.Last = after.Bucket.Last
	// nobody asked this process yet
	before.Asked, paused.Asked = time.Time{}, time.Time{}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	paused.Next = b.info("paused").Next
	if i := b.info("paused"); !reflect.DeepEqual(i, paused) {
		t.Errorf("before %+v\nafter  %+v", paused, i)
	}
	if again, err := b.Job(context.Background(), "q", got[2].ID); err != nil || !reflect.DeepEqual(again, job) {
		t.Errorf("before %+v\nafter  %+v, %v", job, again, err)
	}
	if again := b.settleAll(queue.Fail, got[2:3]); !reflect.DeepEqual(again, settled) {
		t.Errorf("settled again: %+v, want %+v", again, settled)
	}
	if s := b.settleAll(queue.Deliver, got[:1])[0]; s.State != queue.Delivered {
		t.Errorf("delivered again: %+v", s)
	}
	if s := b.settleAll(queue.Deliver, got[4:5])[0]; !s.Stale {
		t.Errorf("a lease of the process before: %+v", s)
	}
	for i, want := range []queue.AppendOutcome{queue.Duplicate, queue.Duplicate, queue.Duplicate, queue.Duplicate} {
		a, err := b.Append(context.Background(), []queue.Job{jobOf("q", i)})
		if err != nil || a[0].Outcome != want {
			t.Errorf("append %d again: %+v, %v", i, a, err)
		}
	}
	b.advance(time.Minute)
	ids := []string{}
	for _, r := range b.reserve(9) {
		ids = append(ids, r.ID)
	}
	want := []string{}
	for _, n := range []int{2, 3, 4, 5, 6, 7} { // in the order of append, whatever happened to them
		want = append(want, jobOf("q", n).ID)
	}
	if !reflect.DeepEqual(ids, want) {
		t.Errorf("granted %v, want %v", ids, want)
	}
}

func TestRevisionsAreNotReused(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.put("q", "1/s")
	first := b.info("q").Revision
	if err := b.Delete(ctx, "q", first, false); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.put("q", "1/s")
	if again := b.info("q").Revision; again <= first {
		t.Errorf("revision %d after %d", again, first)
	}
	if err := b.Delete(ctx, "q", first, false); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("delete at an old revision: %v", err)
	}
}

func TestDeletedQueuesAreSweptInPieces(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.put("q", "unlimited")
	b.put("r", "1/s")
	b.append("r", 0, 3)
	b.append("q", 0, 1300)
	got := b.reserve(9)
	b.settleAll(queue.Deliver, got[:2])
	b.settleAll(queue.Bury, got[2:4])
	b.settleAll(queue.Fail, got[4:6])
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
	b.put("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 5 })
	b.append("q", 0, 60)
	b.settleAll(queue.Deliver, b.reserve(30))
	b.settleAll(queue.Bury, b.reserve(20))
	b.reopen()
	if ended, jobs := b.records(endedTable), b.records(jobsTable); ended != 10 || jobs != 10+5 {
		t.Errorf("%d ended and %d jobs on file", ended, jobs)
	}
	b.advance(queue.DefaultRetention)
	b.reopen()
	b.append("q", 0, 1) // goes together with what is forgotten
	if ended, jobs := b.records(endedTable), b.records(jobsTable); ended != 0 || jobs != 11 {
		t.Errorf("%d ended and %d jobs on file after the retention", ended, jobs)
	}
	if i := b.info("q"); i.Died != 20 || i.Dead != 0 || i.Delivered != 30 {
		t.Errorf("%+v", i)
	}
}

// A pull queue is one again when its file is opened, and can have no child then either.
func TestPullSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", func(s *queue.Spec) { s.Pull = true })
	b.append("q", 0, 2)
	b.reopen()
	if got := b.reserve(5); len(got) != 0 {
		t.Errorf("a drainer was granted %d jobs", len(got))
	}
	res, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "p"}, Number: 1, Max: 5, Queue: "q",
	})
	if err != nil || len(res.Jobs) != 2 {
		t.Errorf("%d jobs, %v", len(res.Jobs), err)
	}
	child := queue.Spec{Name: "q.child"}
	var field *queue.FieldError
	if _, err := b.Put(context.Background(), child, 0); !errors.As(err, &field) || field.Field != "name" {
		t.Errorf("a child: %v", err)
	}
}
