package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
)

// hoursOf reads hours: spans separated by "; ", then perhaps " in " a zone and " but " dates.
func hoursOf(text string) queue.Hours {
	var h queue.OpenHours
	text, closed, _ := strings.Cut(text, " but ")
	text, h.Timezone, _ = strings.Cut(text, " in ")
	h.Open, h.Closed = queue.ListOf(strings.Split(text, "; ")...), queue.ListOf(strings.Fields(closed)...)
	return h.Hours()
}

func opening(text string) func(*queue.Spec) { return func(s *queue.Spec) { s.Hours = hoursOf(text) } }

// timed returns a rule for a queue with hours, whose jobs of cost 1 wait from noon on a Tuesday.
func timed(what, rate, hours, want string, change ...func(*queue.Spec)) rule {
	return rule{what, func(r *rig) {
		q := r.queue("q", rate, append(change, opening(hours))...)
		t0, n := r.clock.Now(), len(strings.Fields(want))
		r.appendNumbered(q, n)
		r.sameDepartures(r.departures(q, t0, n), want)
		if i := r.info(q); i.Lost != 0 {
			r.Errorf("%d slots lost", i.Lost)
		}
	}}
}

var hoursRules = []rule{
	timed("within the hours the rate decides", "1/h", "08:00-20:00", "j1@0s j2@1h0m0s j3@2h0m0s"),
	timed(
		"nothing leaves outside the hours, and the rate goes on where they begin", "1/3h", "08:00-20:00",
		"j1@0s j2@3h0m0s j3@6h0m0s j4@20h0m0s j5@23h0m0s j6@26h0m0s j7@29h0m0s j8@44h0m0s",
	),
	timed("the end of a span is outside", "1/4h", "08:00-16:00", "j1@0s j2@20h0m0s j3@24h0m0s j4@44h0m0s"),
	timed("without a rate, all leave when the hours begin", "unlimited", "14:00-15:00", "j1@2h0m0s j2@2h0m0s"),
	timed("spans over midnight", "1/5h", "22:00-06:00", "j1@10h0m0s j2@15h0m0s j3@34h0m0s j4@39h0m0s"),
	timed(
		"single days", "1/h", "sat 10:00-12:00; mon,sun 00:00-01:00",
		"j1@94h0m0s j2@95h0m0s j3@108h0m0s j4@132h0m0s j5@262h0m0s",
	),
	timed("spans that touch are one", "1/h", "11:00-13:00; 13:00-14:00", "j1@0s j2@1h0m0s j3@23h0m0s"),
	timed(
		"another zone, and closed dates", "1/2h", "09:00-12:00 in Asia/Kolkata but 2026-09-02 2026-09-03",
		"j1@63h30m0s j2@65h30m0s j3@87h30m0s",
	),
	timed(
		"a burst leaves when the hours begin", "1/h", "13:00-15:00",
		"j1@1h0m0s j2@1h0m0s j3@1h0m0s j4@2h0m0s j5@25h0m0s", bursting(3),
	),
	timed(
		"a quota of a day whose window begins outside the hours", "unlimited", "08:00-20:00",
		"j1@0s j2@0s j3@20h0m0s j4@20h0m0s j5@44h0m0s", limited("quota 2/d"),
	),
	{"the ETA, and the reason for waiting", func(r *rig) {
		q := r.queue("q", "1/3h", opening("08:00-20:00"))
		t0 := r.clock.Now()
		a := r.appendNumbered(q, 8)
		for i, want := range []int{0, 3, 6, 20, 23, 26, 29, 44} {
			if at := t0.Add(time.Duration(want) * time.Hour); instantOf(a[i].ETA.At) != at || a[i].ETA.Exact {
				r.Errorf("%s is expected in %v, exact %v; want %dh, roughly", a[i].ID, instantOf(a[i].ETA.At).Sub(t0),
					a[i].ETA.Exact, want)
			}
		}
		r.waitsFor(causeOnly(cause.Drainer), q, "j1")
		r.waitsFor(causeOnly(cause.Rate), q, "j4")
		r.clock.Advance(9 * time.Hour)
		r.waitsFor(lasting(cause.Hours, t0.Add(20*time.Hour), "08:00-20:00 UTC"), q, "j1", "j8")
		r.grant(q, 9)
	}},
	{"hours of a parent apply to its children", func(r *rig) {
		r.queue("g", "unlimited", opening("08:00-13:00"))
		q := r.queue("g.a", "1/h", opening("12:00-20:00"))
		t0 := r.clock.Now()
		a := r.appendNumbered(q, 3)
		if at := instantOf(a[1].ETA.At); at != t0.Add(24*time.Hour) {
			r.Errorf("j2 is expected in %v", at.Sub(t0))
		}
		r.deliver(r.grant(q, 9, "j1")...)
		r.clock.Advance(2 * time.Hour)
		shut := lasting(cause.Hours, t0.Add(20*time.Hour), "08:00-13:00 UTC")
		shut.Queue = "g"
		r.waitsFor(shut, q, "j2")
		r.grant(q, 9)
		r.clock.Set(t0.Add(21 * time.Hour))
		r.waitsFor(lasting(cause.Hours, t0.Add(24*time.Hour), "12:00-20:00 UTC"), q, "j2")
		r.grant(q, 9)
		r.clock.Set(t0.Add(24 * time.Hour))
		r.deliver(r.grant(q, 9, "j2")...)
	}},
	{"hours of lanes hold up no other lanes", func(r *rig) {
		timed := laneRate("1/s")
		timed.Hours = hoursOf("15:00-16:00")
		q := r.putWithLanes("q", "1/h", "x1 x2 y1 y2 z1", everyLane(queue.LaneRule{Hours: hoursOf("08:00-13:00")}),
			except(letters['y'], queue.LaneRule{}), except(letters['z'], timed))
		t0 := r.clock.Now()
		r.waitsFor(lasting(cause.LaneHours, t0.Add(3*time.Hour), "15:00-16:00 UTC"), q, "z1")
		if at := r.job(q, "z1").ETA.At; instantOf(at) != t0.Add(3*time.Hour) {
			r.Errorf("z1 is expected in %v", instantOf(at).Sub(t0))
		}
		for _, next := range []struct {
			in int
			id string
		}{{0, "x1"}, {1, "y1"}, {2, "y2"}, {3, "z1"}, {20, "x2"}} {
			at := t0.Add(time.Duration(next.in) * time.Hour)
			if next.in > 0 {
				r.clock.Set(at.Add(-time.Minute))
				r.grant(q, 9)
			}
			r.clock.Set(at)
			r.deliver(r.grant(q, 9, next.id)...)
		}
	}},
	{"hours that close now hold back what waits, and hours removed let it go", func(r *rig) {
		q := r.queue("q", "1/s")
		t0 := r.clock.Now()
		r.appendNumbered(q, 5)
		r.deliver(r.grant(q, 9, "j1")...)
		r.queue(q, "1/s", opening("13:00-14:00"))
		r.clock.Advance(5 * time.Second)
		r.grant(q, 9)
		if i := r.info(q); instantOf(i.Next) != t0.Add(time.Hour) {
			r.Errorf("next at %v", instantOf(i.Next).Sub(t0))
		}
		r.queue(q, "1/s", opening("13:00-14:00"), withCapacity(77))
		r.grant(q, 9)
		r.queue(q, "1/s", opening("11:00-14:00"))
		r.deliver(r.grant(q, 9, "j2")...)
		r.queue(q, "1/s", opening("13:00-14:00"))
		r.clock.Advance(5 * time.Second)
		r.queue(q, "1/s")
		r.deliver(r.grant(q, 9, "j3")...)
	}},
	{"jobs that are due, retried or released outside the hours wait for them", func(r *rig) {
		q := r.queue("q", "unlimited", opening("11:00-13:00"))
		t0 := r.clock.Now()
		r.schedule(later(t0.Add(2*time.Hour), q, "a"))
		r.accept(q, "b", "c")
		v := r.grant(q, 9, "b", "c")
		r.clock.Advance(59 * time.Minute)
		r.fail(time.Hour, v[0])
		r.release(v[1])
		r.clock.Set(t0.Add(3 * time.Hour))
		r.grant(q, 9)
		r.clock.Set(t0.Add(23 * time.Hour))
		r.deliver(r.grant(q, 9, "a", "b", "c")...)
	}},
	{"a pull queue keeps its hours, alone and in a group", func(r *rig) {
		r.queue("g", "unlimited", opening("08:00-13:00"))
		for _, q := range []string{"g.p", "p"} {
			r.queue(q, "1/s", pulled, opening("12:00-14:00"))
			r.accept(q, "a", "b")
			v := r.do(r.pulling("worker", q, 9)).Jobs
			r.sameIDs(v, "a")
			r.deliver(v...)
		}
		r.clock.Advance(90 * time.Minute)
		r.sameIDs(r.do(r.pulling("worker", "g.p", 9)).Jobs)
		r.sameIDs(r.do(r.pulling("worker", "p", 9)).Jobs, "b")
	}},
	{"hours last for years", func(r *rig) {
		q := r.queue("q", "1/h", opening("mon 08:00-09:00"))
		r.appendNumbered(q, 80)
		r.weekly(q, 80)
	}},
	{"hours of lanes last for years", func(r *rig) {
		q := r.queue("q", "1/h", everyLane(queue.LaneRule{Hours: hoursOf("mon 08:00-09:00")}))
		for n := range 80 {
			r.appendToLanes(q, fmt.Sprint("x", n))
		}
		r.weekly(q, 80)
	}},
}

