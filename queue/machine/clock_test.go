package machine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestTheClockIgnoresKnownJumps(t *testing.T) {
	const s = leaky.Instant(time.Second / time.Microsecond)
	type look struct{ wall, latest, shows, ahead leaky.Instant }
	for name, looks := range map[string][]look{
		"it goes as the wall clock does": {{10 * s, 0, 10 * s, 0}, {12 * s, 0, 12 * s, 0}},
		"back, which shows by itself": {
			{10 * s, 0, 10 * s, 0}, {5 * s, 0, 10 * s, 5 * s}, {6 * s, 0, 11 * s, 5 * s},
		},
		"ahead, which looks like time that passed": {{10 * s, 0, 10 * s, 0}, {99 * s, 0, 99 * s, 0}},
		"ahead, and a caller knows better": {
			{10 * s, 0, 10 * s, 0}, {99 * s, 11 * s, 11 * s, -88 * s}, {100 * s, 0, 12 * s, -88 * s},
		},
		"ahead for a while": {
			{10 * s, 10 * s, 10 * s, 0}, {99 * s, 11 * s, 11 * s, -88 * s}, {12 * s, 12 * s, 11 * s, -s},
		},
		"a little ahead, as a slow call is": {
			{10 * s, 10 * s, 10 * s, 0}, {11*s + s/2, 11 * s, 11*s + s/2, 0}, {12*s + s, 12 * s, 12 * s, -s},
		},
		"ahead, and it stands still until a caller knows better": {
			{10 * s, 10 * s, 10 * s, 0},
			{99 * s, 0, 10 * s, -89 * s},
			{100 * s, 0, 10 * s, -90 * s},
			{101 * s, 12 * s, 11 * s, -90 * s},
			{102 * s, 0, 12 * s, -90 * s},
		},
		"and it does not make up for what it stood still": {
			{10 * s, 10 * s, 10 * s, 0}, {14 * s, 0, 10 * s, -4 * s}, {14*s + s/2, 14*s + s/4, 10*s + s/2, -4 * s},
		},
		"nor does it believe a jump while it stood still": {
			{10 * s, 10 * s, 10 * s, 0}, {14 * s, 0, 10 * s, -4 * s}, {99 * s, 15 * s, 15 * s, -84 * s},
		},
		"nor a jump back": {
			{10 * s, 10 * s, 10 * s, 0}, {14 * s, 0, 10 * s, -4 * s}, {4 * s, 15 * s, 10 * s, 6 * s},
		},
		"or until none does for a while": {
			{10 * s, 10 * s, 10 * s, 0},
			{99 * s, 0, 10 * s, -89 * s},
			{102 * s, 0, 10 * s, -92 * s},
			{102*s + 1, 0, 102*s + 1, 0},
			{199 * s, 0, 199 * s, 0},
		},
		"what it was not told of it never takes back": {
			{99 * s, 99 * s, 99 * s, 0}, {99 * s, 50 * s, 99 * s, 0}, {100 * s, 100 * s, 100 * s, 0},
		},
	} {
		var c Clock
		for i, l := range looks {
			if shows := c.Look(l.wall, l.latest); shows != l.shows || c.Ahead != l.ahead {
				t.Errorf("%s: look %d shows %v, %v ahead, want %v, %v", name, i, shows, c.Ahead, l.shows, l.ahead)
			}
		}
	}
}

func TestJumpsOfTheWallClockAreCounted(t *testing.T) {
	at := func(d time.Duration) leaky.Instant { return leaky.Instant(time.Hour.Microseconds()).Add(d) }
	var c Clock
	c.Look(at(0), at(0))
	c.Look(at(time.Second+4*time.Second), at(time.Second)) // too short to be reported
	if s := c.State(); s.Jumps != 0 || !s.Jumped.IsZero() || s.Ahead != -4*time.Second {
		t.Errorf("%+v", s)
	}
	c.Look(at(time.Hour), at(2*time.Second))
	c.Look(at(3*time.Second), at(3*time.Second))
	if s := c.State(); s.Jumps != 2 || !s.Jumped.Equal(at(2*time.Second).Time()) || s.Ahead != -time.Second {
		t.Errorf("%+v", s)
	}
}

