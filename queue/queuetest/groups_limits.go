package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
)

var groupLimitRules = []rule{
	{"the parent's quota covers all", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 3/m")))
		r.group("a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 b1 b2 p1")
		r.sameDepartures(r.departures("ses", t0, 5), "p1@0s a1@0s b1@0s a2@1m0s b2@1m0s")
		r.used("ses", 2)
		r.used("ses.a")
	}},
	{"the parent's second pace covers all", func(r *rig) {
		r.put(groupSpec("p 10/s", limited("2/s 3")))
		r.group("a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		r.sameDepartures(r.departureTimes("ses", t0, 6), "a1@0s b1@100ms a2@200ms b2@500ms a3@1s b3@1.5s")
	}},
	{"a child's quota applies to the child and holds up nobody else", func(r *rig) {
		r.put(groupSpec("p 10/s", limited("quota 100/m")))
		r.put(groupSpec("a unlimited", limited("quota 1/m")))
		r.group("b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 b1 b2 b3")
		r.sameDepartures(r.departures("ses", t0, 5), "a1@0s b1@100ms b2@200ms b3@300ms a2@1m0s")
		r.used("ses", 1)
		r.used("ses.a", 1)
	}},
	{"a child with too little quota left forfeits it and uses up nothing of its parent's", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 100/m", "1/m 50")))
		r.put(groupSpec("a unlimited", limited("quota 10/m")))
		r.group("b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1*6 a2*6 a3 b1 b2")
		r.deliver(r.grant("ses", 9, "a1", "b1", "b2")...)
		r.used("ses", 8, -1)
		r.used("ses.a", 10)
		r.sameDepartures(r.departures("ses", t0, 2), "a2@1m0s a3@1m0s")
	}},
	{"jobs stopped by a child's own quota use up nothing of its parent's, even a nearly used one", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 10/m")))
		r.put(groupSpec("a unlimited", limited("quota 5/m")))
		r.group("b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1*4 b1*4")
		r.deliver(r.grant("ses", 9, "a1", "b1")...)
		r.appendGroup("a2*3 b2 b3")
		r.deliver(r.grant("ses", 9, "b2", "b3")...)
		r.used("ses", 10)
		r.used("ses.a", 5)
		r.sameDepartures(r.departures("ses", t0, 1), "a2@1m0s")
	}},
	{"a parent with too little quota left holds all up, and the order stays", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 10/m")))
		r.group("a unlimited")
		r.put(groupSpec("b unlimited", limited("quota 100/m", "1/m 50")))
		t0 := r.clock.Now()
		r.appendGroup("a1*6 a2 b1*6 b2")
		r.deliver(r.grant("ses", 9, "a1")...)
		before := r.info("ses.b")
		r.grant("ses", 9)
		r.used("ses", 10)
		r.used("ses.b", 0, -1)
		if after := r.info("ses.b"); after.Limits[1] != before.Limits[1] || after.Bucket != before.Bucket {
			r.Errorf(
				"the paces of b are %+v and %+v, were %+v and %+v", after.Bucket, after.Limits[1], before.Bucket,
				before.Limits[1],
			)
		}
		r.sameDepartures(r.departures("ses", t0, 3), "b1@1m0s a2@1m0s b2@1m0s")
	}},
	{"a released job gives back to both quotas", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 3/m")))
		r.put(groupSpec("a unlimited", limited("quota 2/m")))
		r.group("b unlimited")
		r.clock.Advance(time.Second) // the quotas were there before
		r.appendGroup("a1 b1 a2 b2")
		v := r.grant("ses", 9, "a1", "b1", "a2")
		r.grant("ses", 9)
		r.release(v[0])
		r.used("ses", 2)
		r.used("ses.a", 1)
		r.grant("ses", 9, "b2")
		r.release(v[1])
		r.used("ses", 2)
		r.used("ses.a", 1)
	}},
	{"the eta and the reason for waiting take both quotas into account", func(r *rig) {
		const reason = "3/m"
		r.put(groupSpec("p 1/s", limited("quota "+reason)))
		r.group("a unlimited")
		r.put(groupSpec("b unlimited", limited("quota 1/h")))
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 a4 b1 b2")
		r.awaits("ses.a", map[string]time.Duration{"a1": time.Second, "a2": time.Minute, "a3": 62 * time.Second})
		r.awaits("ses.b", map[string]time.Duration{"b1": time.Second, "b2": time.Hour})
		r.waitsFor(queue.Why{By: cause.Parent, Queue: "ses"}, "ses.a", "a1")
		r.waitsFor(queue.Why{By: cause.Quota, Queue: "ses", Reason: reason}, "ses.a", "a2", "a3")
		r.waitsFor(queue.Why{By: cause.Quota, Reason: "1/h"}, "ses.b", "b2")
		r.departures("ses", t0, 3)
		shut := lasting(cause.Quota, t0.Add(time.Minute), reason)
		shut.Queue = "ses"
		r.waitsFor(shut, "ses.a", "a3", "a4")
		r.waitsFor(lasting(cause.Quota, t0.Add(time.Hour), "1/h"), "ses.b", "b2")
		if a := r.outcome(
			queue.Lapsed, expiringJob(t0.Add(time.Minute), "ses.a", "late"),
		); instantOf(a.ETA.At) <= t0.Add(time.Minute) {
			r.Errorf("%+v", a)
		}
	}},
	{"a full child promises no room before its parent's next window", func(r *rig) {
		r.put(groupSpec("p unlimited", limited("quota 1/m")))
		r.put(groupSpec("a unlimited", withCapacity(1)))
		r.appendGroup("p1 a1")
		r.deliver(r.grant("ses", 9, "p1")...)
		r.checkFull("ses.a", "a2", time.Minute)
	}},
	{"a quota set on a parent counts from then on", func(r *rig) {
		r.group("a unlimited", "b unlimited", "p unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 b1 b2 b3")
		r.deliver(r.grant("ses", 2, "a1", "b1")...)
		r.put(groupSpec("p unlimited", limited("quota 2/m")))
		r.sameDepartures(r.departures("ses", t0, 4), "a2@0s b2@0s a3@1m0s b3@1m0s")
	}},
	{"deleting the child or its parent does not get around their quotas", func(r *rig) {
		child := groupSpec("a unlimited", limited("quota 2/m"))
		parent := groupSpec("p unlimited", limited("quota 3/m"))
		r.put(parent)
		r.put(child)
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 p1")
		r.deliver(r.grant("ses", 9, "p1", "a1", "a2")...)
		r.delete("ses.a")
		r.delete("ses")
		r.put(child)
		r.put(parent)
		r.used("ses", 3)
		r.used("ses.a", 2)
		r.appendGroup("a3 p2")
		r.sameDepartures(r.departures("ses", t0, 2), "a3@1m0s p2@1m0s")
	}},
}

