package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// used compares the used part of each limit of a queue; -1 stands for a pace.
func (r *rig) used(queueName string, want ...int64) {
	r.Helper()
	i := r.info(queueName)
	var got []int64
	for k, state := range i.Limits {
		if i.Spec.Limits[k].Paced() {
			got = append(got, -1)
		} else {
			got = append(got, state.Window.Used)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("of the quotas of %s %v are used, want %v", queueName, got, want)
	}
}

// windowed returns a rule for a queue with limits, whose jobs of cost 1 wait from some time after noon on a Tuesday.
func windowed(what, rate string, after time.Duration, want string, limits ...string) rule {
	return rule{what, func(r *rig) {
		r.clock.Advance(after)
		var name string
		burst := int64(1)
		_, _ = fmt.Sscan(rate, &name, &burst) // the burst may be left out
		q := r.queue("q", name, func(s *queue.Spec) { s.Burst = burst }, limited(limits...))
		t0, n := r.clock.Now(), len(strings.Fields(want))
		r.appendNumbered(q, n)
		r.sameDepartures(r.departures(q, t0, n), want)
		if i := r.info(q); i.Lost != 0 {
			r.Errorf("%d slots lost", i.Lost)
		}
	}}
}

var limitQuotaRules = []rule{
	{"jobs that become due in a used-up window lose no slots", func(r *rig) {
		q := r.queue("q", "10/s", limited("quota 1/m"))
		r.accept(q, "a")
		r.schedule(later(r.clock.Now().Add(time.Second), q, "b"))
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "b")...)
		if i := r.info(q); i.Lost != 0 {
			r.Errorf("%d slots lost", i.Lost)
		}
	}},
	windowed(
		"a quota a minute", "unlimited", 0, "j1@0s j2@0s j3@0s j4@1m0s j5@1m0s j6@1m0s j7@2m0s",
		"quota 3/m",
	),
	windowed(
		"two quotas leave around the end of a minute, at the pace", "2/s", 59*time.Second,
		"j1@0s j2@500ms j3@1s j4@1.5s j5@2s j6@1m1s", "quota 3/m",
	),
	windowed(
		"hours and minutes", "unlimited", 0, "j1@0s j2@0s j3@1m0s j4@1h0m0s j5@1h0m0s j6@1h1m0s j7@2h0m0s", "quota 2/m",
		"quota 3/h",
	),
	windowed(
		"in another order", "unlimited", 0, "j1@0s j2@0s j3@1m0s j4@1h0m0s j5@1h0m0s j6@1h1m0s j7@2h0m0s", "quota 3/h",
		"quota 2/m",
	),
	windowed("days", "unlimited", 0, "j1@0s j2@12h0m0s j3@36h0m0s", "quota 1/d"),
	windowed("weeks begin on Monday", "unlimited", 0, "j1@0s j2@132h0m0s j3@300h0m0s", "quota 1/w"),
	windowed("months", "unlimited", 0, "j1@0s j2@708h0m0s j3@1452h0m0s", "quota 1/mo"), // after 29.5 days, and 31
	windowed("days of another zone", "unlimited", 0, "j1@0s j2@6h15m0s j3@30h15m0s", "quota 1/d Asia/Kathmandu"),
	windowed(
		"a burst also waits for the next window", "1/s 5", 59970*time.Millisecond,
		"j1@0s j2@0s j3@0s j4@30ms j5@30ms j6@1s j7@1m0.03s", "quota 3/m",
	),
	{"a job that exceeds the rest of a window waits for the next, and no other passes it", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 10/m"))
		t0 := r.clock.Now()
		r.acceptJobs(costing(4, q, "a"), costing(4, q, "b"), costing(4, q, "c"), costing(1, q, "d"))
		r.deliver(r.grant(q, 9, "a", "b")...)
		r.used(q, 10) // the rest is forfeited
		r.acceptJobs(withPriority(9, "", q, "e"))
		r.grant(q, 9)
		r.sameDepartures(r.departures(q, t0, 3), "e@1m0s c@1m0s d@1m0s")
		r.used(q, 6)
	}},
	{"a job that costs more than the quota uses up a whole window", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 3/m"))
		t0 := r.clock.Now()
		r.acceptJobs(job(q, "a"), costing(5, q, "b"), job(q, "c"), costing(1000, q, "d"), costing(5, q, "e"))
		r.sameDepartures(r.departures(q, t0, 5), "a@0s b@1m0s c@2m0s d@3m0s e@4m0s")
	}},
	{"when one limit has too little left, the others use up nothing", func(r *rig) {
		for i, order := range [][]string{{"quota 10/m", "1/m 3", "quota 3/h"}, {"quota 3/h", "quota 10/m", "1/m 3"}} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", limited(order...))
			r.acceptJobs(costing(2, q, "a"), costing(2, q, "b"))
			r.deliver(r.grant(q, 9, "a")...)
			before := r.info(q)
			r.grant(q, 9)
			info := r.info(q)
			for k, l := range info.Spec.Limits {
				switch used := info.Limits[k].Window.Used; {
				case l.Paced() && info.Limits[k].Bucket != before.Limits[k].Bucket:
					r.Errorf("the bucket of %s is %+v, was %+v", l.Rate, info.Limits[k].Bucket, before.Limits[k].Bucket)
				case l.Quota.Per == "m" && used != 2, l.Quota.Per == "h" && used != 3:
					r.Errorf("%d of %s are used", used, l.Quota)
				}
			}
			if info.Bucket != before.Bucket {
				r.Errorf("the queue's bucket is %+v, was %+v", info.Bucket, before.Bucket)
			}
			r.delete(q)
		}
	}},
	{"a released job gives back what it used, within its own window only", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/m"), leased(5*time.Minute, 9))
		t0 := r.clock.Now()
		r.appendNumbered(q, 6)
		v := r.grant(q, 9, "j1", "j2")
		r.release(v[0]) // not the last departure
		r.used(q, 1)
		v[0] = r.grant(q, 9, "j1")[0]
		r.clock.Advance(time.Minute)
		w := r.grant(q, 9, "j3", "j4")
		r.release(v[0])
		r.used(q, 2)
		r.grant(q, 9)
		r.fail(time.Hour, w[0]) // was used, however it ended
		r.deliver(w[1])
		r.used(q, 2)
		r.sameDepartures(r.departures(q, t0, 2), "j1@2m0s j5@2m0s")
		r.deliver(v[1])
	}},
	{"changing something else keeps what a release can give back", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 5/m", "10/s 9"))
		r.clock.Advance(time.Second)
		r.appendNumbered(q, 3)
		v := r.grant(q, 2, "j1", "j2")
		r.clock.Advance(time.Second)
		r.queue(q, "100/s", limited("quota 5/m", "10/s 9"), withCapacity(7))
		r.release(v[0])
		r.used(q, 1, -1)
		r.queue(q, "100/s", limited("quota 5/m", "11/s 9"), withCapacity(7))
		r.release(v[1])
		r.used(q, 1, -1)
	}},
	{"a job granted before the quota was set gives nothing back", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.appendNumbered(q, 6)
		v := r.grant(q, 2, "j1", "j2")
		r.queue(q, "unlimited", limited("quota 2/m"))
		r.deliver(r.grant(q, 1, "j3")...)
		r.release(v...)
		r.used(q, 1)
		r.deliver(r.grant(q, 9, "j1")...)
		r.used(q, 2)
	}},
	{"an expired job uses up nothing", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/m"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 3)
		for i := range 5 {
			r.acceptJobs(expiringJob(t0.Add(210*time.Second), q, fmt.Sprint("x", i)))
		}
		r.accept(q, "k")
		r.deliver(r.grant(q, 9, "j1", "j2")...)
		r.clock.Advance(4 * time.Minute)
		r.deliver(r.grant(q, 9, "j3", "k")...)
		r.used(q, 2)
	}},
	{"quotas count in the eta and in the reason for waiting", func(r *rig) {
		q := r.queue("q", "1/s", limited("quota 3/m"))
		t0 := r.clock.Now()
		a := r.appendNumbered(q, 8)
		for i, want := range []int{0, 1, 2, 60, 61, 62, 120, 121} {
			if at := t0.Add(time.Duration(want) * time.Second); instantOf(a[i].ETA.At) != at || a[i].ETA.Exact {
				r.Errorf(
					"%s is expected in %v, exact %v; want %ds, roughly", a[i].ID, instantOf(a[i].ETA.At).Sub(t0),
					a[i].ETA.Exact, want,
				)
			}
		}
		r.waitsFor(causeOnly(cause.Drainer), q, "j1")
		r.waitsFor(causeOnly(cause.Rate), q, "j2", "j3")
		r.waitsFor(queue.Why{By: cause.Quota, Reason: "3/m"}, q, "j4", "j8")
		r.lapsed(expiringJob(t0.Add(121*time.Second), q, "late"), t0.Add(122*time.Second))
		r.departures(q, t0, 3)
		shut := lasting(cause.Quota, t0.Add(time.Minute), "3/m")
		r.waitsFor(shut, q, "j4", "j8")
		r.waitsFor(causeOnly(cause.Drainer), r.queue("g.other", "1/s", limited("quota 3/m")))
		z := r.queue("g.z", "unlimited", limited("quota 1/d Europe/Berlin"))
		r.appendNumbered(z, 2)
		r.deliver(r.grant(z, 1, "j1")...)
		r.waitsFor(lasting(cause.Quota, t0.Add(10*time.Hour), "1/d Europe/Berlin"), z, "j2")
	}},
	{"refused jobs are promised room, possibly in another window", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/m"), withCapacity(2))
		r.appendNumbered(q, 2)
		r.checkFull(q, "k", 100*time.Millisecond)
		r.deliver(r.grant(q, 9, "j1")...)
		r.accept(q, "k")
		r.checkFull(q, "l", time.Minute)
		r.checkFull(q, "l", time.Minute)
	}},
	{"a queue that waits for a window is visited when it begins", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/m"))
		r.appendNumbered(q, 2)
		r.clock.Advance(58500 * time.Millisecond)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "j1")
		if want := 1500*time.Millisecond - queue.Horizon/2; res.Next != want {
			r.Errorf("next in %v, want %v", res.Next, want)
		}
		r.clock.Advance(3500 * time.Millisecond)
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 0 || len(res.Jobs) != 1 {
			r.Errorf("granted %v, lost %v: without a pace there are no slots to lose", ids(res.Jobs), res.Lost)
		}
	}},
	{"lanes take turns as usual, and a resting lane uses up nothing", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 y1 y2 z1", everyLane(laneRate("1/30s")), limited("quota 4/m"))
		r.sameDepartures(r.departures(q, r.clock.Now(), 6), "x1@0s y1@0s z1@0s x2@30s y2@1m0s x3@1m0s")
	}},
}

