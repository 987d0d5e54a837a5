package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/status"
)

// checkStatus checks the status of a queue, by itself and in a list; until is 0 for a status without an end.
func (r *rig) checkStatus(want status.Code, until leaky.Instant, queueName string) status.Status {
	r.Helper()
	list, err := r.e.List(r.ctx, "", 1000)
	r.check(err)
	var s status.Status
	for _, i := range append(list, r.info(queueName)) {
		if i.Spec.Name != queueName {
			continue
		}
		if s = status.Of(&i); s.Code != want || instantOf(s.Until) != until {
			r.Errorf(
				"%s at %v: it is %s until %v; want %s until %v\n%+v", queueName, r.clock.Now().Time(), s.Code, s.Until,
				want, until.Time(), i,
			)
		}
	}
	return s
}

// seen lets a drainer ask for nothing, as if its handlers were all busy.
func (r *rig) seen(queueName string) {
	r.Helper()
	r.reserveAs("client", queueName, 0)
}

var statusRules = []rule{
	{"a queue is idle until it has a job, and then lacks a drainer", func(r *rig) {
		q := r.queue("q", "10/s")
		r.checkStatus(status.Idle, 0, q)
		r.accept(q, "a", "b")
		r.checkStatus(status.NoDrainer, 0, q)
		r.deliver(r.grant(q, 1, "a")...)
		r.checkStatus(status.Flowing, 0, q)
		r.clock.Advance(queue.SeenFor)
		r.checkStatus(status.Flowing, 0, q)
		r.clock.Advance(time.Microsecond)
		r.checkStatus(status.NoDrainer, 0, q)
		r.deliver(r.grant(q, 9, "b")...)
		r.checkStatus(status.Idle, 0, q)
	}},
	{"a drainer without a free handler counts as present and is granted nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		for range 3 {
			r.seen(q)
			r.checkStatus(status.Flowing, 0, q)
			r.clock.Advance(queue.SeenFor / 2)
		}
		d, err := r.e.Drainers(r.ctx)
		if err != nil || len(d.Seen) != 1 || instantOf(d.Last) != r.clock.Now().Add(-queue.SeenFor/2) ||
			instantOf(d.Now) != r.clock.Now() {
			r.Errorf("%+v, %v", d, err)
		}
		r.grant(q, 9, "a")
		r.clock.Advance(time.Minute)
		if d, err := r.e.Drainers(r.ctx); err != nil || len(d.Seen) != 0 ||
			instantOf(d.Last) != r.clock.Now().Add(-time.Minute) {
			r.Errorf("when it is gone: %+v, %v", d, err)
		}
	}},
	{"such a drainer takes expired leases back and leaves due jobs alone", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.accept(q, "a")
		r.grant(q, 1, "a")
		r.schedule(later(r.clock.Now().Add(time.Second), q, "b"))
		r.clock.Advance(11 * time.Second)
		r.seen(q)
		r.state(queue.Waiting, q, "a")
		r.state(queue.Scheduled, q, "b")
	}},
	{"a worker is no drainer, and a drainer is no worker", func(r *rig) {
		p := r.queue("p", "10/s", pulled)
		q := r.queue("q", "10/s")
		for n := 0; r.partition(q) != r.partition(p); n++ { // where a drainer would be seen
			q = r.queue(fmt.Sprint("q", n), "10/s")
		}
		r.accept(q, "a")
		r.accept(p, "a", "b", "c")
		r.checkStatus(status.NoWorker, 0, p)
		r.pull("w", p, 1, "a")
		r.checkStatus(status.Flowing, 0, p)
		r.checkStatus(status.NoDrainer, 0, q)
		r.clock.Advance(queue.SeenFor + time.Millisecond)
		r.grant(q, 9, "a")
		r.checkStatus(status.Flowing, 0, q)
		r.checkStatus(status.NoWorker, 0, p)
	}},
	{"paused, itself or by its parent", func(r *rig) {
		r.queue("ses", "100/s")
		q := r.queue("ses.otp", "10/s")
		r.accept(q, "a")
		r.seen(q)
		until := r.clock.Now().Add(time.Hour)
		r.check(r.e.Pause(audit.WithNote(r.ctx, "ann"), "ses", queue.Pause{Until: until.Time(), Reason: "invoice"}))
		if s := r.checkStatus(status.ParentPaused, until, q); s.Queue != "ses" || s.Reason != "invoice" ||
			s.Note != "ann" || s.By != "" {
			r.Errorf("%+v", s)
		}
		r.checkStatus(status.Paused, until, "ses")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.checkStatus(status.Paused, 0, q)
		r.check(r.e.Resume(r.ctx, q))
		r.check(r.e.Resume(r.ctx, "ses"))
		r.checkStatus(status.Flowing, 0, q)
	}},
	{"waiting for its own quota or its parent's", func(r *rig) {
		r.queue("ses", "unlimited", limited("quota 3/h"))
		a, b := r.queue("ses.a", "unlimited", limited("quota 2/h")), r.queue("ses.b", "unlimited")
		r.accept(a, "a1", "a2", "a3")
		r.accept(b, "b1", "b2")
		r.deliver(r.reserve(a, 9)...)
		end := leaky.Instant(r.clock.Now().Time().Truncate(time.Hour).Add(time.Hour).UnixMicro())
		if s := r.checkStatus(status.Quota, end, "ses"); s.Queue != "" || s.Reason != "3/h" {
			r.Errorf("%+v", s)
		}
		r.checkStatus(status.Quota, end, a)
		if s := r.checkStatus(status.Quota, end, b); s.Queue != "ses" || s.Reason != "3/h" {
			r.Errorf("%+v", s)
		}
		r.clock.Set(end)
		r.seen(a)
		r.checkStatus(status.Flowing, 0, a)
		r.checkStatus(status.Flowing, 0, b)
		r.checkStatus(status.Flowing, 0, "ses")
	}},
	{"its receiver", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(1, time.Second, time.Minute))
		r.accept(q, "a", "b")
		opened := r.breakdown(q)
		if s := r.checkStatus(status.CircuitOpen, opened.Add(time.Second), q); s.Reason != "refused" {
			r.Errorf("%+v", s)
		}
		r.deliver(r.probe(q, opened.Add(time.Second)))
		r.checkStatus(status.Flowing, 0, q)
		v := r.reserve(q, 1)
		r.settleWith(queue.Throttle, "429", time.Minute, v[0])
		r.checkStatus(status.Throttled, r.clock.Now().Add(time.Minute), q)
	}},
	{"waiting for jobs in flight, and for lanes", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3", func(s *queue.Spec) { s.MaxInFlight = 1 })
		v := r.grant(q, 9, "x1")
		r.checkStatus(status.MaxInFlight, 0, q)
		r.deliver(v...)
		r.checkStatus(status.Flowing, 0, q)
		r.delete(q)
		l := r.putWithLanes("l", "unlimited", "x1 x2 x3 y1", everyLane(queue.LaneRule{Rate: laneRate("1/m").Rate}))
		r.seen(l)
		r.checkStatus(status.Flowing, 0, l)
		r.deliver(r.grant(l, 9, "x1", "y1")...)
		r.checkStatus(status.Lanes, r.clock.Now().Add(time.Minute), l)
		r.clock.Advance(time.Minute)
		r.seen(l)
		r.checkStatus(status.Flowing, 0, l)
		r.delete(l)
		o := r.putWithLanes("o", "unlimited", "k1 k2 x1 x2", ordered)
		v = r.grant(o, 9, "k1", "x1")
		r.checkStatus(status.Lanes, 0, o)
		r.deliver(v[0])
		r.checkStatus(status.Flowing, 0, o)
	}},
	{"waiting for schedules and retries", func(r *rig) {
		q := r.queue("q", "unlimited")
		at := r.clock.Now().Add(time.Hour)
		r.schedule(later(at, q, "a"))
		r.seen(q)
		r.checkStatus(status.Schedule, at, q)
		r.accept(q, "b")
		r.fail(time.Minute, r.grant(q, 9, "b")...)
		r.checkStatus(status.Schedule, r.clock.Now().Add(time.Minute), q)
	}},
	{"a slow queue has not stalled", func(r *rig) {
		q := r.queue("q", "6/h")
		r.accept(q, "a", "b")
		r.deliver(r.grant(q, 9, "a")...)
		due := r.clock.Now().Add(10 * time.Minute)
		r.checkStatus(status.Flowing, due, q)
		r.clock.Set(due.Add(-time.Second))
		r.seen(q)
		r.checkStatus(status.Flowing, 0, q)
	}},
	{"a queue has stalled while due jobs do not leave", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		r.seen(q)
		r.clock.Advance(status.StalledAfter)
		r.seen(q)
		r.checkStatus(status.Flowing, 0, q)
		r.clock.Advance(time.Second)
		r.seen(q)
		r.checkStatus(status.Stalled, 0, q)
		r.grant(q, 9, "a")
		r.checkStatus(status.Flowing, 0, q)
	}},
	{"a pause does not count as stalling", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.clock.Advance(time.Hour)
		r.seen(q)
		r.check(r.e.Resume(r.ctx, q))
		r.checkStatus(status.Flowing, 0, q)
	}},
	{"a member waiting for its turn has not stalled, but a whole group can stall", func(r *rig) {
		r.queue("ses", "6/m")
		a, b := r.queue("ses.a", "unlimited"), r.queue("ses.b", "unlimited")
		r.accept(a, "a1", "a2", "a3")
		r.accept(b, "b1", "b2", "b3")
		for range 4 {
			r.deliver(r.reserve(a, 1)...)
			for range 2 {
				r.clock.Advance(5 * time.Second)
				r.seen(a)
				for _, q := range []string{a, b, "ses"} {
					i := r.info(q)
					if s := status.Of(&i); s.Code != status.Flowing {
						r.Errorf("%s: %+v of %+v", q, s, i)
					}
				}
			}
		}
		for range 4 {
			r.clock.Advance(9 * time.Second)
			r.seen(a)
		}
		for _, q := range []string{a, b, "ses"} {
			r.checkStatus(status.Stalled, 0, q)
		}
	}},
	{"a child is listed with its parent, wherever the list begins", func(r *rig) {
		for _, name := range []string{"ses", "ses-x", "ses.a", "ses.b", "t", "u.a"} {
			r.queue(name, "10/s")
		}
		for _, after := range []string{"", "ses", "ses-x", "ses.a"} {
			for limit := 1; limit < 7; limit++ {
				list, err := r.e.List(r.ctx, after, limit)
				r.check(err)
				for _, i := range list {
					if child := i.Spec.Name == "ses.a" || i.Spec.Name == "ses.b"; child != (i.Parent != nil) ||
						child && i.Parent.Spec.Name != "ses" {
						r.Errorf("%s after %q, %d of them: parent %+v", i.Spec.Name, after, limit, i.Parent)
					}
				}
			}
		}
	}},
}