// awaits compares the etas of jobs, counted from now.
func (r *rig) awaits(queueName string, want map[string]time.Duration) {
	r.Helper()
	for id, in := range want {
		if j := r.job(queueName, id); instantOf(j.ETA.At) != r.clock.Now().Add(in) || j.ETA.Exact {
			r.Errorf(
				"%s is expected in %v, exact %v; want %v, roughly", id, instantOf(j.ETA.At).Sub(r.clock.Now()),
				j.ETA.Exact, in,
			)
		}
	}
}

var groupETARules = []rule{
	{"the eta counts the turns of siblings and the child's own rate", func(r *rig) {
		const ms = time.Millisecond
		r.group("p 10/s", "a unlimited", "b unlimited", "c 1/s")
		t0 := r.clock.Now()
		for _, tt := range []struct {
			id   string
			want time.Duration
		}{
			{"a1", 0},
			{"a2", 100 * ms},
			{"b1", 100 * ms},        // a takes a turn before it
			{"b2", 300 * ms},        // a twice, and b1
			{"p1", 200 * ms},        // a turn of each
			{"p2", 500 * ms},        // all there are
			{"c1", 300 * ms},        // a turn of each
			{"c2", time.Second},     // its own rate
			{"c3", 2 * time.Second}, // and again
			{"a3", 900 * ms},        // all there are; a turn of each before each would be 11
		} {
			if a := r.appendGroup(tt.id)[0]; instantOf(a.ETA.At) != t0.Add(tt.want) || a.ETA.Exact {
				r.Errorf(
					"%s is expected in %v, exact %v; want %v, roughly", tt.id, instantOf(a.ETA.At).Sub(t0), a.ETA.Exact,
					tt.want,
				)
			}
		}
		r.awaits("ses.a", map[string]time.Duration{"a1": 300 * ms, "a2": 700 * ms})
		r.awaits("ses.c", map[string]time.Duration{"c1": 300 * ms, "c3": 2 * time.Second})
		r.cancels(queue.Cancelled, "ses.b", "b1")
		r.cancels(queue.Cancelled, "ses.b", "b2")
		r.awaits("ses.a", map[string]time.Duration{"a1": 200 * ms, "a2": 500 * ms})
		if i := r.info("ses.c"); instantOf(i.Next) > t0 {
			r.Errorf("by its own pace the next of c could leave in %v", instantOf(i.Next).Sub(t0))
		}
	}},
	{"the eta counts a group's costs as its greatest, up to all there are", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1*5")
		// A turn of a, which has cost 1 as far as b knows.
		if a := r.appendGroup("b1")[0]; instantOf(a.ETA.At) != t0.Add(100*time.Millisecond) {
			r.Errorf("b1 is expected in %v", instantOf(a.ETA.At).Sub(t0))
		}
		// 5 and a turn of b before each: 11, but all jobs cost no more than 10.
		if a := r.appendGroup("a2")[0]; instantOf(a.ETA.At) != t0.Add(time.Second) {
			r.Errorf("a2 is expected in %v", instantOf(a.ETA.At).Sub(t0))
		}
	}},
	{"a job that its parent's pace would make late is refused", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 a2 a3 b1")
		at := t0.Add(300 * time.Millisecond) // b1, and a turn of a before each
		r.lapsed(expiringJob(at-1, "ses.b", "b2"), at)
		r.acceptJobs(expiringJob(at, "ses.b", "b3"))
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
		r.acceptJobs(expiringJob(t0+1, "ses.b", "b4")) // as in a paused queue: the departure is unknown
	}},
	{"a full child promises by the slower of its own pace and its parent's", func(r *rig) {
		const ms = time.Millisecond
		r.put(groupSpec("p 10/s"))
		r.put(groupSpec("a 2/s", withCapacity(2)))
		r.put(groupSpec("b unlimited", withCapacity(2)))
		r.appendGroup("a1 a2 b1 b2")
		r.checkFull("ses.a", "a3", 1*ms)
		r.checkFull("ses.a", "a3", 500*ms)
		r.checkFull("ses.b", "b3", 1*ms)
		r.checkFull("ses.b", "b3", 100*ms)
		r.checkFull("ses.b", "b3", 200*ms)
		r.checkFull("ses.b", "b3", 300*ms)
		r.grant("ses", 1, "a1")
		r.clock.Advance(10 * ms)
		r.checkFull("ses.b", "b3", 390*ms)
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
		r.checkFull("ses.b", "b3", 30*time.Second)
	}},
	{"a job of a group shows why it waits", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited", "c 1/s")
		r.appendGroup("a1")
		r.waitsFor(causeOnly(cause.Drainer), "ses.a", "a1")
		r.appendGroup("a2 c1 c2 p1")
		parent := queue.Why{By: cause.Parent, Queue: "ses"}
		r.waitsFor(parent, "ses.a", "a1", "a2")
		r.waitsFor(parent, "ses.c", "c1")
		r.waitsFor(causeOnly(cause.Rate), "ses.c", "c2")
		r.waitsFor(causeOnly(cause.Parent), "ses", "p1")
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{Reason: "because"}))
		r.waitsFor(queue.Why{By: cause.Paused, Queue: "ses", Reason: "because"}, "ses.a", "a1")
		r.waitsFor(queue.Why{By: cause.Paused, Reason: "because"}, "ses", "p1")
		r.check(r.e.Pause(r.ctx, "ses.a", queue.Pause{Reason: "mine"}))
		r.waitsFor(queue.Why{By: cause.Paused, Reason: "mine"}, "ses.a", "a1")
	}},
}