// begins is the start of a chapter's time, unless it is NewClock's.
var begins = map[string]time.Time{
	"SpringForward":  time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC),
	"Forecast":       time.Date(2026, 3, 28, 22, 59, 0, 0, time.UTC), // an hour to go in Berlin's last day of winter time
	"ForecastAutumn": time.Date(2026, 10, 24, 21, 59, 0, 0, time.UTC),
}

// daily checks that the whole quota leaves on each of these days in Berlin, from the start of the day there. The first
// two jobs leave at once.
func (r *rig) daily(q string, begins ...time.Time) {
	r.Helper()
	t0 := r.clock.Now()
	r.appendNumbered(q, 2+2*len(begins))
	want := "j1@0s j2@0s"
	for i, at := range begins {
		d := instantOf(at).Sub(t0)
		want += fmt.Sprintf(" j%d@%v j%d@%v", 2*i+3, d, 2*i+4, d)
	}
	r.sameDepartures(r.departures(q, t0, 2+2*len(begins)), want)
}

func utc(month time.Month, day, hour int) time.Time {
	return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
}

var springRules = []rule{
	{"a day of 23 hours", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(3, 28, 23), utc(3, 29, 22), utc(3, 30, 22))
	}},
	{"a day of 23 hours in which the quota is set", func(r *rig) {
		r.clock.Set(instantOf(utc(3, 29, 0)))
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(3, 29, 22), utc(3, 30, 22))
	}},
	{"a week and a month with a change of clocks", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/w Europe/Berlin"))
		r.daily(q, utc(3, 29, 22), utc(4, 5, 22))
		q = r.queue("g.m", "unlimited", limited("quota 2/mo Europe/Berlin"))
		r.daily(q, utc(4, 30, 22))
	}},
}

