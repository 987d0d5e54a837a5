package redisq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// plant overwrites a key with one of another type and returns how to undo it.
func plant(t *testing.T, s *redistest.Server, key string) (undo func()) {
	t.Helper()
	as := "string"
	if s.Client().Type(t.Context(), key).Val() == as {
		as = "hash"
	}
	return plantAs(t, s, key, as)
}

// plantAs overwrites a key with one of a type, which is not its own, and returns how to undo it.
func plantAs(t *testing.T, s *redistest.Server, key, as string) (undo func()) {
	t.Helper()
	c, ctx := s.Client(), t.Context()
	before, err := c.Dump(ctx, key).Result()
	existed := err == nil
	c.Del(ctx, key)
	switch as {
	case "hash":
		err = c.HSet(ctx, key, "planted", "x").Err()
	case "set":
		err = c.SAdd(ctx, key, "planted").Err()
	default:
		err = c.Set(ctx, key, "planted", 0).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		c.Del(ctx, key)
		if existed {
			if err := c.Restore(ctx, key, 0, before).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// While a key of a queue is not ours that was planted before the server started, nothing of that queue moves, and when
// it is put right everything is where it was: no job lost, none twice, and the totals add up.
func TestPlantedAndRepaired(t *testing.T) {
	for _, key := range []string{"w1", "t1", "f1", "e1", "r1", "q1"} {
		t.Run(key, func(t *testing.T) {
			s := redistest.New(t, redistest.Options{AppendFsync: "always"})
			at := leaky.Instant(1_700_000_000_000_000)
			v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
			v.put("email", leaky.PerSecond(10), func(s *queue.Spec) {
				s.Lease = unit.Duration(5 * time.Second)
				s.Retry.MaxAttempts = 2
			})
			for i := range 6 {
				v.append(job("email", i))
			}
			first := v.reserve("email").Jobs
			if len(first) != 1 {
				t.Fatalf("granted %d", len(first))
			}
			undo := plant(t, s, "ps{0}"+key)
			restart(t, v, s)
			if r, err := v.e.Reserve(v.ctx, v.request("email")); err == nil && len(r.Jobs) > 0 {
				t.Fatalf("granted from a broken queue: %+v", r.Jobs)
			}
			for range 20 { // leases run out, appends and settlements come in
				at += 1_000_000
				if a, err := v.e.Append(v.ctx, []queue.Job{job("email", 100), job("email", 0)}); err == nil &&
					a[0].Outcome == queue.Accepted {
					t.Fatalf("accepted into a broken queue: %+v", a)
				}
				r, err := v.e.Reserve(v.ctx, v.request("email"))
				if err == nil && len(r.Jobs) > 0 {
					t.Fatalf("granted from a broken queue: %+v", r.Jobs)
				}
				if out, err := v.e.Settle(v.ctx, deliver(first...)); err == nil && out[0].Err == nil && !out[0].Stale {
					t.Fatalf("settled in a broken queue: %+v", out)
				}
			}
			undo()
			if a := v.append(job("email", 100)); a[0].Outcome != queue.Accepted {
				t.Errorf("put right: %+v", a[0])
			}
			seen := map[string]int{}
			for range 100 {
				at += 100_000
				r := v.reserve("email")
				for _, j := range r.Jobs {
					seen[j.ID]++
				}
				if len(r.Jobs) > 0 {
					v.settle(deliver(r.Jobs...)...)
				}
			}
			for i := range 6 {
				if id := fmt.Sprintf("job-%04d", i); seen[id] != 1 {
					t.Errorf("%s came out %d times", id, seen[id])
				}
			}
			if seen["job-0100"] != 1 {
				t.Errorf("job-0100 came out %d times", seen["job-0100"])
			}
			got, err := v.e.Totals(v.ctx)
			if want := (queue.Totals{Queues: 1}); err != nil || got != want {
				t.Errorf("totals %+v, %v; want %+v", got, err, want)
			}
			if i := v.info("email"); i.Size() != 0 || i.Delivered != 7 {
				t.Errorf("size %d, delivered %d; want 0 and 7", i.Size(), i.Delivered)
			}
		})
	}
}

// The key of one leased job is not ours: that job alone is not settled.
func TestPlantedLeasedJob(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1), job("email", 2), job("email", 3))
	jobs := v.reserve("email").Jobs
	plant(t, s, "ps{0}j1:job-0002")
	out := v.settle(deliver(jobs...)...)
	if out[0].State != queue.Delivered || !errors.Is(out[1].Err, queue.ErrCorrupt) || out[2].State != queue.Delivered {
		t.Errorf("settled %+v; want the second alone to fail", out)
	}
	if i := v.info("email"); i.Delivered != 2 || i.Leased != 1 {
		t.Errorf("delivered %d, leased %d; want 2 and 1", i.Delivered, i.Leased)
	}
}

// One queue that somebody broke neither hides the others from a list nor resists
// being deleted.
func TestPlantedQueueCanBeDeleted(t *testing.T) {
	for _, key := range []string{"w1", "t1", "f1", "e1", "r1", "d:broken"} {
		s := redistest.New(t, redistest.Options{})
		v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
		v.put("broken", leaky.Unlimited, nil)
		v.put("sound", leaky.Unlimited, nil)
		v.append(job("broken", 1), job("broken", 2))
		plant(t, s, "ps{0}"+key)
		infos, err := v.e.List(v.ctx, "", 10)
		if err != nil || len(infos) != 1 || infos[0].Spec.Name != "sound" {
			t.Errorf("%s: list %v, %v", key, infos, err)
		}
		if err := v.e.Delete(v.ctx, "broken", queue.AnyRevision, true); err != nil {
			t.Errorf("%s: delete: %v", key, err)
		}
		for more := true; more; {
			if more, err = v.e.Sweep(v.ctx, 0); err != nil {
				t.Fatalf("%s: sweep: %v", key, err)
			}
		}
		if left, _ := s.Client().Exists(v.ctx, "ps{0}w1", "ps{0}t1", "ps{0}f1", "ps{0}e1", "ps{0}r1",
			"ps{0}q1").Result(); left != 0 {
			t.Errorf("%s: %d keys of the deleted queue are left", key, left)
		}
	}
}

// While a key of the dead of a name is not ours, jobs are delivered and none dies; nothing is
// done by halves, and put right it is as if nothing had been.
func TestPlantedDead(t *testing.T) {
	for _, key := range []string{"d:email", "D:email", "R", "Y"} {
		s := redistest.New(t, redistest.Options{})
		v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
		v.put("email", leaky.Unlimited, nil)
		v.bury("email", 1)
		v.append(job("email", 2), job("email", 3))
		jobs := v.reserve("email").Jobs
		undo := plant(t, s, "ps{0}"+key)
		before := contents(t, s.Client())
		bury := []queue.Settlement{{
			Lease:   queue.Lease{Queue: "email", ID: jobs[0].ID, Fence: jobs[0].Fence},
			Verdict: queue.Bury,
		}}
		if out, err := v.e.Settle(v.ctx, bury); !errors.Is(out[0].Err, queue.ErrCorrupt) {
			t.Errorf("%s: settled %+v, %v", key, out, err)
		}
		_, err1 := v.e.Replay(v.ctx, "email", []string{"job-0001"})
		_, err2 := v.e.Forget(v.ctx, "email", []string{"job-0001"})
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("%s: %v", key, err)
			}
		}
		after := contents(t, s.Client())
		for k := range after {
			if k != "ps{0}" && after[k] != before[k] || len(after) != len(before) {
				t.Errorf("%s: changed %s from %q to %q, %d keys to %d", key, k, before[k], after[k], len(before),
					len(after))
			}
		}
		if out := v.settle(deliver(jobs[1])...); out[0].State != queue.Delivered {
			t.Errorf("%s: settled %+v", key, out)
		}
		undo()
		if out := v.settle(bury...); out[0].State != queue.Dead {
			t.Errorf("%s: put right: %+v", key, out)
		}
		if i := v.info("email"); i.Dead != 2 || i.Died != 2 || i.Delivered != 1 {
			t.Errorf("%s: put right: %+v", key, i)
		}
	}
}

