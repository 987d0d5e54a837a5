package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// limited sets limits beside the rate, each "2/s", "2/s 3" with a burst, "quota 5/m" or "quota 5/d Europe/Berlin".
func limited(list ...string) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Limits = nil
		for _, text := range list {
			s.Limits = append(s.Limits, limit(text))
		}
	}
}

func limit(text string) (l queue.Limit) {
	text, ramp, _ := strings.Cut(text, " ramp ")
	l.Ramp = rampOf(ramp)
	f := strings.Fields(text)
	if f[0] != "quota" {
		l.Rate = laneRate(f[0]).Rate
		if len(f) > 1 {
			_, _ = fmt.Sscan(f[1], &l.Burst)
		}
		return l
	}
	if err := l.Quota.UnmarshalText([]byte(f[1])); err != nil {
		panic(err)
	}
	if len(f) > 2 {
		l.Timezone = f[2]
	}
	return l
}

// departures drains n jobs of a queue, or of its group, like departureTimes. Instead of waiting through days, it asks
// when the queue says that its next job may leave.
func (r *rig) departures(queueName string, t0 leaky.Instant, n int) string {
	r.Helper()
	return r.drainTimes(queueName, t0, n, func(next time.Duration) {
		leaves := instantOf(r.info(queueName).Next).Add(-queue.Horizon / 2)
		r.clock.Set(max(r.clock.Now().Add(next), leaves))
	})
}

// appendNumbered appends jobs j1 to jn to a queue.
func (r *rig) appendNumbered(queueName string, n int) []queue.Appended {
	r.Helper()
	var list []queue.Job
	for i := range n {
		list = append(list, job(queueName, fmt.Sprint("j", i+1)))
	}
	return r.acceptJobs(list...)
}

var limitPaceRules = []rule{
	{"jobs depart exactly when all paces allow", func(r *rig) {
		for i, tt := range []struct {
			what, rate string
			limits     []string
			want       string
		}{
			{
				"a burst, and a slower pace for long", "10/s",
				[]string{"2/s 3"},
				"j1@0s j2@100ms j3@200ms j4@500ms j5@1s j6@1.5s",
			},
			{"only a slower pace", "10/s", []string{"1/s"}, "j1@0s j2@1s j3@2s"},
			{"a faster pace has no effect", "1/s", []string{"10/s"}, "j1@0s j2@1s j3@2s"},
			{"nor does its burst", "1/s", []string{"10/s 5"}, "j1@0s j2@1s j3@2s"},
			{"beside an unlimited rate", "unlimited", []string{"10/s 2"}, "j1@0s j2@0s j3@100ms j4@200ms"},
			{"three", "10/s", []string{"5/s 2", "1/s 4"}, "j1@0s j2@100ms j3@200ms j4@400ms j5@1s j6@2s"},
			{
				"in another order", "10/s",
				[]string{"1/s 4", "5/s 2"},
				"j1@0s j2@100ms j3@200ms j4@400ms j5@1s j6@2s",
			},
			{
				"instants are rounded up without losing time", "100/s",
				[]string{"3/s"},
				"j1@0s j2@333.334ms j3@666.667ms j4@1s",
			},
		} {
			q := r.queue(fmt.Sprint("g.q", i), tt.rate, limited(tt.limits...))
			t0, n := r.clock.Now(), len(strings.Fields(tt.want))
			r.appendNumbered(q, n)
			if got := r.departureTimes(q, t0, n); got != tt.want {
				r.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
			}
		}
	}},
	{"costs count in all paces", func(r *rig) {
		q := r.queue("q", "10/s", limited("4/s 2"))
		t0 := r.clock.Now()
		r.acceptJobs(costing(2, q, "a"), costing(2, q, "b"), costing(1, q, "c"), costing(1, q, "d"))
		r.sameDepartures(r.departureTimes(q, t0, 4), "a@0s b@250ms c@750ms d@1s")
	}},
	{"14/s beside another pace neither drifts nor gains", func(r *rig) {
		for i, rate := range []string{"unlimited", "14/s", "1000/s"} {
			q := r.queue(fmt.Sprint("g.q", i), rate, limited("14/s"))
			r.accept(q, numbered("j", 1+14*20)...)
			t0 := r.clock.Now()
			got := strings.Fields(r.departureTimes(q, t0, 1+14*20))
			if last := got[len(got)-1]; last != "j00281@20s" {
				r.Errorf("%s: the last of 1 + 20 x 14 is %s", rate, last)
			}
		}
	}},
	{"releasing the last departure gives back to all paces", func(r *rig) {
		q := r.queue("q", "10/s", limited("1/s 2"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 4)
		r.grant(q, 1, "j1")
		r.clock.Advance(100 * time.Millisecond)
		r.release(r.grant(q, 1, "j2")...)
		r.sameDepartures(r.departureTimes(q, t0, 3), "j2@100ms j3@1s j4@2s")
	}},
	{"lost slots and promises follow the slowest pace", func(r *rig) {
		q := r.queue("q", "10/s", limited("2/s"), withCapacity(3))
		r.appendNumbered(q, 3)
		r.deliver(r.grant(q, 9, "j1")...)
		r.clock.Advance(1700 * time.Millisecond) // 1.2 s late
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 2 {
			r.Errorf("%v slots lost, want 2", res.Lost)
		}
		r.accept(q, "k")
		r.checkFull(q, "l", 500*time.Millisecond)
		r.checkFull(q, "l", time.Second)
	}},
	{"the eta follows the slowest pace, roughly", func(r *rig) {
		q := r.queue("q", "10/s", limited("1/s 3"))
		t0 := r.clock.Now()
		for i, want := range []time.Duration{
			0, 100 * time.Millisecond, 200 * time.Millisecond, time.Second, 2 * time.Second,
		} {
			if a := r.accept(q, fmt.Sprint("j", i))[0]; instantOf(a.ETA.At) != t0.Add(want) || a.ETA.Exact {
				r.Errorf(
					"j%d is expected in %v, exact %v; want %v, roughly", i, instantOf(a.ETA.At).Sub(t0), a.ETA.Exact,
					want,
				)
			}
		}
		r.waitsFor(causeOnly(cause.Drainer), q, "j0")
		r.waitsFor(causeOnly(cause.Rate), q, "j1", "j4")
		r.lapsed(expiringJob(t0.Add(2999*time.Millisecond), q, "late"), t0.Add(3*time.Second))
	}},
	{"lanes and their rates apply too", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 x2 y1 y2", everyLane(laneRate("1/s")), limited("5/s 2"))
		r.sameDepartures(r.departureTimes(q, r.clock.Now(), 4), "x1@0s y1@100ms x2@1s y2@1.1s")
	}},
	{"every pace and the quota hold, whatever happens to jobs", func(r *rig) {
		for seed := range uint64(3) {
			r.limitStorm(rand.New(rand.NewPCG(seed, 45)), fmt.Sprint("g.q", seed))
		}
	}},
}