// weekly checks that a job leaves each Monday at 08:00.
func (r *rig) weekly(q string, weeks int) {
	r.Helper()
	t0 := r.clock.Now()
	for n := range weeks {
		r.clock.Set(t0.Add(time.Duration(n)*7*24*time.Hour + 140*time.Hour))
		_, err := r.e.Sweep(r.ctx, r.partition(q))
		r.check(err)
		v := r.reserve(q, 9)
		if len(v) != 1 {
			r.Fatalf("in week %d %d jobs leave", n, len(v))
		}
		r.deliver(v...)
	}
}

var hoursSpringRules = []rule{
	{"a night on which clocks go forward is shorter, and skips no span", func(r *rig) {
		q := r.queue("q", "1/h", opening("sun 01:00-02:30; sun 05:00-06:00 in Europe/Berlin"))
		t0 := r.clock.Now() // noon on Saturday
		r.appendNumbered(q, 4)
		// 01:00 is midnight UTC, 02:00 is skipped, 05:00 is 03:00 UTC; a week later it is summer time.
		r.sameDepartures(r.departures(q, t0, 4), "j1@12h0m0s j2@13h0m0s j3@15h0m0s j4@179h0m0s")
	}},
}

// hoursScenarios begin at 22:59 on the evening before clocks go forward in Berlin.
var hoursScenarios = []scenario{
	{name: "closed nights", set: plainly("1/7m", 150, opening("08:00-14:10 in Europe/Berlin"))},
	{name: "closed nights, and bursts", set: plainly("1/7m", 150, opening("08:00-12:10 in Europe/Berlin"), bursting(5))},
	{name: "short hours without a rate", set: plainly("unlimited", 30, opening("23:00-23:10"))},
	{name: "hours and a quota", set: plainly("1/m", 120, opening("06:00-08:00"), limited("quota 50/d"))},
	{
		name: "hours too short for a quota",
		set:  plainly("1/m", 100, opening("06:00-06:30; 20:00-20:15"), limited("quota 500/d")),
	},
	{name: "hours of a parent", of: "g.a", set: func(r *rig) {
		r.queue("g", "1/m", opening("07:00-09:00"))
		r.queue("g.a", "1/90s", opening("08:00-10:00"))
		r.fills("g.a", 80)
	}},
	{name: "hours of some lanes", set: func(r *rig) {
		r.queue("q", "6/m", except("lane-0", queue.LaneRule{Hours: hoursOf("23:20-23:30; 01:00-02:00")}))
		r.spread("q", 40, 300)
	}},
}
