package redisq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// restarted is a store whose server died after it had granted the first of two
// jobs at 1/s, at an instant that the test moves.
func restarted(t *testing.T) (v *env, at *leaky.Instant, granted queue.Reservation) {
	t.Helper()
	s := redistest.New(t, redistest.Options{AppendFsync: "always"})
	at = new(leaky.Instant)
	*at = 1_700_000_000_000_000
	v = open(t, s.Client(), redisq.Options{Init: true, Now: func() leaky.Instant { return *at }})
	v.put("email", leaky.PerSecond(1), nil)
	v.append(job("email", 1), job("email", 2))
	granted = v.reserve("email").Jobs[0]
	restart(t, v, s)
	*at += 1000
	return v, at, granted
}

// restart kills the server and starts it again.
func restart(t *testing.T, v *env, s *redistest.Server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(v.ctx); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for v.e.Check(v.ctx) != nil {
		if time.Now().After(deadline) {
			t.Fatal("redis does not come back")
		}
	}
}

// The hold after a restart covers grants that may have been lost. A lease from
// before, given back, must not undo it.
func TestReleaseDoesNotUndoTheHold(t *testing.T) {
	for _, order := range []string{"released before the first reserve", "released after it"} {
		t.Run(order, func(t *testing.T) {
			v, at, old := restarted(t)
			release := queue.Settlement{
				Lease:   queue.Lease{Queue: "email", ID: old.ID, Fence: old.Fence},
				Verdict: queue.Release,
			}
			if order == "released before the first reserve" {
				v.settle(release)
			}
			if r := v.reserve("email"); len(r.Jobs) != 0 {
				t.Fatalf("granted right after a restart: %+v", r.Jobs)
			}
			if order == "released after it" {
				v.settle(release)
			}
			*at += 900_000
			if r := v.reserve("email"); len(r.Jobs) != 0 {
				t.Errorf("granted %v after the restart, in %v; the hold is 1.05 s", 901*time.Millisecond, r.Jobs[0].In)
			}
			*at += 200_000
			if r := v.reserve("email"); len(r.Jobs) != 1 {
				t.Errorf("still held 1.1 s after the restart: %+v, %+v", r, v.info("email"))
			}
		})
	}
}

func TestDeleteAndPutDoNotEscapeTheHold(t *testing.T) {
	v, at, _ := restarted(t)
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	v.put("email", leaky.PerSecond(1), nil)
	v.append(job("email", 3))
	*at += 900_000
	if r := v.reserve("email"); len(r.Jobs) != 0 {
		t.Errorf("granted 0.9 s after the restart: %+v", r.Jobs)
	}
}

// A store that was flushed and made anew has nothing in common with the one
// before: neither for the process that had it open, nor for its leases.
func TestFlushedAndMadeAnew(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	before := open(t, s.Client(), redisq.Options{Init: true})
	before.put("email", leaky.Unlimited, nil)
	before.append(job("email", 1))
	old := before.reserve("email").Jobs[0]
	if err := s.Client().FlushAll(before.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	after := open(t, s.Client(), redisq.Options{Init: true})
	after.put("email", leaky.Unlimited, nil)
	after.append(job("email", 1))
	present := after.reserve("email").Jobs[0]
	if present.Fence == old.Fence {
		t.Errorf("both stores granted %s", old.Fence)
	}
	if out := after.settle(deliver(old)...); !out[0].Stale {
		t.Errorf("a lease of the old store ended one of the new: %+v", out)
	}
	if err := before.e.Check(before.ctx); !errors.Is(err, queue.ErrNoStore) {
		t.Errorf("the process that had the old store open: %v, want no store", err)
	}
}

// A request that arrives after a later one grants nothing to nobody.
func TestOvertakenReserve(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("email", leaky.Unlimited, nil)
	for i := range 8 {
		v.append(job("email", i))
	}
	ask := func(number uint64) int {
		t.Helper()
		r, err := v.e.Reserve(v.ctx, queue.ReserveRequest{
			Partition: v.e.Partition("email"),
			Client:    queue.Client{ID: "c"}, Number: number, Max: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Jobs)
	}
	if a, b, c, d := ask(5), ask(6), ask(5), ask(6); a != 2 || b != 2 || c != 0 || d != 2 {
		t.Errorf("5, 6, 5, 6 were answered with %d, %d, %d, %d jobs; want 2, 2, none, the same 2", a, b, c, d)
	}
	if i := v.info("email"); i.Leased != 4 {
		t.Errorf("%d leased, want 4", i.Leased)
	}
}

// Changes of specs whose reply is lost are repeated and answer as the first did.
func TestLostReplyOfSpecs(t *testing.T) {
	v, proxy := proxied(t, false)
	swallow := func() { proxy.SwallowNext(faultproxy.Script("email")) }
	spec := queue.Spec{Name: "email", Rate: leaky.PerSecond(1)}
	swallow()
	r, err := v.e.Put(v.ctx, spec, 0)
	if err != nil || !r.Created || !r.Changed {
		t.Fatalf("create: %+v, %v", r, err)
	}
	spec.Rate = leaky.PerSecond(2)
	swallow()
	r2, err := v.e.Put(v.ctx, spec, r.Revision)
	if err != nil || r2.Created || !r2.Changed || r2.Revision == r.Revision {
		t.Errorf("change: %+v, %v", r2, err)
	}
	if _, err := v.e.Put(v.ctx, spec, r.Revision); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("another call with the old revision: %v", err)
	}
	swallow()
	if err := v.e.Pause(v.ctx, "email", queue.Pause{Reason: "a reason"}); err != nil {
		t.Errorf("pause: %v", err)
	}
	swallow()
	if err := v.e.Resume(v.ctx, "email"); err != nil {
		t.Errorf("resume: %v", err)
	}
	// Delete is not repeated by itself: asked again it may find nothing to delete.
	swallow()
	err = v.e.Delete(v.ctx, "email", queue.AnyRevision, false)
	if errors.Is(err, queue.ErrOutcomeUnknown) {
		err = v.e.Delete(v.ctx, "email", queue.AnyRevision, false)
	}
	if err != nil && !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("delete: %v", err)
	}
	if _, err := v.e.Get(v.ctx, "email"); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("after delete: %v", err)
	}
}

// A ramp goes on with its step after the server was killed.
func TestRampsSurviveARestart(t *testing.T) {
	s := redistest.New(t, redistest.Options{AppendFsync: "always"})
	at := leaky.Instant(1_700_000_000_000_000)
	v := open(t, s.Client(), redisq.Options{Init: true, Now: func() leaky.Instant { return at }})
	v.put("email", leaky.Unlimited, func(s *queue.Spec) {
		s.Limits = []queue.Limit{{
			Quota: queue.Quota{Max: 1, Per: "d"}, Ramp: queue.Ramp{Steps: queue.StepsOf(1, 2, 4), Idle: queue.RampHold},
		}}
	})
	for n := range 9 {
		v.append(job("email", n))
	}
	for _, most := range []int{1, 2, 4} {
		got := v.reserve("email").Jobs
		if len(got) != most {
			t.Errorf("%d left, want %d", len(got), most)
		}
		v.settle(deliver(got...)...)
		restart(t, v, s)
		at = at.Add(24 * time.Hour)
	}
}