// limitStorm runs random operations on a queue with several limits and checks its departures against each.
func (r *rig) limitStorm(rnd *rand.Rand, name string) {
	r.Helper()
	s := spec(
		name, "20/s", limited("quota 40/m", "5/s 7", "quota 70/h", "2/s 20"),
		func(s *queue.Spec) { s.Burst = 1 + rnd.Int64N(3) },
	)
	r.put(s)
	var starts []law.Start
	used := map[string]map[leaky.Instant]int64{"m": {}, "h": {}}
	ends := map[string]leaky.Calendar{"m": leaky.Every(60_000_000, 0), "h": leaky.Every(3600_000_000, 0)}
	for step, n := 0, 0; step < 600; step++ {
		if rnd.IntN(3) == 0 && r.info(name).Waiting < 40 {
			for range 1 + rnd.IntN(8) {
				r.acceptJobs(costing(1+rnd.Int64N(3), name, fmt.Sprint("j", n)))
				n++
			}
		}
		for _, v := range r.endAnyhow(rnd, r.reserve(name, 1+rnd.IntN(9))) {
			at := r.departure(v)
			starts = append(starts, law.Start{At: time.Duration(at) * time.Microsecond, Cost: v.Cost})
			for per, c := range ends {
				used[per][c.End(at)] += v.Cost
			}
		}
		r.clock.Advance(time.Duration(rnd.IntN(400)) * time.Millisecond)
		if rnd.IntN(100) == 0 {
			r.clock.Advance(20 * time.Minute)
		}
	}
	r.lawful(name, law.Law{Rate: s.Rate, Burst: s.Burst, MaxCost: 3, Slack: rounding}, starts)
	most := map[string]int64{"m": 0, "h": 0}
	for _, l := range s.Limits {
		if l.Paced() {
			r.lawful(name, law.Law{Rate: l.Rate, Burst: l.Burst, MaxCost: 3, Slack: rounding}, starts)
			continue
		}
		for end, n := range used[l.Quota.Per] {
			most[l.Quota.Per] = max(most[l.Quota.Per], n)
			if n > l.Quota.Max {
				r.Errorf("%d departed of %s in the window that ends at %v", n, l.Quota, end.Time())
			}
		}
	}
	if most["m"] < 35 || most["h"] < 60 || len(starts) < 50 {
		r.Errorf("%d departures, and %v within the quotas, are too few to say anything", len(starts), most)
	}
	r.delete(name)
}

// relimit puts other limits on q, and checks how much of each quota counts as used.
func (r *rig) relimit(used []int64, limits ...string) {
	r.Helper()
	r.queue("q", "unlimited", limited(limits...))
	r.used("q", used...)
}

