package queuetest

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// awaits checks when jobs are expected to leave, counted from now, as when they were appended.
func (r *rig) awaits(queueName string, want map[string]time.Duration) {
	r.Helper()
	for id, in := range want {
		if j := r.job(queueName, id); instant(j.ETA.At) != r.clock.Now().Add(in) || j.ETA.Exact {
			r.Errorf("%s is expected in %v, exact %v; want %v, roughly", id, instant(j.ETA.At).Sub(r.clock.Now()), j.ETA.Exact, in)
		}
	}
}

var groupETARules = []rule{
	{"where a job is expected depends on the turns of its siblings, and on its own rate", func(r *rig) {
		const ms = time.Millisecond
		r.group("p 10/s", "a unlimited", "b unlimited", "c 1/s")
		t0 := r.clock.Now()
		for _, tt := range []struct {
			id   string
			want time.Duration
		}{
			{"a1", 0},
			{"a2", 100 * ms},
			{"b1", 100 * ms},        // a has its turn before it
			{"b2", 300 * ms},        // a twice, and b1
			{"p1", 200 * ms},        // a turn of each
			{"p2", 500 * ms},        // all there are
			{"c1", 300 * ms},        // a turn of each
			{"c2", time.Second},     // its own rate
			{"c3", 2 * time.Second}, // and again
			{"a3", 900 * ms},        // all there are: a turn of each before each would be 11
		} {
			if a := r.brood(tt.id)[0]; instant(a.ETA.At) != t0.Add(tt.want) || a.ETA.Exact {
				r.Errorf("%s is expected in %v, exact %v; want %v, roughly", tt.id, instant(a.ETA.At).Sub(t0), a.ETA.Exact, tt.want)
			}
		}
		r.awaits("ses.a", map[string]time.Duration{"a1": 300 * ms, "a2": 700 * ms})
		r.awaits("ses.c", map[string]time.Duration{"c1": 300 * ms, "c3": 2 * time.Second})
		r.cancels(queue.Cancelled, "ses.b", "b1")
		r.cancels(queue.Cancelled, "ses.b", "b2")
		r.awaits("ses.a", map[string]time.Duration{"a1": 200 * ms, "a2": 500 * ms})
		if i := r.info("ses.c"); instant(i.Next) > t0 {
			r.Errorf("by its own pace the next of c could leave in %v", instant(i.Next).Sub(t0))
		}
	}},
	{"costs of a group are counted as its greatest, where they are all there is", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.brood("a1*5")
		if a := r.brood("b1")[0]; instant(a.ETA.At) != t0.Add(100*time.Millisecond) { // a turn of a, of cost 1 as far as b knows
			r.Errorf("b1 is expected in %v", instant(a.ETA.At).Sub(t0))
		}
		if a := r.brood("a2")[0]; instant(a.ETA.At) != t0.Add(time.Second) { // 5 and a turn of b before each: 11, but all there are cost no more than 10
			r.Errorf("a2 is expected in %v", instant(a.ETA.At).Sub(t0))
		}
	}},
	{"a job that its parent's pace would make late is not taken", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.brood("a1 a2 a3 b1")
		at := t0.Add(300 * time.Millisecond) // b1, and a turn of a before each
		r.lapsed(until(at-1, "ses.b", "b2"), at)
		r.acceptJobs(until(at, "ses.b", "b3"))
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
		r.acceptJobs(until(t0+1, "ses.b", "b4")) // as in a queue that is paused: nothing is known
	}},
	{"a full child promises by its own pace and its parent's, whichever is slower", func(r *rig) {
		const ms = time.Millisecond
		r.put(groupSpec("p 10/s"))
		r.put(groupSpec("a 2/s", small(2)))
		r.put(groupSpec("b unlimited", small(2)))
		r.brood("a1 a2 b1 b2")
		r.promised("ses.a", "a3", 1*ms)
		r.promised("ses.a", "a3", 500*ms)
		r.promised("ses.b", "b3", 1*ms)
		r.promised("ses.b", "b3", 100*ms)
		r.promised("ses.b", "b3", 200*ms)
		r.promised("ses.b", "b3", 1*ms) // further than a full queue takes to drain is never promised
		r.grant("ses", 1, "a1")
		r.clock.Advance(10 * ms)
		r.promised("ses.b", "b3", 90*ms)
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{}))
		r.promised("ses.b", "b3", 30*time.Second)
	}},
	{"why a job of a group waits", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited", "c 1/s")
		r.brood("a1")
		r.waitsFor(because(queue.ByDrainer), "ses.a", "a1")
		r.brood("a2 c1 c2 p1")
		parent := queue.Why{By: queue.ByParent, Queue: "ses"}
		r.waitsFor(parent, "ses.a", "a1", "a2")
		r.waitsFor(parent, "ses.c", "c1")
		r.waitsFor(because(queue.ByRate), "ses.c", "c2")
		r.waitsFor(because(queue.ByParent), "ses", "p1")
		r.check(r.e.Pause(r.ctx, "ses", queue.Pause{Reason: "because"}))
		r.waitsFor(queue.Why{By: queue.ByPaused, Queue: "ses", Reason: "because"}, "ses.a", "a1")
		r.waitsFor(queue.Why{By: queue.ByPaused, Reason: "because"}, "ses", "p1")
		r.check(r.e.Pause(r.ctx, "ses.a", queue.Pause{Reason: "mine"}))
		r.waitsFor(queue.Why{By: queue.ByPaused, Reason: "mine"}, "ses.a", "a1")
	}},
}
