package redisq_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// laneRule gives every lane of a spec a rate and one job in flight.
func laneRule(rate int64) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Capacity = 100_000
		s.Lanes.LaneRule = queue.LaneRule{Rate: leaky.PerSecond(rate), Capacity: 10_000, MaxInFlight: 1}
		s.Lanes.Overrides = map[string]queue.LaneRule{"lane-0000": {}}
	}
}

func inLane(queueName string, i, lane int) queue.Job {
	j := job(queueName, i)
	j.Lane = fmt.Sprintf("lane-%04d", lane)
	return j
}

// keys lists what the store of one partition has, but for its jobs.
func keys(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	all, err := s.Client().Keys(t.Context(), "ps{0}*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(k string) bool { return strings.HasPrefix(k, "ps{0}j") })
	slices.Sort(all)
	return all
}

// Lanes that were touched and are empty leave nothing behind, not even their
// buckets, once these delay nothing.
func TestLanesLeaveNothing(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, laneRule(1000))
	v.append(job("email", 9999))
	v.drain("email", 1)
	before := keys(t, s)
	for i := range 500 {
		v.append(inLane("email", 2*i, i), inLane("email", 2*i+1, i))
	}
	if i := v.info("email"); i.Lanes != 500 || i.Waiting != 1000 {
		t.Errorf("%d wait in %d lanes; want 1000 in 500", i.Waiting, i.Lanes)
	}
	v.drain("email", 1000)
	deadline := time.Now().Add(10 * time.Second)
	for !slices.Equal(keys(t, s), before) { // the buckets of the last ones go by themselves
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q; before: %q", keys(t, s), before)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if i := v.info("email"); i.Lanes != 0 || i.Size() != 0 || i.Delivered != 1001 {
		t.Errorf("%d lanes, size %d, %d delivered; want 0, 0, 1001", i.Lanes, i.Size(), i.Delivered)
	}
}

// A deleted queue's lanes are freed, a bounded number of keys at a time, whatever
// they were doing.
func TestSweepFreesLanes(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	at := leaky.Instant(1_700_000_000_000_000)
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	v.put("email", leaky.Unlimited, laneRule(1))
	empty := keys(t, s)
	var jobs []queue.Job
	for i := range 2000 {
		jobs = append(jobs, inLane("email", i, i%1100))
		if i%100 == 0 {
			jobs[i].NotBefore = at.Time().Add(time.Hour)
		}
	}
	v.append(jobs...)
	v.append(job("email", 3000), inLane("email", 3001, 1))
	v.reserve("email")
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	last, _ := s.Client().DBSize(v.ctx).Result()
	for more := true; more; {
		var err error
		if more, err = v.e.Sweep(v.ctx, 0); err != nil {
			t.Fatal(err)
		}
		size, _ := s.Client().DBSize(v.ctx).Result()
		if last-size > 1500 {
			t.Errorf("one sweep freed %d keys", last-size)
		}
		last = size
	}
	// What was done to a queue stays recorded when it is gone.
	left := slices.DeleteFunc(keys(t, s), func(k string) bool {
		return slices.Contains(empty, k) || strings.Contains("ps{0}c ps{0}C ps{0}k ps{0}x ps{0}X ps{0}G", k) ||
			strings.HasPrefix(k, "ps{0}g:")
	})
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if jobs, _ := s.Client().Keys(v.ctx, "ps{0}j*").Result(); len(jobs) > 0 {
		t.Errorf("%d jobs are left", len(jobs))
	}
	if n, err := v.e.Totals(v.ctx); err != nil || n.Waiting+n.Scheduled+n.Leased != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

// While a key of its lanes is not ours nothing of that queue moves, or of that lane;
// other queues do, and the broken one can be deleted.
func TestPlantedLanes(t *testing.T) {
	t.Parallel()
	digest := queue.DigestLane("lane-0001")
	own := string(digest[:])
	for _, key := range []string{"L1", "b1", "i1", "h1", "k1", "O1", "w1:" + own, "v1:" + own} {
		t.Run(strings.TrimSuffix(key, own), func(t *testing.T) {
			s := redistest.New(t, redistest.Options{})
			at := leaky.Instant(1_700_000_000_000_000)
			v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
			v.put("broken", leaky.Unlimited, laneRule(1))
			v.put("sound", leaky.Unlimited, nil)
			v.append(inLane("broken", 1, 1), inLane("broken", 2, 1), inLane("broken", 3, 2), job("sound", 1),
				job("sound", 2))
			undo := plant(t, s, "ps{0}"+key)
			for range 10 {
				v.append(inLane("broken", 4, 1))
				for _, j := range v.reserve("sound").Jobs {
					v.settle(deliver(j)...)
				}
				at += 3_000_000
			}
			if i := v.info("sound"); i.Delivered != 2 {
				t.Errorf("the other queue delivered %d, want 2", i.Delivered)
			}
			undo()
			for range 20 {
				at += 3_000_000
				for _, j := range v.reserve("broken").Jobs {
					v.settle(deliver(j)...)
				}
			}
			i := v.info("broken")
			if i.Size() != 0 || i.Delivered != i.Appended || i.Delivered < 3 {
				t.Errorf("mended: size %d, %d appended, %d delivered; want all of them delivered", i.Size(), i.Appended,
					i.Delivered)
			}
			plant(t, s, "ps{0}"+key)
			if err := v.e.Delete(v.ctx, "broken", queue.AnyRevision, true); err != nil {
				t.Errorf("delete: %v", err)
			}
			for more := true; more; {
				var err error
				if more, err = v.e.Sweep(v.ctx, 0); err != nil {
					t.Fatalf("sweep: %v", err)
				}
			}
		})
	}
}

// A call whose reply was lost counts a lane's jobs once.
func TestLostReplyOfLanes(t *testing.T) {
	t.Parallel()
	v, proxy := proxied(t, true)
	v.put("email", leaky.Unlimited, laneRule(1000))
	j := inLane("email", 1, 1)
	j.Priority = 3
	proxy.SwallowNext(faultproxy.Script(j.ID))
	later := inLane("email", 2, 1)
	later.NotBefore = time.Now().Add(time.Hour)
	a := v.append(j, later)
	if a[0].Outcome != queue.Accepted || a[0].Position != 1 || a[1].Outcome != queue.Accepted ||
		a[1].State != queue.Scheduled {
		t.Fatalf("append: %+v", a)
	}
	request := v.request("email")
	proxy.SwallowNext(faultproxy.Script("client-under-test"))
	r, err := v.e.Reserve(v.ctx, request)
	for tries := 0; err != nil && tries < 5; tries++ {
		r, err = v.e.Reserve(v.ctx, request)
	}
	if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ID != j.ID || r.Jobs[0].Lane != j.Lane || r.Jobs[0].Priority != 3 {
		t.Fatalf("reserve: %+v, %v", r.Jobs, err)
	}
	proxy.SwallowNext(faultproxy.Script(j.ID))
	v.settle(deliver(r.Jobs...)...)
	if i := v.info("email"); i.Appended != 2 || i.Delivered != 1 || i.Scheduled != 1 || i.Size() != 1 {
		t.Errorf("%+v", i)
	}
	// One in flight is allowed: a count that stood too high would keep the next from leaving.
	v.append(inLane("email", 3, 1))
	v.drain("email", 1)
}