var limitChangeRules = []rule{
	{"a changed quota keeps its used part", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 3/m"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 12)
		r.deliver(r.grant(q, 9, "j1", "j2", "j3")...)
		r.relimit([]int64{3}, "quota 5/m")
		r.deliver(r.grant(q, 9, "j4", "j5")...)
		r.relimit([]int64{5}, "quota 2/m")
		r.grant(q, 9)
		r.relimit([]int64{5}, "quota 5/m") // lowering and raising it adds nothing
		r.grant(q, 9)
		r.relimit([]int64{5}, "quota 6/m")
		r.deliver(r.grant(q, 9, "j6")...)
		r.relimit([]int64{6}, "quota 6/h") // within the current hour
		r.grant(q, 9)
		r.relimit([]int64{6}, "quota 6/d Asia/Tokyo") // where it is nine in the evening
		r.clock.Advance(time.Minute)
		r.grant(q, 9)
		r.relimit([]int64{6}, "quota 8/d")
		r.sameDepartures(
			r.departures(q, t0, 6), "j7@1m0s j8@1m0s j9@12h0m0s j10@12h0m0s j11@12h0m0s j12@12h0m0s",
		)
	}},
	{"a quota changed after a grant beyond its window is full until then, and counts that job later", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/m"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 9)
		r.deliver(r.grant(q, 9, "j1", "j2")...)
		r.clock.Set(t0.Add(59_960 * time.Millisecond))
		r.deliver(r.grant(q, 1, "j3")...)
		r.relimit([]int64{1}, "quota 3/m")
		r.sameDepartures(r.departures(q, t0, 5), "j4@1m0s j5@1m0s j6@2m0s j7@2m0s j8@2m0s")
		r.clock.Set(t0.Add(179_960 * time.Millisecond))
		r.deliver(r.grant(q, 1, "j9")...)
		r.relimit([]int64{4}, "quota 4/h") // which has no window of that kind
	}},
	{"a day of another zone ends when it does there", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/d"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 3)
		r.deliver(r.grant(q, 9, "j1")...)
		r.relimit([]int64{1}, "quota 1/d Asia/Tokyo")
		r.sameDepartures(r.departures(q, t0, 2), "j2@3h0m0s j3@27h0m0s")
	}},
	{"limits keep their used part in any position, and new limits start unused", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 5/m", "10/s 9", "quota 50/h"))
		r.appendNumbered(q, 20)
		r.deliver(r.grant(q, 4, "j1", "j2", "j3", "j4")...)
		pace := r.info(q).Limits[1].Bucket
		r.relimit([]int64{4, 4, -1}, "quota 50/h", "quota 5/m", "10/s 9")
		if got := r.info(q).Limits[2].Bucket; got != pace {
			r.Errorf("the pace's bucket is %+v, was %+v", got, pace)
		}
		// The other two limits are unchanged.
		r.relimit([]int64{0, 4, 4, -1}, "quota 7/d", "quota 5/m", "quota 50/h", "10/s 9")
		r.deliver(r.grant(q, 9, "j5")...)
		r.relimit([]int64{1, 5}, "quota 7/d", "quota 5/m")
		r.relimit([]int64{5, 1}, "quota 6/m", "quota 7/d") // the first of the others follows the first
		r.relimit([]int64{5, 1, 0}, "quota 6/m", "quota 8/d", "quota 9/w")
		r.relimit([]int64{5, 1}, "quota 6/m", "quota 6/m")
	}},
	{"equal limits have separate states", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 5/m"))
		r.appendNumbered(q, 20)
		r.deliver(r.grant(q, 2, "j1", "j2")...)
		r.relimit([]int64{2, 0}, "quota 5/m", "quota 5/m")
		r.deliver(r.grant(q, 1, "j3")...)
		r.relimit([]int64{3, 1, 0}, "quota 5/m", "quota 5/m", "quota 5/m")
		r.relimit([]int64{3, 1}, "quota 5/m", "quota 6/m") // the second follows the second
	}},
	{"a changed second pace behaves like a changed rate", func(r *rig) {
		q := r.queue("q", "unlimited", limited("2/s"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 9)
		r.deliver(r.grant(q, 9, "j1")...)
		r.clock.Advance(250 * time.Millisecond)
		r.queue(q, "unlimited", limited("1/s")) // half of the interval is left
		r.sameDepartures(r.departureTimes(q, t0, 2), "j2@750ms j3@1.75s")
		r.clock.Set(t0.Add(2750 * time.Millisecond))
		r.queue(q, "unlimited", limited("1/s 5")) // a burst is earned by idleness
		r.grant(q, 9, "j4")
	}},
	{"equal limits change nothing, other limits make a revision", func(r *rig) {
		s := spec("q", "5/s", limited("2/s 3", "quota 5/d Europe/Berlin"))
		first := r.put(s)
		if again := r.put(s); again.Changed || again.Revision != first.Revision {
			r.Errorf("%+v, then %+v", first, again)
		}
		if i := r.info("q"); !i.Spec.Equal(s) || len(i.Limits) != 2 {
			r.Errorf("%+v, with %d states", i.Spec, len(i.Limits))
		}
		other := r.put(spec("q", "5/s", limited("quota 5/d Europe/Berlin", "2/s 3")))
		if !other.Changed || other.Revision == first.Revision {
			r.Errorf("%+v, then %+v", first, other)
		}
		if last := r.put(spec("q", "5/s")); !last.Changed || len(r.info("q").Limits) != 0 {
			r.Errorf("%+v, then %+v", other, last)
		}
	}},
	{"deleting and making again does not get around a quota, not even with another quota", func(r *rig) {
		for i, again := range []string{"quota 2/m", "quota 3/m", "quota 2/h"} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", limited("quota 2/m"))
			r.appendNumbered(q, 2)
			r.deliver(r.grant(q, 9, "j1", "j2")...)
			r.delete(q)
			r.queue(q, "unlimited", limited(again))
			r.used(q, 2)
			r.delete(q)
			r.clock.Advance(time.Hour)
			r.queue(q, "unlimited", limited("quota 2/m")) // which is another window
			r.accept(q, "k1", "k2")
			r.deliver(r.grant(q, 9, "k1", "k2")...)
			r.delete(q)
		}
	}},
	{"nor does it get around a second pace", func(r *rig) {
		q := r.queue("q", "unlimited", limited("1/s 3"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 3)
		r.deliver(r.grant(q, 9, "j1", "j2", "j3")...)
		r.delete(q)
		r.queue(q, "unlimited", limited("1/s 3"))
		r.accept(q, "k1", "k2")
		r.sameDepartures(r.departureTimes(q, t0, 2), "k1@1s k2@2s")
	}},
	{"invalid limits are refused, with the field", func(r *rig) {
		d := func(n int64, per, zone string) queue.Limit {
			return queue.Limit{Quota: queue.Quota{Max: n, Per: per}, Timezone: zone}
		}
		good := d(5, "d", "Europe/Berlin")
		second := leaky.PerSecond(1)
		for _, tt := range []struct {
			field  string
			limits []queue.Limit
		}{
			{"limits.0.quota", []queue.Limit{d(0, "d", "")}},
			{"limits.1.quota", []queue.Limit{good, d(-1, "d", "")}},
			{"limits.0.quota", []queue.Limit{d(1e18, "d", "")}},
			{"limits.0.quota", []queue.Limit{d(queue.MaxQuota+1, "d", "")}},
			{"limits.0.quota", []queue.Limit{d(5, "y", "")}},
			{"limits.0.quota", []queue.Limit{d(5, "", "")}},
			{"limits.0.timezone", []queue.Limit{d(5, "d", "Mars/Olympus")}},
			{"limits.0.timezone", []queue.Limit{d(5, "d", "Local")}},
			{"limits.0.timezone", []queue.Limit{d(5, "d", "../../etc/passwd")}},
			{"limits.0.timezone", []queue.Limit{d(5, "d", "\xff")}},
			{"limits.0.timezone", []queue.Limit{d(5, "h", "Europe/Berlin")}},
			{"limits.0.timezone", []queue.Limit{{Rate: second, Timezone: "Europe/Berlin"}}},
			{"limits", []queue.Limit{good, good, good, good, good}},
			{"limits.3", []queue.Limit{good, good, good, {}}},
			{"limits.0", []queue.Limit{{Rate: second, Quota: good.Quota}}},
			{"limits.0", []queue.Limit{{Burst: 5, Quota: good.Quota}}},
			{"limits.0", []queue.Limit{{Burst: 5}}},
			{"limits.0.burst", []queue.Limit{{Rate: second, Burst: -1}}},
			{"limits.0.burst", []queue.Limit{{Rate: second, Burst: 1e18}}},
			{"limits.0.burst", []queue.Limit{{Rate: laneRate("1/h").Rate, Burst: leaky.MaxBurst}}},
		} {
			s := spec("q", "1/s")
			s.Limits = tt.limits
			var fe *invalid.Error
			if _, err := r.e.Put(r.ctx, s, queue.AnyRevision); !errors.As(err, &fe) || fe.Field != tt.field {
				r.Errorf("%+v: %v, want an error of %s", tt.limits, err, tt.field)
			}
		}
		_, err := r.e.Get(r.ctx, "q")
		r.refuses(err, queue.ErrUnknownQueue)
		r.put(spec(
			"q", "1/s", limited("quota 1000000000/d", "quota 1/mo Europe/Berlin", "1000000/s 1000000", "1/744h"),
		))
	}},
}
