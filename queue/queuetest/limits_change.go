package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

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
