package queuetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// rampOf reads a ramp: steps, or xFACTOR MAXIMUM; then perhaps a date, and hold.
func rampOf(text string) (r queue.Ramp) {
	var steps []int64
	for _, f := range strings.Fields(text) {
		if factor, ok := strings.CutPrefix(f, "x"); ok {
			r.Factor, _ = strconv.ParseFloat(factor, 64)
		} else if n, err := strconv.ParseInt(f, 10, 64); err == nil {
			steps = append(steps, n)
		} else if f == queue.RampHold {
			r.Idle = f
		} else {
			r.From = f
		}
	}
	if r.Factor != 0 {
		r.Until = steps[0]
	} else {
		r.Steps = queue.StepsOf(steps...)
	}
	return r
}

// quotaNow checks the first limit of a queue in the present window.
func (r *rig) quotaNow(q string, used, most, next int64) {
	r.Helper()
	i := r.info(q)
	s, ok := i.QuotaState(0)
	if !ok || s.Used != used || s.Max != most || s.Ramp.Next != next {
		r.Errorf("%+v, want %d used of %d, next %d", s, used, most, next)
	}
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// idleDays is a queue whose quota begins at 1, from noon on the first day, with the days on which one job leaves.
func idleDays(ramp string, days []int, want ...int64) func(r *rig) {
	return func(r *rig) {
		q := r.queue("q", "unlimited", limited(ramp))
		r.acceptJobs(jobs(q, numbered("j", len(want))...)...)
		for d, most := range want {
			i := r.info(q)
			if s, _ := i.QuotaState(0); s.Max != most || s.Used != 0 {
				r.Errorf("day %d: %+v, want a maximum of %d", d, s, most)
			}
			for _, used := range days {
				if used == d {
					r.deliver(r.reserve(q, 1)...)
				}
			}
			r.clock.Advance(day)
		}
	}
}

func rampedETA(ramp string) func(r *rig) {
	return func(r *rig) {
		q := r.queue("q", "1/s", limited("quota 2/d Europe/Berlin ramp 2 3 5 "+ramp))
		t0 := r.clock.Now()
		a := r.appendNumbered(q, 12)
		for i, seconds := range []int{
			0, 1, 36000, 36001, 36002, 122400, 122401, 122402, 122403, 122404, 208800, 208801,
		} {
			want := time.Duration(seconds) * time.Second
			if in := instantOf(a[i].ETA.At).Sub(t0); in != want || a[i].ETA.Exact {
				r.Errorf("%s is expected in %v, want %v", a[i].ID, in, want)
			}
		}
		reason := "2/d Europe/Berlin (day 1 of the ramp, then 3)"
		r.waitsFor(queue.Why{By: cause.Quota, Reason: reason}, q, "j3", "j12")
		r.departures(q, t0, 2)
		r.waitsFor(lasting(cause.Quota, t0.Add(10*time.Hour), reason), q, "j3", "j12")
	}
}

var rampRules = []rule{
	windowed(
		"steps by the calendar", "unlimited", 0,
		"j1@0s j2@12h0m0s j3@12h0m0s j4@36h0m0s j5@36h0m0s j6@36h0m0s j7@36h0m0s j8@60h0m0s",
		"quota 1/d ramp 1 2 4 2026-09-01",
	),
	windowed(
		"a factor, rounded down, up to a maximum", "unlimited", 0,
		"j1@0s j2@0s j3@12h0m0s j4@12h0m0s j5@12h0m0s j6@36h0m0s j7@36h0m0s j8@36h0m0s j9@36h0m0s j10@60h0m0s",
		"quota 2/d ramp x1.5 4 2026-09-01",
	),
	windowed(
		"until the date, the quota is the first step", "unlimited", 0, "j1@0s j2@12h0m0s j3@36h0m0s j4@60h0m0s j5@60h0m0s",
		"quota 1/d ramp 1 9 2026-09-03",
	),
	windowed(
		"a ramp that began in the past", "unlimited", 0, "j1@0s j2@0s j3@0s j4@12h0m0s j5@12h0m0s j6@12h0m0s j7@12h0m0s",
		"quota 1/d ramp 1 2 3 4 2026-08-30",
	),
	windowed(
		"a ramp that ended in the past, in another zone", "unlimited", 0, "j1@0s j2@0s j3@10h0m0s j4@10h0m0s",
		"quota 1/d Europe/Berlin ramp 1 2 2001-08-30",
	),
	windowed(
		"days of another zone", "unlimited", 0, "j1@0s j2@10h0m0s j3@10h0m0s j4@34h0m0s j5@34h0m0s j6@34h0m0s j7@58h0m0s",
		"quota 1/d Europe/Berlin ramp 1 2 3 2026-09-01",
	),
	windowed(
		"weeks, from the one with the date", "unlimited", 0, "j1@0s j2@0s j3@132h0m0s j4@132h0m0s j5@132h0m0s j6@300h0m0s",
		"quota 1/w ramp 1 2 3 2026-08-30",
	),
	windowed(
		"months", "unlimited", 0, "j1@0s j2@708h0m0s j3@708h0m0s j4@1452h0m0s j5@1452h0m0s j6@1452h0m0s",
		"quota 1/mo ramp 1 2 3 2026-09-30",
	),
	windowed(
		"minutes, with hold", "unlimited", 0, "j1@0s j2@1m0s j3@1m0s j4@2m0s j5@2m0s j6@2m0s j7@2m0s j8@3m0s",
		"quota 1/m ramp 1 2 4 hold",
	),
	windowed(
		"hours, from midnight of the date", "unlimited", 0,
		"j1@0s j2@0s j3@0s j4@0s j5@0s j6@1h0m0s j7@1h0m0s j8@1h0m0s j9@1h0m0s j10@1h0m0s j11@2h0m0s",
		"quota 1/h ramp 1 2 3 4 5 2026-09-01",
	),
	windowed(
		"hours until the date", "unlimited", 0,
		"j1@0s j2@0s j3@1h0m0s j4@1h0m0s j5@2h0m0s j6@2h0m0s", "quota 2/h ramp 2 9 2026-09-02",
	),
	windowed(
		"with hold, used days count", "unlimited", 0, "j1@0s j2@12h0m0s j3@12h0m0s j4@36h0m0s j5@36h0m0s j6@36h0m0s",
		"quota 1/d ramp 1 2 3 hold",
	),
	windowed(
		"with hold, days before the date do not count", "unlimited", 0,
		"j1@0s j2@12h0m0s j3@36h0m0s j4@60h0m0s j5@60h0m0s j6@84h0m0s", "quota 1/d ramp 1 2 2026-09-03 hold",
	),
	windowed(
		"two quotas, one of which grows", "unlimited", 0, "j1@0s j2@12h0m0s j3@12h0m0s j4@36h0m0s j5@36h0m0s j6@36h0m0s",
		"quota 3/d", "quota 1/d ramp 1 2 9 2026-09-01",
	),
	{"idle days count", idleDays("quota 1/d ramp 1 2 3 4 2026-09-01", []int{0, 3}, 1, 2, 3, 4, 4)},
	{
		"with hold, idle days do not count",
		idleDays("quota 1/d ramp 1 2 3 4 hold", []int{0, 3, 4, 6}, 1, 2, 2, 2, 3, 4, 4, 4),
	},
	{"with hold and a date, neither", idleDays("quota 1/d ramp 1 2 3 2026-09-02 hold", []int{0, 2}, 1, 1, 1, 2, 2)},
	{"with hold, a day counts only if a job really left", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 2/d ramp 2 4 8 hold"))
		r.appendNumbered(q, 9)
		r.release(r.grant(q, 9, "j1", "j2")...)
		r.quotaNow(q, 0, 2, 4)
		r.clock.Advance(day)
		r.quotaNow(q, 0, 2, 4)
		v := r.grant(q, 9, "j1", "j2")
		r.release(v[0])
		r.clock.Advance(day)
		r.quotaNow(q, 0, 4, 8)
		r.deliver(v[1])
		r.deliver(r.grant(q, 9, "j1", "j3", "j4", "j5")...)
		r.quotaNow(q, 4, 4, 8)
	}},
	{"a job that costs more than the quota uses up a whole day, which grows", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 3/d ramp 3 5 6 2026-09-01"))
		t0 := r.clock.Now()
		r.acceptJobs(costing(5, q, "a"), costing(5, q, "b"), job(q, "c"), costing(6, q, "d"))
		r.sameDepartures(r.departures(q, t0, 4), "a@0s b@12h0m0s c@36h0m0s d@60h0m0s")
	}},
	{"the eta and the reason for waiting", rampedETA("2026-09-01")},
	{"the eta and the reason for waiting, with hold", rampedETA("hold")},
	{"the reason before and at the end of a ramp", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/w ramp 1 2 2026-12-01"))
		r.appendNumbered(q, 3)
		r.waitsFor(queue.Why{By: cause.Quota, Reason: "1/w (the ramp begins on 2026-12-01)"}, q, "j2")
		r.queue(q, "unlimited", limited("quota 1/mo ramp 1 2 2025-12-01"))
		r.waitsFor(queue.Why{By: cause.Quota, Reason: "2/mo (last step of the ramp)"}, q, "j3")
	}},
	{"a parent's ramp applies to the group", func(r *rig) {
		r.queue("g", "unlimited", limited("quota 1/d ramp 1 2 3 hold"))
		q := r.queue("g.a", "unlimited")
		t0 := r.clock.Now()
		r.appendNumbered(q, 4)
		r.waitsFor(queue.Why{By: cause.Quota, Reason: "1/d (day 1 of the ramp, then 2)", Queue: "g"}, q, "j2")
		r.sameDepartures(r.departures("g", t0, 4), "j1@0s j2@12h0m0s j3@12h0m0s j4@36h0m0s")
	}},
	{"a ramp of another unit", func(r *rig) {
		l := limit("quota 100/d ramp 100 250 hold")
		l.Unit = "tokens"
		q := r.queue("q", "unlimited", estimating("tokens=60"), func(s *queue.Spec) { s.Limits = []queue.Limit{l} })
		t0 := r.clock.Now()
		r.appendNumbered(q, 7)
		r.sameDepartures(r.departures(q, t0, 7), "j1@0s j2@12h0m0s j3@12h0m0s j4@12h0m0s j5@12h0m0s j6@36h0m0s j7@36h0m0s")
	}},
	{"a replaced ramp goes on where the old one was", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/d ramp 1 2 4 8 hold"))
		r.appendNumbered(q, 40)
		for range 2 {
			r.deliver(r.reserve(q, 9)...)
			r.clock.Advance(day)
		}
		r.quotaNow(q, 0, 4, 8)
		r.deliver(r.reserve(q, 1)...)
		for _, change := range []struct {
			limit      string
			most, next int64
		}{
			{"quota 1/d ramp 1 3 9 hold", 3, 9},
			{"quota 1/d ramp x2 100 hold", 2, 4}, // the greatest step that is not above 3
			{"quota 5/d ramp 5 10 hold", 5, 10},
			{"quota 1/d ramp 1 2 3 4 5 6 2026-09-01", 3, 4},
			{"quota 1/d Europe/Berlin ramp 1 2 3 4 5 6 hold", 3, 4},
			{"quota 3/d", 3, 0},
			{"quota 1/d ramp 1 2 3 hold", 1, 2}, // a plain quota skips no steps
		} {
			r.queue(q, "unlimited", limited(change.limit))
			r.quotaNow(q, 1, change.most, change.next)
		}
		r.queue(q, "unlimited", limited("quota 1/d ramp 1 2 3 hold"), withCapacity(99))
		r.quotaNow(q, 1, 1, 2)
		r.clock.Advance(day)
		r.quotaNow(q, 0, 2, 3)
	}},
	{"a ramp replaced after idle days goes on where it was", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/d ramp 1 2 4 8 hold"))
		r.appendNumbered(q, 9)
		for range 2 {
			r.deliver(r.reserve(q, 9)...)
			r.clock.Advance(day)
		}
		r.clock.Advance(week)
		r.queue(q, "unlimited", limited("quota 1/d ramp 1 3 4 5 hold"))
		r.quotaNow(q, 0, 4, 5)
		r.deliver(r.reserve(q, 9)...)
		r.quotaNow(q, 4, 4, 5)
	}},
	{"a ramp that begins after its calendar was renewed", func(r *rig) {
		q := r.queue("q", "unlimited", limited("quota 1/d Europe/Berlin ramp 1 3 7 2027-03-01"))
		r.accept(q, "a")
		for r.clock.Now() < instantOf(time.Date(2027, 2, 10, 12, 0, 0, 0, time.UTC)) {
			r.clock.Advance(20 * day)
			r.reserve(q, 0)
			_, err := r.e.Sweep(r.ctx, r.partition(q))
			r.check(err)
		}
		r.clock.Set(instantOf(time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)))
		t0 := r.clock.Now()
		r.appendNumbered(q, 6)
		r.sameDepartures(r.departures(q, t0, 4), "a@0s j1@11h0m0s j2@11h0m0s j3@11h0m0s")
		r.quotaNow(q, 3, 3, 7)
	}},
	{"random traces keep to the ramp", func(r *rig) {
		rnd := rand.New(rand.NewPCG(5, 6))
		for n := range 12 {
			r.rampStorm(rnd, fmt.Sprint("g.s", n))
		}
	}},
}

