package boltq

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

func onUnknown(s string) func(*queue.Spec) {
	return func(p *queue.Spec) { p.OnUnknown = s }
}

func (b *bench) job(id string) queue.JobInfo {
	b.Helper()
	j, err := b.Job(context.Background(), "q", id)
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// killed opens the current file, as after kill -9.
func (b *bench) killed() {
	b.Helper()
	path := filepath.Join(b.TempDir(), "store")
	if err := b.db.(boltFile).View(func(tx *bbolt.Tx) error { return tx.CopyFile(path, 0o600) }); err != nil {
		b.Fatal(err)
	}
	if err := b.Close(); err != nil {
		b.Fatal(err)
	}
	b.open(path)
}

// A job that was leased when the process died may have been sent: its queue's on_unknown decides.
func TestLeasesOnFile(t *testing.T) {
	const reason = "the lease ran out; it may have been sent"
	again := queue.Scheduled // as it failed before
	for on, want := range map[string]queue.State{
		queue.UnknownHold: queue.Held, queue.UnknownDead: queue.Dead, queue.UnknownRetry: again, "": again,
	} {
		b := start(t, Options{})
		b.MustPut("q", "unlimited", onUnknown(on), func(s *queue.Spec) { s.Ordered = true; s.Retry.MaxAttempts = 9 })
		b.AppendTo("q", 0, 6)
		got := b.MustReserve(1)
		b.MustSettle(queue.Release, got)
		got = b.MustReserve(1)
		b.MustSettle(queue.Deliver, got)
		failed := b.MustReserve(1)
		b.MustSettle(queue.Fail, failed)
		b.Advance(time.Minute)
		leased := b.MustReserve(9)
		b.Advance(time.Second)
		departed := b.job(leased[0].ID).DueAt
		b.killed()
		j := b.job(leased[0].ID)
		if want == again {
			if j.State != want || j.Attempts != 1 || b.MustGet("q").Expired != 0 {
				t.Errorf("%q: %+v", on, j)
			}
			continue
		}
		if j.State != want || j.Attempts != 2 || j.Reason != reason || len(j.Timeline) != 2 ||
			!j.Timeline[1].At.Equal(departed) || j.Timeline[1].Drainer == "" {
			t.Errorf("%q: %+v", on, j)
		}
		if want == queue.Held && (!j.HeldAt.Equal(b.Now().Time()) || j.Timeline[1].Outcome != queue.AttemptUnknown) {
			t.Errorf("held since %v: %+v", j.HeldAt, j)
		}
		if s := b.MustSettle(queue.Deliver, leased)[0]; !s.Stale {
			t.Errorf("%q: a lease of the process before: %+v", on, s)
		}
		before := b.MustGet("q")
		if before.Expired != 1 || before.Leased != 0 || len(before.Errors) == 0 || before.Errors[0].Reason != reason ||
			before.Waiting != 4 {
			t.Errorf("%q: %+v", on, before)
		}
		b.killed() // it is taken back once
		if after := b.MustGet("q"); after.Expired != 1 || after.Held != before.Held || after.Dead != before.Dead ||
			b.job(leased[0].ID).Attempts != 2 {
			t.Errorf("%q: opened again: %+v", on, after)
		}
		if next := b.MustReserve(1); len(next) != 1 || next[0].ID == leased[0].ID {
			t.Errorf("%q: granted %+v", on, next) // the lane continues
		}
	}
}

// The end of a lease on file is on file too.
func TestEndsOfLeasesOnFile(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", onUnknown(queue.UnknownHold))
	b.AppendTo("q", 0, 6)
	got := b.MustReserve(6)
	b.MustSettle(queue.Deliver, got[:1])
	b.MustSettle(queue.Bury, got[1:2])
	b.MustSettle(queue.Fail, got[2:3])
	b.MustSettle(queue.Release, got[3:4])
	b.MustSettle(queue.Hold, got[4:5])
	b.MustSettle(queue.Release, b.MustReserve(1)) // granted again meanwhile
	if _, err := b.Decide(context.Background(), "q", []string{got[4].ID}, queue.Release, ""); err != nil {
		t.Fatal(err)
	}
	want := map[int]queue.State{
		0: queue.Delivered, 1: queue.Dead, 2: queue.Scheduled, 3: queue.Waiting, 4: queue.Waiting, 5: queue.Leased,
	}
	for range 2 {
		for i, state := range want {
			if j := b.job(got[i].ID); j.State != state {
				t.Errorf("%d is %v, want %v", i, j.State, state)
			}
		}
		b.killed()
		want[5] = queue.Held
	}
	if i := b.MustGet("q"); i.Held != 1 || i.Waiting != 2 || i.Scheduled != 1 || i.Delivered != 1 || i.Dead != 1 ||
		i.Expired != 1 {
		t.Errorf("%+v", i)
	}
	if n := b.records(leasesTable); n != 4 {
		t.Errorf("%d leases on file", n)
	}
}

const leasesACall = 100 // as queue/machine takes them back

// All leases on file are taken back on opening, even if there are more than one call takes back.
func TestManyLeasesOnFile(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", onUnknown(queue.UnknownHold))
	b.AppendTo("q", 0, 2*leasesACall+7)
	got := len(b.MustReserve(queue.MaxReserve))
	b.killed()
	if i := b.MustGet("q"); i.Held != int64(got) || i.Held != 2*leasesACall+7 || i.Leased != 0 {
		t.Errorf("%+v", i)
	}
}

// Held jobs, and decisions about them, outlive the process.
func TestHeldSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.AppendTo("q", 0, 5)
	got := b.MustReserve(4)
	held := b.MustSettle(queue.Hold, got)
	for i, v := range []queue.Verdict{queue.Deliver, queue.Bury, queue.Release} {
		if _, err := b.Decide(ctx, "q", []string{got[i].ID}, v, "a person knows"); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() (all []queue.JobInfo) {
		for _, v := range got {
			j := b.job(v.ID)
			j.ETA = queue.ETA{}
			all = append(all, j)
		}
		return all
	}
	before, info := shown(), b.MustGet("q")
	b.killed()
	if after := shown(); !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if i := b.MustGet("q"); i.Held != 1 || i.Size() != info.Size() || i.Delivered != 1 || i.Died != 1 || i.Waiting != 2 {
		t.Errorf("%+v", i)
	}
	if again := b.MustSettle(queue.Hold, got); !reflect.DeepEqual(again, held) {
		t.Errorf("settled again: %+v, want %+v", again, held)
	}
	if list, err := b.ListJobs(ctx, queue.ListRequest{Queue: "q", State: queue.Held, Limit: 9}); err != nil ||
		len(list.Jobs) != 1 || list.Jobs[0].ID != got[3].ID {
		t.Errorf("%+v, %v", list, err)
	}
}

// Nothing is done in memory that is not on file.
func TestHeldChangesCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited", onUnknown(queue.UnknownHold))
	b.AppendTo("q", 0, 4)
	request := queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1}
	n.all.Store(true)
	if _, err := b.Reserve(ctx, request); !errors.Is(err, queue.ErrStoreFull) || b.MustGet("q").Waiting != 4 {
		t.Errorf("grant: %v, %+v", err, b.MustGet("q"))
	}
	n.all.Store(false)
	b.forgive()
	r, err := b.Reserve(ctx, request)
	if err != nil || len(r.Jobs) != 1 || r.Jobs[0].Attempt != 1 {
		t.Fatalf("the same request: %+v, %v", r, err)
	}
	b.Number = 1
	n.refuse(b, "release", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Release, r.Jobs))) })
	n.refuse(b, "hold", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Hold, r.Jobs))) })
	b.MustSettle(queue.Hold, r.Jobs)
	for _, v := range []queue.Verdict{queue.Deliver, queue.Bury, queue.Release} {
		n.refuse(b, "decide", func() error { return second(b.Decide(ctx, "q", []string{r.Jobs[0].ID}, v, "")) })
	}
	if s, err := b.Decide(ctx, "q", []string{r.Jobs[0].ID}, queue.Deliver, ""); err != nil || s[0] != queue.Delivered {
		t.Errorf("%v, %v", s, err)
	}

	leased := b.MustReserve(1)
	b.Advance(time.Minute) // the lease runs out, and cannot be taken back
	n.all.Store(true)
	request.Number, b.Number = b.Number+1, b.Number+1
	out, err := b.Reserve(ctx, request)
	n.all.Store(false)
	b.forgive()
	if i := b.MustGet("q"); len(out.Expired) != 0 || i.Held != 0 {
		t.Fatalf("%+v, %v, %+v", out, err, i)
	}
	b.MustReserve(1)
	if j := b.job(leased[0].ID); j.State != queue.Held || j.Attempts != 1 {
		t.Errorf("%+v", j)
	}
}
