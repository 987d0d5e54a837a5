package boltq

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// pull asks for jobs of ses.live.
func (b *bench) pull(number uint64, most int) queue.Reserved {
	b.Helper()
	res, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "puller"}, Number: number, Max: most, Queue: "ses.live",
	})
	if err != nil {
		b.Fatal(err)
	}
	return res
}

// After a crash, a pull child still shares its parent's bucket with its siblings, and drainers still get none of its
// jobs. The file has no claims: its clients ask anew.
func TestPullChildSurvivesACrash(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("ses", "1/s")
	b.MustPut("ses.live", "unlimited", func(s *queue.Spec) { s.Pull = true })
	b.MustPut("ses.mail", "unlimited")
	b.AppendTo("ses.live", 0, 3)
	b.AppendTo("ses.mail", 0, 3)
	first := b.pull(1, 1)
	if len(first.Jobs) != 1 || first.Jobs[0].In != 0 {
		t.Fatalf("%+v", first)
	}
	b.pull(2, 9) // a claim
	b.killed()
	if got := b.MustReserve(9); len(got) != 0 {
		t.Errorf("the parent's bucket forgot a departure: %d jobs left at once", len(got))
	}
	if got := b.pull(1, 9); len(got.Jobs) != 0 {
		t.Errorf("the parent's bucket forgot a departure: %+v", got.Jobs)
	}
	left := map[string]int{}
	for n := range uint64(12) {
		b.Advance(time.Second)
		jobs := b.MustReserve(9)
		for _, j := range jobs {
			if j.Queue == "ses.live" {
				t.Errorf("a drainer got %s", j.ID)
			}
		}
		jobs = append(jobs, b.pull(n+2, 9).Jobs...)
		if len(jobs) > 1 {
			t.Errorf("%d jobs left in one second", len(jobs))
		}
		for _, j := range jobs {
			left[j.Queue]++
		}
		b.MustSettle(queue.Deliver, jobs)
	}
	if left["ses.live"] != 3 || left["ses.mail"] != 3 { // a lease ends with the process: the first job left again
		t.Errorf("left: %v", left)
	}
	if _, err := b.Put(context.Background(), queue.Spec{Name: "ses", Pull: true}, queue.AnyRevision); err == nil ||
		errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("the parent became a pull queue: %v", err)
	}
}