var rampScenarios = []scenario{
	{name: "a ramp", set: plainly("1/s", 90, limited("quota 5/d Europe/Berlin ramp x2 30 2026-03-28"))},
	{name: "a ramp without a rate", set: plainly("unlimited", 90, limited("quota 5/d ramp 5 10 20 30 2026-03-27"))},
	{name: "a ramp of minutes", set: plainly("1/s", 70, limited("quota 5/m ramp 5 10 20 40 hold"))},
	{name: "a ramp that begins later", set: plainly("1/s", 80, limited("quota 5/d ramp 5 20 50 2026-03-30"))},
	{name: "a ramp with hold", set: plainly("1/s", 70, limited("quota 5/d Europe/Berlin ramp 5 10 20 40 hold"))},
	{
		name: "a ramp with hold that begins later",
		set:  plainly("1/s", 80, limited("quota 5/d Europe/Berlin ramp 5 10 20 40 2026-03-30 hold")),
	},
	{
		name: "a ramp with hold, and a closed day",
		set:  plainly("1/s", 70, limited("quota 5/d ramp 5 10 20 40 hold"), opening("mon-sat 00:00-24:00")),
	},
	{
		name: "a ramp, and a closed day",
		set:  plainly("1/s", 70, limited("quota 5/d ramp 5 10 20 40 2026-03-28"), opening("mon-sat 00:00-24:00")),
	},
	{
		name: "a closed night, a ramp and a quota",
		set: plainly("1/m", 90, limited("quota 5/d ramp 5 30 50 2026-03-27", "quota 12/h"),
			opening("08:00-20:00 in Europe/Berlin")),
	},
	{name: "a ramp for costs", cost: 3, set: func(r *rig) {
		r.queue("q", "1/s", limited("quota 10/d ramp 10 20 47 hold"))
		for n := range 30 {
			r.acceptJobs(costing(3, "q", fmt.Sprint("c", n)))
		}
	}},
	{name: "paused for a day, under a ramp with hold", set: func(r *rig) {
		plainly("1/s", 70, limited("quota 5/d ramp 5 10 20 40 hold"))(r)
		r.deliver(r.reserve("q", 1)...)
		r.pauses("q", r.clock.Now().Add(36*time.Hour), "lunch")
	}},
	{name: "a parent's ramp", of: "g.q", set: then(children("10/s", "20/s", 60, 30), func(r *rig) {
		r.put(spec("g", "10/s", limited("quota 10/d ramp 10 20 40 hold")))
	})},
}