// expiring returns a job that expires that long after noon.
func expiring(name string, n int, after time.Duration) queue.Job {
	j := enginetest.Job(name, n)
	j.ExpiresAt = noon.Add(after).Time()
	return j
}

// Deadlines survive reopening, whether the job was never granted, failed, or came back from the overflow; expired jobs
// stay expired.
func TestDeadlinesSurviveReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", enginetest.Deferring(6))
	b.MustAppend(
		expiring("q", 0, time.Hour), expiring("q", 1, time.Hour), expiring("q", 2, 3*time.Hour), enginetest.Job("q", 3),
	)
	got := b.MustReserve(1)
	b.MustSettle(queue.Fail, got)
	b.AppendTo("q", 90, 2)
	late := expiring("q", 4, time.Hour)
	a, err := b.Offer(context.Background(), []queue.Job{late})
	if err != nil || a[0].Outcome != queue.SetAside {
		t.Fatal(a, err)
	}
	b.cancelJob("q", 90)
	m := b.ReadmitJobs("q", queue.Readmission{Job: late, Order: 1, Ticket: a[0].Ticket, At: a[0].At})
	b.CheckOutcomes(m, readmit.Returned)
	b.reopen()
	b.Advance(2 * time.Hour)
	ids := []string{}
	for _, j := range b.MustReserve(9) {
		ids = append(ids, j.ID)
	}
	id := func(n int) string { return enginetest.Job("q", n).ID }
	if !slices.Equal(ids, []string{id(2), id(3), id(91)}) {
		t.Errorf("granted %v", ids)
	}
	b.reopen()
	for n, want := range map[int]queue.State{0: queue.Expired, 1: queue.Expired, 2: queue.Waiting, 4: queue.Expired} {
		if s := b.State("q", n); s != want {
			t.Errorf("job %d is %v, want %v", n, s, want)
		}
	}
	q := b.queues["q"]
	if i := b.MustGet("q"); i.TimedOut != 3 || i.Returned != 1 || q.overflow.readmitted != 0 || len(q.expiries) != 1 {
		t.Errorf("%+v, back %d, deadlines %v", i, q.overflow.readmitted, q.expiries)
	}
	b.MustSettle(queue.Deliver, b.MustReserve(9))
	if s := b.State("q", 2); s != queue.Delivered || len(q.expiries) != 0 {
		t.Errorf("%v, deadlines %v", s, q.expiries)
	}
}

// Deadlines are restored after reopening, stay while jobs cannot end for lack of room, and go with their jobs and
// queues.
func TestDeadlinesOfJobsThatWait(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	b.MustPut("q", "unlimited")
	b.MustPut("r", "unlimited")
	b.MustPut("plain", "unlimited")
	b.AppendTo("plain", 0, 1)
	for _, name := range []string{"q", "r"} {
		if err := b.Pause(context.Background(), name, queue.Pause{}); err != nil {
			t.Fatal(err)
		}
	}
	b.MustAppend(
		expiring("q", 0, time.Hour), expiring("q", 1, 2*time.Hour), expiring("q", 2, time.Hour),
		expiring("r", 3, time.Hour), enginetest.Job("q", 4),
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
			want = append(want, enginetest.Job("q", n).ID)
		}
		if !slices.Equal(got, want) || b.expiring.len() != queues || (q.expiringIndex >= 0) != (len(ids) > 0) {
			t.Errorf("%v, in %d queues; want %v in %d", got, b.expiring.len(), want, queues)
		}
	}
	order(2, 0, 2, 1)
	b.reopen()
	order(2, 0, 2, 1)
	b.Advance(time.Hour)
	n.all.Store(true)
	b.Number++
	r, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "c"}, Number: b.Number, Max: 9,
	})
	if n.all.Store(false); err != nil || len(r.Jobs) != 1 { // what goes to others is no worse for it
		t.Fatal(r, err)
	}
	order(2, 0, 2, 1)
	if i := b.MustGet("q"); i.TimedOut != 0 || i.Waiting != 4 {
		t.Errorf("%+v", i)
	}
	b.forgive()
	b.MustReserve(9)
	order(1, 1)
	if i := b.MustGet("q"); i.TimedOut != 2 || i.Waiting != 2 {
		t.Errorf("%+v", i)
	}
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	b.Advance(time.Hour)
	b.MustPut("q", "unlimited")
	order(0)
	b.MustReserve(9)
}
