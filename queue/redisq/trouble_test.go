package redisq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// FLUSHALL makes every operation fail and the readiness with them. Nothing
// begins anew by itself.
func TestFlushed(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1))
	if err := s.Client().FlushAll(v.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func() error{
		"append":  func() error { _, err := v.e.Append(v.ctx, []queue.Job{job("email", 2)}); return err },
		"reserve": func() error { _, err := v.e.Reserve(v.ctx, v.request("email")); return err },
		"settle": func() error {
			_, err := v.e.Settle(v.ctx, []queue.Settlement{{Lease: queue.Lease{
				Queue: "email", ID: "x",
				Fence: "00000000-1",
			}, Verdict: queue.Deliver}})
			return err
		},
		"extend": func() error {
			_, err := v.e.Extend(v.ctx, []queue.Lease{{Queue: "email", ID: "x", Fence: "00000000-1"}})
			return err
		},
		"put":      func() error { _, err := v.e.Put(v.ctx, queue.Spec{Name: "new"}, 0); return err },
		"get":      func() error { _, err := v.e.Get(v.ctx, "email"); return err },
		"list":     func() error { _, err := v.e.List(v.ctx, "", 10); return err },
		"find":     func() error { _, err := v.e.FindJobs(v.ctx, queue.FindRequest{ID: "a", Limit: 1}); return err },
		"delete":   func() error { return v.e.Delete(v.ctx, "email", queue.AnyRevision, true) },
		"pause":    func() error { return v.e.Pause(v.ctx, "email", queue.Pause{}) },
		"totals":   func() error { _, err := v.e.Totals(v.ctx); return err },
		"job":      func() error { _, err := v.e.Job(v.ctx, "email", "job-0001"); return err },
		"check":    func() error { return v.e.Check(v.ctx) },
		"drainers": func() error { _, err := v.e.Drainers(v.ctx); return err },
	} {
		if err := op(); !errors.Is(err, queue.ErrNoStore) {
			t.Errorf("%s: %v, want no store", name, err)
		}
	}
	if keys, _ := s.Client().Keys(v.ctx, "*").Result(); len(keys) > 0 {
		t.Errorf("written to a flushed server: %v", keys)
	}
}

func TestScriptsFlushed(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("email", leaky.Unlimited, nil)
	for i := range 5 {
		s.Client().ScriptFlush(v.ctx)
		v.append(job("email", i))
		s.Client().ScriptFlush(v.ctx)
		if seen := v.drain("email", 1); len(seen) != 1 {
			t.Errorf("round %d: %v", i, seen)
		}
	}
}

// Out of memory, nothing more comes in and everything goes on coming out.
func TestOutOfMemory(t *testing.T) {
	s := redistest.New(t, redistest.Options{MaxMemory: "8mb"})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("email", leaky.Unlimited, func(s *queue.Spec) {
		s.Capacity, s.MaxBytes, s.Retention.Max = 1_000_000,
			queue.MostMaxBytes, 1
	})
	accepted := 0
	var refused error
	for i := 0; refused == nil; i++ {
		j := job("email", i)
		j.Payload = make([]byte, 10_000)
		a, err := v.e.Append(v.ctx, []queue.Job{j})
		if err != nil {
			refused = err
		} else if a[0].Outcome != queue.Accepted {
			t.Fatalf("%+v", a)
		} else {
			accepted++
		}
	}
	if !errors.Is(refused, queue.ErrStoreFull) {
		t.Fatalf("refused with %v, want store full", refused)
	}
	if i := v.info("email"); int(i.Waiting) != accepted {
		t.Errorf("%d accepted, %d waiting", accepted, i.Waiting)
	}
	if seen := v.drain("email", accepted); len(seen) != accepted {
		t.Errorf("%d accepted, %d came out", accepted, len(seen))
	}
	if a := v.append(job("email", -1)); a[0].Outcome != queue.Accepted {
		t.Errorf("with memory free again: %+v", a)
	}
}

// With appendfsync always a restart loses nothing that was acknowledged, and the
// pace holds across it. Without, the store is gone, and says so.
func TestRestart(t *testing.T) {
	t.Run("aof always", func(t *testing.T) {
		s := redistest.New(t, redistest.Options{AppendFsync: "always"})
		v := open(t, s.Client(), redisq.Options{Init: true})
		v.put("email", leaky.PerSecond(5), nil)
		for i := range 10 {
			v.append(job("email", i))
		}
		r := v.reserve("email")
		if len(r.Jobs) != 1 {
			t.Fatalf("%d granted, want 1", len(r.Jobs))
		}
		granted := time.Now().Add(r.Jobs[0].In)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(v.ctx); err != nil {
			t.Fatal(err)
		}
		var next queue.Reserved
		for len(next.Jobs) == 0 {
			var err error
			next, err = v.e.Reserve(v.ctx, v.request("email"))
			if err != nil && !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown) {
				t.Fatal(err)
			}
		}
		// Redis' clock is this machine's, so instants of two replies compare to within a round trip.
		if gap := time.Now().Add(next.Jobs[0].In).Sub(granted); gap < 190*time.Millisecond {
			t.Errorf("the first departure after the restart is %v after the last before it, want 200 ms", gap)
		}
		if next.Jobs[0].Fence[:8] == r.Jobs[0].Fence[:8] {
			t.Errorf("fences %s and %s have one epoch", next.Jobs[0].Fence, r.Jobs[0].Fence)
		}
		// The lease from before still stands: AOF always kept it.
		if got := v.settle(deliver(r.Jobs[0], next.Jobs[0])...); got[0].Stale || got[1].Stale {
			t.Errorf("settle: %+v", got)
		}
		if i := v.info("email"); i.Waiting != 8 || i.Delivered != 2 {
			t.Errorf("waiting %d, delivered %d; want 8, 2", i.Waiting, i.Delivered)
		}
	})
	t.Run("no persistence", func(t *testing.T) {
		s := redistest.New(t, redistest.Options{})
		v := open(t, s.Client(), redisq.Options{Init: true})
		v.put("email", leaky.PerSecond(5), nil)
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(v.ctx); err != nil {
			t.Fatal(err)
		}
		if err := v.e.Check(v.ctx); !errors.Is(err, queue.ErrNoStore) {
			t.Errorf("check: %v, want no store", err)
		}
		if _, err := v.e.Append(v.ctx, []queue.Job{job("email", 1)}); !errors.Is(err, queue.ErrNoStore) {
			t.Errorf("append: %v, want no store", err)
		}
	})
}

