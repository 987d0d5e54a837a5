package redisq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// inAnotherRun makes what is stored of a manual store that of an earlier run of the
// server, and lets the present one begin.
func inAnotherRun(v *env, rate leaky.Rate, restart func()) {
	v.t.Helper()
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Lanes.LaneRule = queue.LaneRule{Rate: rate} })
	restart()
	v.reserve("email")
}

func departures(jobs []queue.Reservation) string {
	text := ""
	for _, j := range jobs {
		text += fmt.Sprintf("%s in %v ", j.ID, j.In)
	}
	return text
}

// Lanes are held, after a restart, for what had been seen by then: a costly job that comes
// hours later does not put all the others to sleep.
func TestCostlyJobHoldsNoOtherLane(t *testing.T) {
	v, s, at := manual(t)
	restart := func() {
		plantValue(t, s, "ps{0}", "run", "00000000")
		plantValue(t, s, "ps{0}q1", "epoch", "00000000")
	}
	inAnotherRun(v, leaky.RateOf(1, 60_000_000), restart)
	v.append(job("email", 0)) // that the queue is visited, and held
	v.settle(deliver(v.reserve("email").Jobs...)...)
	*at += 2 * 3600 * 1_000_000
	costly := inLane("email", 2, 2)
	costly.Cost = 1000
	a := v.append(inLane("email", 1, 1), costly, inLane("email", 3, 3))
	r := v.reserve("email")
	v.settle(deliver(r.Jobs...)...)
	if got, want := departures(r.Jobs), "job-0003 in 0s job-0001 in 0s "; got != want {
		t.Errorf("2 h after the restart: got %q, want %q", got, want)
	}
	for i := range a {
		if got := a[i].ETA.At.Sub(at.Time()); got != 0 {
			t.Errorf("expected %s in %v, want at once", a[i].ID, got)
		}
	}
	// One as costly may have left its own lane just before the restart.
	*at += (998*60 - 2*3600) * 1_000_000
	if got := departures(v.reserve("email").Jobs); got != "" {
		t.Errorf("got %q, too early", got)
	}
	*at += 2*60*1_000_000 + 50_000
	if got, want := departures(v.reserve("email").Jobs), "job-0002 in 0s "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Before the first job of a lane that is costlier than any that was known, what may have
// been lost of one as costly has passed.
func TestLaneIsHeldForItsCostliestJob(t *testing.T) {
	v, s, at := manual(t)
	begun := *at
	inAnotherRun(v, leaky.PerSecond(1), func() { plantValue(t, s, "ps{0}", "run", "00000000") })
	costly := inLane("email", 2, 1)
	costly.Cost = 10
	v.append(inLane("email", 1, 1), costly, inLane("email", 3, 1))
	got := ""
	for range 3 {
		for {
			r := v.reserve("email")
			v.settle(deliver(r.Jobs...)...)
			for _, j := range r.Jobs {
				got += fmt.Sprintf("%s at %v ", j.ID, at.Sub(begun)+j.In)
			}
			if len(r.Jobs) > 0 {
				break
			}
			*at += 50_000
			if at.Sub(begun) > time.Minute {
				t.Fatalf("only %s came out", got)
			}
		}
	}
	// The first is as costly as any that was known, and one as the second may have left at the
	// horizon of the run before.
	if want := "job-0001 at 1.05s job-0002 at 10.05s job-0003 at 20.05s "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A bucket that delays nothing any more is as none, whether or not its key has gone: it
// does so by the server's clock.
func TestEmptyBucketOfLaneIsNone(t *testing.T) {
	etas := map[bool]time.Duration{}
	for _, gone := range []bool{false, true} {
		v, s, at := manual(t)
		inAnotherRun(v, leaky.RateOf(1, 60_000_000), func() { plantValue(t, s, "ps{0}", "run", "00000000") })
		v.append(inLane("email", 1, 1))
		*at += 3600 * 1_000_000
		v.settle(deliver(v.reserve("email").Jobs...)...)
		*at += 61_000_000
		key := digestKey("v1:", "lane-0001")
		if gone {
			s.Client().Del(v.ctx, key)
		} else if n, _ := s.Client().Exists(v.ctx, key).Result(); n != 1 {
			t.Fatal("the bucket was not kept")
		}
		v.put("email", leaky.Unlimited, func(s *queue.Spec) {
			s.Lanes.LaneRule = queue.LaneRule{Rate: leaky.RateOf(1, 86400_000_000)}
		})
		etas[gone] = v.append(inLane("email", 2, 1))[0].ETA.At.Sub(at.Time())
	}
	if etas[true] != etas[false] {
		t.Errorf("expected in %v with the key of an empty bucket, in %v without", etas[false], etas[true])
	}
}

func digestKey(prefix, lane string) string {
	d := queue.DigestLane(lane)
	return "ps{0}" + prefix + string(d[:])
}
