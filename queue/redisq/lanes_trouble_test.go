package redisq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// emptied drains a queue of a manual store, and wants its counts to say that nothing is left.
func (v *env) emptied(at *leaky.Instant, delivered int64) {
	v.t.Helper()
	for range 20 {
		*at += 3_000_000
		v.settle(deliver(v.reserve("email").Jobs...)...)
	}
	if i := v.info("email"); i.Size() != 0 || i.Waiting != 0 || i.Lanes != 0 || i.Delivered != delivered {
		v.t.Errorf("size %d, %d wait in %d lanes, %d delivered; want 0, 0, 0, %d", i.Size(), i.Waiting, i.Lanes,
			i.Delivered, delivered)
	}
	if n, err := v.e.Totals(v.ctx); err != nil || n.Waiting+n.Scheduled+n.Leased != 0 {
		v.t.Errorf("%+v, %v", n, err)
	}
}

// nothingCounted wants that no lane counts a job.
func nothingCounted(t *testing.T, v *env, s *redistest.Server) {
	t.Helper()
	if n := s.Client().Exists(v.ctx, "ps{0}h1", "ps{0}k1", "ps{0}u1", "ps{0}L1", "ps{0}b1", "ps{0}i1").Val(); n != 0 {
		t.Errorf("%d keys of lanes are left of %+v", n, v.info("email"))
	}
}

// A lane whose key is not ours keeps nobody from settling what is in other lanes, and what
// was settled is counted once.
func TestPlantedLaneStopsNoSettlement(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Lanes.LaneRule = queue.LaneRule{MaxInFlight: 2} })
	v.append(inLane("email", 11, 1), inLane("email", 12, 1), inLane("email", 13, 1), inLane("email", 21, 2),
		inLane("email", 22, 2), inLane("email", 23, 2))
	granted := map[string]queue.Reservation{}
	for _, j := range v.reserve("email").Jobs {
		granted[j.ID] = j
	}
	release := deliver(granted["job-0011"])[0]
	release.Verdict = queue.Release
	batch := append(deliver(granted["job-0021"]), release, deliver(granted["job-0012"])[0])
	undo := plant(t, s, digestKey("w1:", "lane-0001"))
	out := v.settle(batch...)
	if out[0].State != queue.Delivered || !errors.Is(out[1].Err, queue.ErrCorrupt) || out[2].State != queue.Delivered {
		t.Errorf("settled %+v; want the release alone to fail", out)
	}
	undo()
	if out := v.settle(batch...); out[0].State != queue.Delivered || out[1].State != queue.Waiting ||
		out[2].State != queue.Delivered {
		t.Errorf("mended: %+v", out)
	}
	v.settle(deliver(granted["job-0022"])...)
	v.emptied(at, 6)
	nothingCounted(t, v, s)
}

// The same of jobs whose leases run out, that are cancelled, and that become due.
func TestPlantedLaneStopsNoOther(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) {
		s.Lease = unit.Duration(5 * time.Second)
		s.Lanes.LaneRule = queue.LaneRule{MaxInFlight: 1}
	})
	later := func(i, lane int) queue.Job {
		j := inLane("email", i, lane)
		j.NotBefore = at.Time().Add(6 * time.Second)
		return j
	}
	v.append(inLane("email", 11, 1), inLane("email", 12, 1), later(13, 1), inLane("email", 21, 2),
		inLane("email", 22, 2), later(23, 2), later(24, 1))
	if r := v.reserve("email").Jobs; len(r) != 2 {
		t.Fatalf("granted %+v", r)
	}
	undo := plant(t, s, digestKey("w1:", "lane-0001"))
	if _, err := v.e.Cancel(v.ctx, "email", "job-0012"); !errors.Is(err, queue.ErrCorrupt) {
		t.Errorf("cancelled where we cannot: %v", err)
	}
	if state, err := v.e.Cancel(v.ctx, "email", "job-0024"); err != nil || state != queue.Cancelled {
		t.Errorf("cancelled: %v, %v", state, err)
	}
	for range 10 {
		*at += 3_000_000
		v.settle(deliver(v.reserve("email").Jobs...)...)
	}
	undo()
	if i := v.info("email"); i.Delivered != 3 || i.Expired != 1 || i.Leased != 1 || i.Scheduled != 1 ||
		i.Waiting != 1 || i.Cancelled != 1 {
		t.Errorf("%+v", i)
	}
	v.emptied(at, 6)
	nothingCounted(t, v, s)
}

