package machine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/readmit"
)

// expiring is a job that expires so long after noon.
func expiring(name string, n int, after time.Duration) queue.Job {
	j := jobOf(name, n)
	j.ExpiresAt = noon.Add(after).Time()
	return j
}

func (b *bench) appendAll(jobs ...queue.Job) {
	b.Helper()
	answers, err := b.Append(context.Background(), jobs)
	for _, a := range answers {
		if err != nil || a.Outcome != queue.Accepted {
			b.Fatalf("%+v, %v", a, err)
		}
	}
}

// Deadlines survive reopening, whether the job was never granted, failed, or came
// back from the overflow; what expired stays so.
func TestDeadlinesSurviveReopening(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited", deferring(6))
	b.appendAll(expiring("q", 0, time.Hour), expiring("q", 1, time.Hour), expiring("q", 2, 3*time.Hour), jobOf("q", 3))
	got := b.reserve(1)
	b.settleAll(queue.Fail, got)
	b.append("q", 90, 2)
	late := expiring("q", 4, time.Hour)
	a, err := b.Offer(context.Background(), []queue.Job{late})
	if err != nil || a[0].Outcome != queue.SetAside {
		t.Fatal(a, err)
	}
	b.cancelJob("q", 90)
	b.outcomes(b.readmit("q", queue.Readmission{Job: late, Order: 1, Ticket: a[0].Ticket, At: a[0].At}), readmit.Returned)
	b.reopen()
	b.advance(2 * time.Hour)
	ids := []string{}
	for _, j := range b.reserve(9) {
		ids = append(ids, j.ID)
	}
	if len(ids) != 3 || ids[0] != jobOf("q", 2).ID || ids[1] != jobOf("q", 3).ID || ids[2] != jobOf("q", 91).ID {
		t.Errorf("granted %v", ids)
	}
	b.reopen()
	for n, want := range map[int]queue.State{0: queue.Expired, 1: queue.Expired, 2: queue.Waiting, 4: queue.Expired} {
		if s := b.state("q", n); s != want {
			t.Errorf("job %d is %v, want %v", n, s, want)
		}
	}
	q := b.queues["q"]
	if i := b.info("q"); i.TimedOut != 3 || i.Returned != 1 || q.overflow.readmitted != 0 || len(q.expiries) != 1 {
		t.Errorf("%+v, back %d, deadlines %v", i, q.overflow.readmitted, q.expiries)
	}
	b.settleAll(queue.Deliver, b.reserve(9))
	if s := b.state("q", 2); s != queue.Delivered || len(q.expiries) != 0 {
		t.Errorf("%v, deadlines %v", s, q.expiries)
	}
}

// What the store knows of when jobs expire is there again after reopening, stands when they
// cannot be ended for want of room, and goes with them and with their queue.
func TestDeadlinesOfJobsThatWait(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	b.put("q", "unlimited")
	b.put("r", "unlimited")
	b.put("plain", "unlimited")
	b.append("plain", 0, 1)
	for _, name := range []string{"q", "r"} {
		if err := b.Pause(context.Background(), name, queue.Pause{}); err != nil {
			t.Fatal(err)
		}
	}
	b.appendAll(
		expiring("q", 0, time.Hour), expiring("q", 1, 2*time.Hour), expiring("q", 2, time.Hour),
		expiring("r", 3, time.Hour), jobOf("q", 4),
	)
	order := func(queues int, ids ...int) {
		t.Helper()
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		var got []string
		q := b.queues["q"]
		if q.deadlines != nil {
			for _, block := range q.deadlines.blocks {
				for _, d := range block {
					got = append(got, d.job.id)
				}
			}
		}
		var want []string
		for _, n := range ids {
			want = append(want, jobOf("q", n).ID)
		}
		if !slices.Equal(got, want) || b.expiring.len() != queues || (q.expiringIndex >= 0) != (len(ids) > 0) {
			t.Errorf("%v, in %d queues; want %v in %d", got, b.expiring.len(), want, queues)
		}
	}
	order(2, 0, 2, 1)
	b.reopen()
	order(2, 0, 2, 1)
	b.advance(time.Hour)
	n.all.Store(true)
	b.number++
	r, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "c"}, Number: b.number, Max: 9,
	})
	if n.all.Store(false); err != nil || len(r.Jobs) != 1 { // what goes to others is no worse for it
		t.Fatal(r, err)
	}
	order(2, 0, 2, 1)
	if i := b.info("q"); i.TimedOut != 0 || i.Waiting != 4 {
		t.Errorf("%+v", i)
	}
	b.forgive()
	b.reserve(9)
	order(1, 1)
	if i := b.info("q"); i.TimedOut != 2 || i.Waiting != 2 {
		t.Errorf("%+v", i)
	}
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	b.advance(time.Hour)
	b.put("q", "unlimited")
	order(0)
	b.reserve(9)
}
