package queuetest

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// waitsFor checks why jobs have not left.
func (r *rig) waitsFor(want queue.Why, queueName string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		got := r.job(queueName, id).Why
		if got.By != want.By || instantOf(got.Until) != instantOf(want.Until) || got.Reason != want.Reason ||
			got.Who != want.Who || got.Note != want.Note || got.Queue != want.Queue {
			r.Errorf("%s waits for %+v, want %+v", id, got, want)
		}
	}
}

// causeOnly returns a reason with only a cause.
func causeOnly(by cause.Cause) queue.Why { return queue.Why{By: by} }

// lasting returns a reason that ends at an instant.
func lasting(by cause.Cause, at leaky.Instant, reason string) queue.Why {
	return queue.Why{By: by, Until: at.Time(), Reason: reason}
}

var whyRules = []rule{
	{"the rate, or only a drainer", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 2 })
		r.accept(q, "a", "b", "c")
		r.waitsFor(causeOnly(cause.Drainer), q, "a", "b")
		r.waitsFor(causeOnly(cause.Rate), q, "c")
		v := r.grant(q, 9, "a", "b")
		r.waitsFor(queue.Why{}, q, "a", "b")
		r.waitsFor(causeOnly(cause.Rate), q, "c")
		r.deliver(v...)
		r.waitsFor(queue.Why{}, q, "a")
		r.clock.Advance(100 * time.Millisecond)
		r.waitsFor(causeOnly(cause.Drainer), q, "c")
		u := r.queue("g.u", "unlimited")
		r.accept(u, numbered("j", 9)...)
		r.waitsFor(causeOnly(cause.Drainer), u, "j00001", "j00009")
	}},
	{"ended jobs wait for nothing", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 2, "a", "b")
		r.settled(queue.Dead, settlement(queue.Bury, v[0]))
		r.deliver(v[1])
		r.cancels(queue.Cancelled, q, "c")
		r.waitsFor(queue.Why{}, q, "a", "b", "c")
	}},
	{"the lane's rate, where it decides", func(r *rig) {
		q := r.putWithLanes(
			"q", "10/s", "x1 x2 x3 y1 k1", everyLane(queue.LaneRule{Rate: leaky.PerSecond(5)}),
			except(laneY, queue.LaneRule{}),
		)
		r.waitsFor(causeOnly(cause.Rate), q, "x1", "y1", "k1") // they take turns
		r.waitsFor(causeOnly(cause.Rate), q, "x2", "x3")
		r.deliver(r.grant(q, 1, "k1")...)
		for range 2 {
			r.clock.Advance(100 * time.Millisecond)
			r.deliver(r.reserve(q, 1)...) // x1 and y1
		}
		r.waitsFor(causeOnly(cause.LaneRate), q, "x3")
		r.clock.Advance(time.Second)
		r.waitsFor(causeOnly(cause.Drainer), q, "x2")
		r.waitsFor(causeOnly(cause.LaneRate), q, "x3")
	}},
	{"jobs in flight", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 x3 y1 k1 k2 k3", everyLane(queue.LaneRule{MaxInFlight: 2}),
			func(s *queue.Spec) { s.MaxInFlight = 4 },
		)
		v := r.grant(q, 9, "k1", "x1", "y1", "k2")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "x2", "x3", "k3")
		r.deliver(v[0])
		v = append(v, r.grant(q, 9, "x2")...)
		r.waitsFor(causeOnly(cause.LaneMaxInFlight), q, "x3")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "k3")
		r.deliver(v[2], v[3])
		r.waitsFor(causeOnly(cause.Drainer), q, "k3")
	}},
	{"its lane's limit before the queue's", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 y1", everyLane(queue.LaneRule{MaxInFlight: 1}),
			func(s *queue.Spec) { s.MaxInFlight = 1 },
		)
		v := r.grant(q, 9, "x1")
		r.waitsFor(causeOnly(cause.LaneMaxInFlight), q, "x2")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "y1")
		r.deliver(v...)
		r.waitsFor(causeOnly(cause.Drainer), q, "x2", "y1")
	}},
	{"the order", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "k1 k2 x1 x2 y1", ordered)
		v := r.grant(q, 9, "k1", "x1", "y1")
		r.waitsFor(causeOnly(cause.Ordered), q, "k2", "x2")
		r.deliver(v[0])
		r.waitsFor(causeOnly(cause.Drainer), q, "k2")
		r.fail(5*time.Second, v[1])
		due := r.clock.Now().Add(5 * time.Second)
		r.waitsFor(lasting(cause.BackingOff, due, "it failed"), q, "x1")
		r.waitsFor(causeOnly(cause.Ordered), q, "x2") // for the job that backs off
		r.clock.Set(due)
		r.waitsFor(causeOnly(cause.Drainer), q, "x1") // not for itself
		r.grant(q, 1, "k2")
	}},
	{"a pause, with its reason, before all but jobs that are not due", func(r *rig) {
		q := r.queue("q", "1/h", func(s *queue.Spec) { s.MaxInFlight = 1 })
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a")
		later := job(q, "c")
		later.NotBefore = r.clock.Now().Add(time.Minute).Time()
		r.append(later)
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "b")
		r.waitsFor(queue.Why{By: cause.Scheduled, Until: later.NotBefore}, q, "c")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "the provider is down"}))
		paused := queue.Why{By: cause.Paused, Reason: "the provider is down"}
		r.waitsFor(paused, q, "b")
		r.waitsFor(queue.Why{By: cause.Scheduled, Until: later.NotBefore}, q, "c")
		r.fail(2*time.Minute, v...)
		due := r.clock.Now().Add(2 * time.Minute)
		r.waitsFor(lasting(cause.BackingOff, due, "it failed"), q, "a")
		r.clock.Set(due)
		r.waitsFor(paused, q, "a", "b", "c")
		r.check(r.e.Resume(r.ctx, q))
		r.waitsFor(causeOnly(cause.Rate), q, "a", "b", "c")
	}},
	{"the overflow, and its hours", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full("a", "b")
		r.waitsFor(causeOnly(cause.Deferred), s.q, "a", "b")
		now := r.clock.Now().Time().UTC()
		opens := now.Truncate(time.Minute).Add(3 * time.Hour)
		night := func(spec *queue.Spec) {
			spec.Deferred.ReadmitBetween = opens.Format("15:04") + "-" + opens.Add(time.Hour).Format("15:04")
		}
		r.put(spec(s.q, "10/s", withCapacity(2), defers, night))
		r.waitsFor(queue.Why{By: cause.DeferredHours, Until: opens}, s.q, "a", "b")
		r.clock.Set(instantOf(opens))
		r.waitsFor(causeOnly(cause.Deferred), s.q, "a")
		r.cancels(queue.Cancelled, s.q, "b")
		r.waitsFor(queue.Why{}, s.q, "b")
	}},
}
