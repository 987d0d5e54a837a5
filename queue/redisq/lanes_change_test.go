package redisq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// manual is a store of one partition on a server, by a clock that the test moves.
func manual(t *testing.T) (v *env, s *redistest.Server, at *leaky.Instant) {
	t.Helper()
	s = redistest.New(t, redistest.Options{})
	at = new(leaky.Instant)
	*at = 1_700_000_000_000_000
	return open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return *at }}), s,
		at
}

// A rule that changes while lanes are still looked at for an earlier change moves none of
// them about: there may be a million, and the server would stand still. None is forgotten.
func TestChangedRuleMovesNoLanes(t *testing.T) {
	v, s, at := manual(t)
	put := func(n int64) {
		v.put("email", leaky.Unlimited, func(s *queue.Spec) {
			s.Lanes.LaneRule = queue.LaneRule{Rate: leaky.RateOf(n,
				86400_000_000)}
		})
	}
	const lanes = 350
	put(1)
	var jobs []queue.Job
	for i := range lanes {
		jobs = append(jobs, inLane("email", 2*i, i), inLane("email", 2*i+1, i))
	}
	v.append(jobs...)
	left := 0
	visit := func(times int) {
		for range times {
			r := v.reserve("email").Jobs
			left += len(r)
			v.settle(deliver(r...)...)
			*at += 1000
		}
	}
	visit(12)
	places := func() string {
		pending, err := s.Client().ZCard(t.Context(), "ps{0}i1").Result()
		if err != nil {
			t.Fatal(err)
		}
		rest, err := s.Client().ZCard(t.Context(), "ps{0}b1").Result()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d rest, %d are to be looked at", rest, pending)
	}
	want := func(want string) {
		t.Helper()
		if got := places(); got != want || left != lanes {
			t.Errorf("%d departed, %s; want %d, %s", left, got, lanes, want)
		}
	}
	want("350 rest, 0 are to be looked at")
	put(2)
	want("0 rest, 350 are to be looked at")
	visit(1)
	want("100 rest, 250 are to be looked at")
	put(3)
	want("100 rest, 250 are to be looked at")
	visit(2)
	want("300 rest, 50 are to be looked at")
	visit(1) // the last of the first change; those that rested meanwhile follow
	want("50 rest, 300 are to be looked at")
	visit(3)
	want("350 rest, 0 are to be looked at")
	put(4)
	visit(1)
	v.put("email", leaky.Unlimited, nil)
	visit(12)
	if left != 2*lanes {
		t.Errorf("%d departed when the rule was lifted, want %d", left, 2*lanes)
	}
}

// While lanes are still to be looked at for a changed rule, the oldest job is of the lane
// that is first of them and of those that rest by the new one.
func TestOldestWhileRulesChange(t *testing.T) {
	v, s, at := manual(t)
	put := func(n int64) {
		v.put("email", leaky.Unlimited, func(s *queue.Spec) {
			s.Lanes.LaneRule = queue.LaneRule{Rate: leaky.PerSecond(n)}
		})
	}
	put(1)
	for i := range 2 {
		v.append(inLane("email", 2*i, i), inLane("email", 2*i+1, i))
		*at += 1000
	}
	v.settle(deliver(v.reserve("email").Jobs...)...)
	appended := map[string]time.Time{
		"lane-0000": at.Add(-2 * time.Millisecond).Time(),
		"lane-0001": at.Add(-time.Millisecond).Time(),
	}
	v.reserve("email")
	put(2)
	for _, tt := range []struct {
		pending, rests string  // lanes
		at             float64 // how much later than the other the pending one has rested
		want           string
	}{
		{"lane-0000", "lane-0001", -1, "lane-0000"},
		{"lane-0000", "lane-0001", 1, "lane-0001"},
		{"lane-0001", "lane-0000", -1, "lane-0001"},
		{"lane-0001", "lane-0000", 1, "lane-0000"},
		{"lane-0000", "lane-0001", 0, "lane-0001"},
		{"lane-0001", "lane-0000", 0, "lane-0001"}, // whose digest is less
	} {
		place := func(key, lane string, until float64) {
			d := queue.DigestLane(lane)
			s.Client().Del(v.ctx, key)
			s.Client().Do(v.ctx, "ZADD", key, until, string(d[:]))
		}
		now := float64(*at)
		place("ps{0}i1", tt.pending, now+10)
		place("ps{0}b1", tt.rests, now+10-tt.at)
		if got := v.info("email").OldestWaiting; !got.Equal(appended[tt.want]) {
			t.Errorf("%+v: the oldest is of %v", tt, got)
		}
	}
}