// A visit that fails answers nothing, not even what it had granted; it changes nothing, and takes no handler from the
// queues behind it.
func TestPlantedNumberAnswersNothing(t *testing.T) {
	for name, lane := range map[string]string{"in one lane": "", "in lanes": "tenant"} {
		t.Run(name, func(t *testing.T) {
			v, s, at := manual(t)
			v.put("email", leaky.PerSecond(100), nil)
			v.put("other", leaky.Unlimited, nil)
			first, second := job("email", 0), job("email", 1) // which would depart when it has expired
			first.Lane, second.Lane = lane, lane
			second.ExpiresAt = at.Time().Add(2*time.Second + 5*time.Millisecond)
			v.append(first, second)
			*at += 2_000_000
			v.append(job("other", 2))
			if err := s.Client().HSet(t.Context(), "ps{0}q1", "expired", "planted").Err(); err != nil {
				t.Fatal(err)
			}
			r := v.request("email")
			r.Max = 2
			got, err := v.e.Reserve(v.ctx, r)
			if err != nil || len(got.Jobs) != 1 || got.Jobs[0].Queue != "other" {
				t.Fatalf("%+v, %v", got, err)
			}
			if o := v.settle(deliver(got.Jobs...)...)[0]; o.Stale || o.Err != nil {
				t.Errorf("%+v", o)
			}
			s.Client().HDel(t.Context(), "ps{0}q1", "expired")
			if i := v.info("email"); i.Waiting != 2 || i.Size() != 2 {
				t.Errorf("after the failure: %+v", i)
			}
			*at += 2_000_000
			if got := v.reserve("email").Jobs; len(got) != 1 || got[0].ID != first.ID {
				t.Errorf("put right: %+v", got)
			}
			if i := v.info("email"); i.Leased != 1 || i.Size() != 1 || i.TimedOut != 1 {
				t.Errorf("put right: %+v", i)
			}
		})
	}
}