// rampStorm runs random operations on a queue with a ramp, and checks each day's departures by counting days.
func (r *rig) rampStorm(rnd *rand.Rand, name string) {
	r.Helper()
	hold, step := rnd.IntN(2) == 0, 0
	steps := []int64{1 + rnd.Int64N(3)}
	for range 1 + rnd.IntN(5) {
		steps = append(steps, steps[len(steps)-1]+1+rnd.Int64N(3))
	}
	l := queue.Limit{Quota: queue.Quota{Max: steps[0], Per: "d"}, Ramp: queue.Ramp{Steps: queue.StepsOf(steps...)}}
	if l.Ramp.Idle = queue.RampHold; !hold {
		l.Ramp.Idle, l.Ramp.From = "", r.clock.Now().Time().UTC().Format(time.DateOnly)
	}
	r.put(spec(name, "unlimited", func(s *queue.Spec) { s.Limits = []queue.Limit{l} }))
	for n := range 12 {
		most, left := steps[min(step, len(steps)-1)], int64(0)
		r.acceptJobs(jobs(name, numbered(fmt.Sprint("d", n, "-"), rnd.IntN(2*len(steps)))...)...)
		for range rnd.IntN(4) {
			waiting := r.info(name).Waiting
			ask := 1 + rnd.IntN(9)
			got := r.reserve(name, ask)
			left += int64(len(got))
			if want := min(int64(ask), waiting, most-left+int64(len(got))); int64(len(got)) != want {
				r.Fatalf("%s by %s: %d left on day %d, %d of them now, of at most %d", name, l.String(), left, n, len(got), most)
			}
			r.deliver(got...)
			r.clock.Advance(time.Duration(rnd.Int64N(int64(2 * time.Hour))))
		}
		r.clock.Set(leaky.Every(86_400_000_000, 0).End(r.clock.Now()) + leaky.Instant(rnd.Int64N(3_600_000_000)))
		if !hold || left > 0 {
			step++
		}
	}
	r.check(r.e.Delete(r.ctx, name, queue.AnyRevision, true))
}