var autumnRules = []rule{
	{"a day of 25 hours", func(r *rig) {
		r.clock.Set(instantOf(utc(10, 24, 12)))
		q := r.queue("q", "unlimited", limited("quota 2/d Europe/Berlin"))
		r.daily(q, utc(10, 24, 22), utc(10, 25, 23), utc(10, 26, 23))
	}},
	{"the hour that occurs twice belongs to one day", func(r *rig) {
		r.clock.Set(instantOf(utc(10, 25, 0)))
		q := r.queue("q", "1/h", limited("quota 3/d Europe/Berlin"))
		t0 := r.clock.Now()
		r.appendNumbered(q, 4)
		r.sameDepartures(r.departures(q, t0, 4), "j1@0s j2@1h0m0s j3@2h0m0s j4@23h0m0s")
	}},
	{"days follow the calendar for as long as the store is used", func(r *rig) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		r.check(err)
		q := r.queue("q", "unlimited", limited("quota 1/d Europe/Berlin"))
		r.accept(q, "first")
		r.deliver(r.grant(q, 9, "first")...)
		for day := range 240 { // both changes of clocks are among them, and the end of the windows that are computed at once
			id := fmt.Sprint("day-", day)
			r.accept(q, id)
			begins := time.Date(2026, 9, 2+day, 0, 0, 0, 0, berlin)
			r.clock.Set(instantOf(begins) - leaky.Instant(queue.Horizon.Microseconds()) - 1)
			r.grant(q, 9)
			r.clock.Set(instantOf(begins))
			r.deliver(r.grant(q, 9, id)...)
			_, err := r.e.Sweep(r.ctx, r.partition(q))
			r.check(err)
		}
	}},
}