// The call that would be the first to give a queue lanes does nothing if the keys of these
// are not ours.
func TestPlantedLanesOfPlainQueue(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"L1", "b1", "i1", "h1", "u1", "k1", "O1"} {
		for what, do := range map[string]func(v *env, s *queue.Spec) (bool, error){
			"append": func(v *env, _ *queue.Spec) (bool, error) {
				a := v.append(inLane("email", 1, 1))
				return a[0].Outcome == queue.Accepted, a[0].Err
			},
			"put": func(v *env, s *queue.Spec) (bool, error) {
				s.Ordered = true
				_, err := v.e.Put(v.ctx, *s, queue.AnyRevision)
				return err == nil, err
			},
			"readmit": func(v *env, _ *queue.Spec) (bool, error) {
				m := queue.ReadmitRequest{
					Queue: "email", Holder: "h", Overflow: "o",
					Jobs: []queue.Readmission{{
						Job: inLane("email", 1, 1), Order: 1,
						At: time.UnixMicro(1_700_000_000_000_000),
					}},
				}
				r, err := v.e.Readmit(v.ctx, m)
				if err == nil && r.Outcomes[0] == readmit.Unreadable {
					err = queue.ErrCorrupt
				}
				return err == nil && r.Outcomes[0] == readmit.Returned, err
			},
		} {
			t.Run(what+" "+key, func(t *testing.T) {
				v, s, at := manual(t)
				spec := queue.Spec{Name: "email", Rate: leaky.Unlimited}
				v.put("email", leaky.Unlimited, nil)
				undo := plant(t, s, "ps{0}"+key)
				if ok, err := do(v, &spec); ok || !errors.Is(err, queue.ErrCorrupt) {
					t.Errorf("got %v, %v", ok, err)
				}
				undo()
				if i := v.info("email"); i.Size() != 0 || i.Appended != 0 || i.Spec.Ordered {
					t.Errorf("size %d, appended %d, ordered %v; want nothing", i.Size(), i.Appended, i.Spec.Ordered)
				}
				if ok, err := do(v, &spec); !ok {
					t.Errorf("mended: %v", err)
				}
				v.append(inLane("email", 2, 1))
				v.emptied(at, v.info("email").Appended)
				nothingCounted(t, v, s)
			})
		}
	}
}

// A lane that somebody took out of its place finds one when another job comes.
func TestLaneWithoutPlaceFindsOne(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, nil)
	v.append(inLane("email", 1, 1))
	s.Client().Del(v.ctx, "ps{0}L1")
	v.append(inLane("email", 2, 1))
	v.emptied(at, 2)
}

// A lease that stands although its job is not leased takes nothing from that.
func TestPlantedLease(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Retry.MaxAttempts = 1 })
	v.append(inLane("email", 1, 1), inLane("email", 2, 1))
	first := v.reserve("email").Jobs[0]
	release := deliver(first)[0]
	release.Verdict = queue.Release
	v.settle(release)
	if err := v.e.Pause(v.ctx, "email", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	s.Client().Do(v.ctx, "ZADD", "ps{0}l", 1, "1:"+first.ID)
	*at += 3_000_000 // by when what is noted of the first lease is no longer relied on
	v.reserve("email")
	if i := v.info("email"); i.Expired != 0 || i.Died != 0 || i.Size() != 2 {
		t.Errorf("%d leases ran out, %d died, size %d; want none, none, 2", i.Expired, i.Died, i.Size())
	}
	if n, _ := s.Client().ZScore(v.ctx, "ps{0}l", "1:"+first.ID).Result(); n != 0 {
		t.Error("the lease is still there")
	}
}

// What somebody removed of a job in flight, or scheduled, costs neither the job nor what
// its lane counts.
func TestRemovedFlight(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) {
		s.Lease = unit.Duration(5 * time.Second)
		s.Lanes.LaneRule = queue.LaneRule{Capacity: 10, MaxInFlight: 1}
	})
	later := inLane("email", 3, 2)
	later.NotBefore = at.Time().Add(time.Second)
	v.append(inLane("email", 1, 1), inLane("email", 2, 1), later)
	if r := v.reserve("email").Jobs; len(r) != 1 {
		t.Fatalf("granted %+v", r)
	}
	s.Client().Del(v.ctx, "ps{0}f1")
	*at += 6_000_000
	v.emptied(at, 3)
	nothingCounted(t, v, s)
}

// A repeated request is answered with what was granted of other queues, when one of them
// is broken.
func TestRepeatedReserveOfBrokenQueue(t *testing.T) {
	v, s, _ := manual(t)
	v.put("broken", leaky.Unlimited, nil)
	v.put("sound", leaky.Unlimited, nil)
	v.append(job("broken", 1), job("sound", 2))
	request := v.request("sound")
	if r, err := v.e.Reserve(v.ctx, request); err != nil || len(r.Jobs) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	plant(t, s, "ps{0}f1")
	if r, err := v.e.Reserve(v.ctx, request); err != nil || len(r.Jobs) != 1 || r.Jobs[0].ID != "job-0002" {
		t.Errorf("%+v, %v; want the job of the sound queue again", r.Jobs, err)
	}
}