// The engine's time never runs back, and a jump forward earns no credit.
func TestClockJumps(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	c := s.Client()
	var at leaky.Instant = 1_700_000_000_000_000
	v := open(t, c, redisq.Options{Init: true, Now: func() leaky.Instant { return at }})
	v.put("email", leaky.PerSecond(10), nil)
	for i := range 20 {
		v.append(job("email", i))
	}
	const hour = leaky.Instant(3600 * 1e6)
	var departures []leaky.Instant
	engine := at // the engine's time as it must be
	step := func(jump, pass leaky.Instant) {
		at += jump + pass
		if jump > 0 {
			engine += jump
		}
		engine += pass
		for _, j := range v.reserve("email").Jobs {
			departures = append(departures, engine+leaky.Instant(j.In.Microseconds()))
		}
	}
	for _, jump := range []leaky.Instant{0, hour, -hour, -hour, 0, hour, -2 * hour} {
		step(jump, 0)
		for range 2 {
			step(0, 100_000)
		}
	}
	for i := 1; i < len(departures); i++ {
		if gap := departures[i] - departures[i-1]; gap < 100_000 {
			t.Errorf("departure %d is %d us after the one before, want 100000 or more", i, gap)
		}
	}
	if len(departures) < 10 {
		t.Errorf("only %d departures", len(departures))
	}
}

// A key of the wrong type harms its own queue only, and half-applies nothing.
func TestWrongTypes(t *testing.T) {
	for _, key := range []string{"q1", "w1", "t1", "f1", "j1:job-0100", "e1", "d1"} {
		t.Run(key, func(t *testing.T) {
			s := redistest.New(t, redistest.Options{})
			c := s.Client()
			v := open(t, c, redisq.Options{Init: true, Partitions: 1})
			v.put("broken", leaky.Unlimited, nil)
			v.put("sound", leaky.Unlimited, nil)
			v.append(job("broken", 1), job("broken", 2))
			full := "ps{0}" + key
			c.Del(v.ctx, full)
			if err := c.HSet(v.ctx, full, "planted", "x").Err(); err != nil {
				t.Fatal(err)
			}
			if key == "q1" || key == "f1" { // hashes: plant a string
				c.Del(v.ctx, full)
				c.Set(v.ctx, full, "planted", 0)
			}
			a, err := v.e.Append(v.ctx, []queue.Job{job("broken", 100), job("sound", 1), job("sound", 2)})
			if err != nil {
				t.Fatal(err)
			}
			if a[1].Outcome != queue.Accepted || a[2].Outcome != queue.Accepted {
				t.Errorf("the sound queue: %+v", a[1:])
			}
			if a[0].Outcome == queue.Failed {
				if !errors.Is(a[0].Err, queue.ErrCorrupt) {
					t.Errorf("error %v, want corrupt", a[0].Err)
				}
				if n, _ := c.Exists(v.ctx, "ps{0}j1:job-0100").Result(); n != 0 && !strings.HasPrefix(key, "j") {
					t.Error("a job that was not accepted is stored")
				}
			} else if a[0].Outcome != queue.Accepted {
				t.Errorf("the broken queue: %+v", a[0])
			}
			// The sound queue drains whatever the broken one does.
			got := map[string]bool{}
			for range 5 {
				r, err := v.e.Reserve(v.ctx, v.request("sound"))
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range r.Jobs {
					got[j.Queue+"/"+j.ID] = true
				}
				out, err := v.e.Settle(v.ctx, deliver(r.Jobs...))
				if err != nil {
					t.Fatal(err)
				}
				for i, o := range out {
					if r.Jobs[i].Queue == "sound" && (o.Err != nil || o.Stale) {
						t.Errorf("settling the sound queue: %+v", o)
					}
				}
			}
			if !got["sound/job-0001"] || !got["sound/job-0002"] {
				t.Errorf("the sound queue did not drain: %v", got)
			}
		})
	}
}

// A master that dies under its Sentinels is replaced, and the work goes on.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.SentinelOptions{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("email", leaky.Unlimited, nil)
	for i := range 20 {
		v.append(job("email", i))
	}
	master, err := s.Master(v.ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Replication is asynchronous; what this test is about begins once it caught up.
	if n, err := master.Client().Wait(v.ctx, 1, 5*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("the replica did not catch up: %d, %v", n, err)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AwaitFailover(v.ctx, master); err != nil {
		t.Fatal(err)
	}
	for {
		if err := v.e.Check(v.ctx); err == nil {
			break
		} else if !errors.Is(err, queue.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if seen := v.drain("email", 20); len(seen) != 20 {
		t.Errorf("%d came out, want 20", len(seen))
	}
}
