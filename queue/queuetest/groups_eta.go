package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
)

// awaits compares when jobs are expected to leave, counted from now, with the answers to their appends.
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
			{"b1", 100 * ms}, // a takes a turn before it
			{"b2", 300 * ms}, // a twice, and b1
			{"p1", 200 * ms},        // a turn of each
			{"p2", 500 * ms}, // all there are
			{"c1", 300 * ms},        // a turn of each
			{"c2", time.Second},     // its own rate
			{"c3", 2 * time.Second}, // and again
			{"a3", 900 * ms}, // all there are; a turn of each before each would be 11
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
