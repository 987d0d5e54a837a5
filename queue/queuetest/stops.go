package queuetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

var stopRules = []rule{
	{"a throttled job waits at its turn and spends no attempt", func(r *rig) {
		for verdict, how := range map[queue.Verdict]queue.AttemptOutcome{
			queue.Throttle: queue.AttemptThrottled, queue.Down: queue.AttemptDown,
		} {
			q := r.queue("q", "unlimited", leased(time.Minute, 2))
			r.accept(q, "a", "b")
			t0 := r.clock.Now().Time()
			v := r.grant(q, 1, "a")
			r.clock.Advance(time.Second)
			s := settlement(verdict, v[0])
			s.Reason = "not now"
			r.settled(queue.Waiting, s)
			if i := r.job(q, "a"); i.State != queue.Waiting || i.Attempts != 0 || i.Position != 1 {
				r.Errorf("it is %+v", i)
			}
			r.timeline(t0, q, "a", wantAttempt{0, 1, "client@bench", how, "not now"})
			r.settled(queue.Waiting, s)
			if i := r.info(q); i.Throttled+i.Down != 1 || (i.Down == 1) != (verdict == queue.Down) ||
				i.Released+i.Retried != 0 || i.Waiting != 2 || i.Leased != 0 {
				r.Errorf("%v counted %+v", verdict, i)
			}
			v = r.grant(q, 2, "a", "b")
			if v[0].Attempt != 1 {
				r.Errorf("it is attempt %d", v[0].Attempt)
			}
			r.deliver(v...)
			r.delete(q)
		}
	}},
	{"its slot was used", func(r *rig) {
		for _, verdict := range []queue.Verdict{queue.Throttle, queue.Down} {
			q := r.queue("q", "1/m", limited("quota 2/h"))
			r.clock.Advance(time.Second) // an earlier departure may not have been counted
			r.accept(q, "a")
			t0 := r.clock.Now()
			r.settleWith(verdict, "", 0, r.grant(q, 1, "a")[0])
			if at := r.info(q).Next; instantOf(at) != t0.Add(time.Minute) {
				r.Errorf("%v: the next may leave at %v, want a minute after %v", verdict, at, t0.Time())
			}
			r.clock.Advance(time.Minute)
			r.settleWith(verdict, "", 0, r.grant(q, 1, "a")[0])
			if used := r.info(q).Limits[0].Window.Used; used != 2 {
				r.Errorf("%v: %d are used, want 2", verdict, used)
			}
			r.delete(q)
			r.clock.Advance(24 * time.Hour)
		}
	}},
	{"nothing leaves before the stop ends, and then the rate applies without a burst", func(r *rig) {
		for _, tt := range []struct {
			rate     string
			change   func(*queue.Spec)
			interval time.Duration
		}{
			{"10/s", func(s *queue.Spec) { s.Burst = 5 }, 100 * time.Millisecond},
			{"unlimited", limited("5/s 7"), 200 * time.Millisecond},
			{"1/m", limited("quota 50/h"), time.Minute},
		} {
			q := r.queue("q", tt.rate, tt.change)
			r.appendNumbered(q, 9)
			stop := r.throttles(q, 2*time.Hour)
			r.stops(q, stop, queue.StopThrottled, "429 slow down")
			r.clock.Advance(time.Hour)
			r.grant(q, 9)
			r.clock.Set(stop - leaky.Instant(queue.Horizon.Microseconds()) - 1)
			r.grant(q, 9)
			r.checkDepartures(q, 9, stop, tt.interval)
			r.stops(q, 0, "", "")
			r.delete(q)
			r.clock.Advance(24 * time.Hour)
		}
	}},
	{"a queue without a target stops, whatever its circuit and rate, until the next put", func(r *rig) {
		adapts := adapting("1/s", "10/s")
		q := r.queue("q", "10/s", adapts, limited("quota 5/h"))
		r.clock.Advance(time.Second)
		r.accept(q, "a", "b")
		for range 7 { // more often than the circuit allows, and than the quota would
			s := settlement(queue.Throttle, r.grant(q, 1, "a")[0])
			s.After, s.NoTarget, s.Reason = time.Minute, true, "none"
			if a := r.settle(s)[0]; a.Stale || a.State != queue.Waiting || a.Effect != (queue.Effect{Stopped: time.Minute}) {
				r.Errorf("%+v", a)
			}
			r.stops(q, r.clock.Now().Add(time.Minute), queue.StopNoTarget, "none")
			r.checkStatus(status.NoTarget, 0, q)
			r.waitsFor(lasting(cause.NoTarget, r.clock.Now().Add(time.Minute), "none"), q, "a")
			r.grant(q, 9)
			r.clock.Advance(time.Minute)
		}
		if i := r.info(q); i.Circuit.Open() || i.Circuit.Failures > 0 || i.Rate != i.Spec.Rate ||
			i.Limits[0].Window.Used > 0 {
			r.Errorf("circuit %+v, rate %v, limits %+v", i.Circuit, i.Rate, i.Limits)
		}
		s := settlement(queue.Throttle, r.grant(q, 1, "a")[0])
		s.After, s.NoTarget = time.Hour, true
		r.settle(s)
		r.put(spec(q, "10/s", adapts, func(s *queue.Spec) { s.Deliver = json.RawMessage(`{"x": {}}`) }))
		r.stops(q, 0, "", "")
		r.checkStatus(status.Flowing, 0, q)
		r.grant(q, 9, "a")
	}},
	{"the same holds when no client asks until much later", func(r *rig) {
		q := r.queue("q", "1/s", func(s *queue.Spec) { s.Burst = 3 })
		r.appendNumbered(q, 9)
		stop := r.throttles(q, time.Hour)
		r.clock.Set(stop.Add(1500 * time.Millisecond)) // which earns one and a half
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 2 || res.Lost[q] != 1 {
			r.Errorf("%d leave, %v were lost; want 2 and 1", len(res.Jobs), res.Lost)
		}
	}},
	{"the queue is visited exactly at the end of the stop, and the stopped time is not lost", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		stop := r.throttles(q, 3*time.Second)
		for r.clock.Now() < stop-25_000 {
			res := r.reserveAs("client", q, 9)
			if len(res.Jobs) > 0 || len(res.Lost) > 0 || res.Next <= 0 {
				r.Fatalf("%v before it is over: %+v", stop.Sub(r.clock.Now()), res)
			}
			r.clock.Advance(res.Next)
		}
		if now := r.clock.Now(); now != stop-25_000 {
			r.Errorf("the last look is %v before it is over", stop.Sub(now))
		}
		r.deliver(r.grant(q, 9, "a")...)
	}},
	{"when many drainers are throttled at once, the latest instant counts", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 40)...)
		var all []queue.Reservation
		for i := range 8 {
			all = append(all, r.reserveAs(fmt.Sprint("client", i), q, 5).Jobs...)
		}
		now := r.clock.Now()
		r.crowd(len(all), func(i int) int {
			s := settlement(queue.Throttle, all[i])
			s.After, s.Reason = time.Duration(i+1)*time.Second, fmt.Sprint(i)
			if out, err := r.e.Settle(r.ctx, []queue.Settlement{s}); err != nil || out[0].State != queue.Waiting {
				r.Errorf("%+v %v", out, err)
			}
			return 0
		})
		r.stops(q, now.Add(40*time.Second), queue.StopThrottled, "39")
		if i := r.info(q); i.Throttled != 40 || i.Waiting != 40 {
			r.Errorf("%+v", i)
		}
		r.clock.Advance(40*time.Second - queue.Horizon - time.Microsecond)
		for i := range 8 {
			r.sameIDs(r.reserveAs(fmt.Sprint("client", i), q, 5).Jobs)
		}
		r.clock.Advance(queue.Horizon + time.Microsecond)
		r.grant(q, 40, numbered("j", 40)...)
	}},
	{"a shorter stop changes nothing, a longer one replaces it, and none lasts more than a day", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c", "d")
		v := r.grant(q, 4, "a", "b", "c", "d")
		now := r.clock.Now()
		for i, tt := range []struct{ after, stopped time.Duration }{
			{time.Minute, time.Minute}, {time.Second, 0}, {time.Hour, time.Hour}, {99 * time.Hour, queue.MaxStop},
		} {
			if e := r.settleWith(queue.Throttle, fmt.Sprint(i), tt.after, v[i]); e.Stopped != tt.stopped {
				r.Errorf("%v: stopped for %v, want %v", tt.after, e.Stopped, tt.stopped)
			}
		}
		r.stops(q, now.Add(queue.MaxStop), queue.StopThrottled, "3")
	}},
	{"jobs granted before the stop leave, and a released one gains nothing", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 3, "a", "b", "c")
		stop := r.clock.Now().Add(time.Minute)
		r.settleWith(queue.Throttle, "", time.Minute, v[0])
		r.deliver(v[1])
		r.release(v[2])
		r.grant(q, 9)
		r.clock.Set(stop)
		r.grant(q, 9, "a", "c")
	}},
	{"a lane stops alone; a job without a lane stops the queue", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 x2 y1 y2", except("y", queue.LaneRule{}))
		t0 := r.clock.Now()
		v := r.grant(q, 1, "x1")
		s := settlement(queue.Throttle, v[0])
		s.After, s.LaneOnly = time.Second, true
		if got := r.settle(s)[0]; got.State != queue.Waiting || got.Effect != (queue.Effect{Stopped: time.Second}) {
			r.Errorf("%+v", got)
		}
		r.stops(q, 0, "", "")
		r.waitsFor(lasting(cause.Throttled, t0.Add(time.Second), ""), q, "x1", "x2")
		r.sameDepartures(r.departureTimes(q, t0, 4), "y1@100ms y2@200ms x1@1s x2@1.1s")
		r.accept(q, "k")
		r.clock.Advance(time.Second)
		s = settlement(queue.Throttle, r.grant(q, 1, "k")[0])
		s.After, s.LaneOnly = time.Second, true
		r.settled(queue.Waiting, s)
		r.stops(q, r.clock.Now().Add(time.Second), queue.StopThrottled, "")
	}},
	{"a stopped lane has earned nothing either, and its eta shows that", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 x3", everyLane(queue.LaneRule{Rate: laneRate("1/s").Rate, Burst: 3}),
		)
		t0 := r.clock.Now()
		s := settlement(queue.Throttle, r.grant(q, 1, "x1")[0])
		s.After, s.LaneOnly = time.Hour, true
		r.settled(queue.Waiting, s)
		for i, id := range []string{"x1", "x2", "x3"} {
			if eta, want := r.job(q, id).ETA.At, t0.Add(time.Hour+time.Duration(i)*time.Second); instantOf(eta) != want {
				r.Errorf("%s is expected at %v, want %v", id, eta, want.Time())
			}
		}
		r.clock.Set(t0.Add(time.Hour - 500*time.Millisecond))
		r.sameDepartures(r.departureTimes(q, t0, 3), "x1@1h0m0s x2@1h0m1s x3@1h0m2s")
	}},
	{"in a group, a stop applies to the child, or to the parent's own jobs", func(r *rig) {
		for _, stopped := range []string{"a", "p"} {
			r.group("p 10/s 5", "a unlimited", "b unlimited")
			t0 := r.clock.Now()
			r.appendGroup(stopped + "1 " + stopped + "2")
			stop := r.throttles(named(stopped), time.Minute)
			r.appendGroup("b1 b2 b3")
			r.deliver(r.grant("ses", 9, "b1", "b2", "b3")...) // one of 5 was used
			r.waitsFor(lasting(cause.Throttled, stop, "429 slow down"), named(stopped), stopped+"1", stopped+"2")
			r.clock.Set(stop - 1_000_000)
			r.sameDepartures(r.departureTimes("ses", t0, 2), map[string]string{
				"a": "a1@1m0s a2@1m0s", "p": "p1@1m0s p2@1m0.1s",
			}[stopped])
			r.clear("abp")
		}
	}},
	{"a stop counts in ETA, next, why, quote, and the promise of a full queue", func(r *rig) {
		q := r.queue("q", "1/s", withCapacity(3), func(s *queue.Spec) { s.Burst = 2 })
		r.accept(q, "a", "b")
		stop := r.throttles(q, time.Minute)
		a := r.accept(q, "c")[0]
		if instantOf(a.ETA.At) != stop.Add(2*time.Second) || a.ETA.Exact {
			r.Errorf("it is expected at %+v, want %v", a.ETA, stop.Add(2*time.Second).Time())
		}
		r.checkFull(q, "d", time.Minute)
		r.waitsFor(lasting(cause.Throttled, stop, "429 slow down"), q, "a", "b", "c")
		i, lane := r.lane(q, "")
		lineup := r.lineup(q)
		if instantOf(i.Next) != stop {
			r.Errorf("the next may leave at %v", i.Next)
		}
		answer, err := quote.Request{Jobs: 1, Rate: &i.Spec.Rate}.Quote(&lineup, &lane)
		r.check(err)
		if instantOf(answer.Now.Drained) != stop.Add(2*time.Second) || !answer.Then.Drained.Equal(answer.Now.Drained) {
			r.Errorf("it is drained at %v, at the other rate at %v", answer.Now.Drained, answer.Then.Drained)
		}
		r.cancels(queue.Cancelled, q, "c")
		r.lapsed(expiringJob(stop.Add(1999*time.Millisecond), q, "late"), stop.Add(2*time.Second))
	}},
	{"a pause takes precedence over a stop, and resuming ends both", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 4 })
		r.appendNumbered(q, 6)
		stop := r.throttles(q, time.Minute)
		r.pauses(q, stop.Add(time.Minute), "maintenance")
		r.clock.Set(stop.Add(time.Second))
		r.grant(q, 9)
		r.clock.Set(stop.Add(time.Minute))
		r.grant(q, 1, "j1")
		r.settleWith(queue.Throttle, "again", time.Hour, r.grant(q, 1, "j2")[0])
		r.check(r.e.Resume(r.ctx, q))
		r.stops(q, 0, "", "")
		if last := r.changes(q, 1)[0]; last.What != changekind.Resumed || last.Detail != changelog.StopLifted {
			r.Errorf("recorded as %+v", last)
		}
		r.checkDepartures(q, 5, r.clock.Now(), 100*time.Millisecond)
	}},
	{"a put keeps the stop, and a queue made again has none", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		stop := r.throttles(q, time.Minute)
		r.queue(q, "1/s")
		r.stops(q, stop, queue.StopThrottled, "429 slow down")
		r.clock.Set(stop - 1_000_000)
		r.sameDepartures(r.departureTimes(q, stop, 2), "a@0s b@1s")
		r.accept(q, "c")
		r.throttles(q, time.Hour)
		r.delete(q)
		r.queue(q, "10/s")
		r.stops(q, 0, "", "")
	}},
	{"a clock that jumps back takes the stop along, and one that jumps ahead ends it", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a", "b")
		stop := r.throttles(q, time.Minute)
		r.clock.Advance(-time.Hour)
		r.stops(q, stop.Add(-time.Hour), queue.StopThrottled, "429 slow down")
		r.clock.Advance(20 * 24 * time.Hour)
		r.deliver(r.grant(q, 9, "a")...)
	}},
	{"every pace holds whatever receivers answer, and nothing departs during a stop", func(r *rig) {
		for seed := range uint64(3) {
			r.stopStorm(rand.New(rand.NewPCG(seed, 46)), fmt.Sprint("g.q", seed))
		}
	}},
}

// stopStorm settles with random answers of the receiver and checks the departures.
func (r *rig) stopStorm(rnd *rand.Rand, name string) {
	r.Helper()
	s := spec(name, "20/s", limited("5/s 7"), func(s *queue.Spec) {
		s.Burst = 1 + rnd.Int64N(3)
		s.Circuit.MinProbe = unit.Duration(100 * time.Millisecond)
	})
	r.put(s)
	var starts []law.Start
	for step, n := 0, 0; step < 500; step++ {
		if rnd.IntN(3) == 0 && r.info(name).Waiting < 40 {
			for range 1 + rnd.IntN(8) {
				r.acceptJobs(costing(1+rnd.Int64N(3), name, fmt.Sprint("j", n)))
				n++
			}
		}
		stop := instantOf(r.info(name).Stop.Until)
		got := r.reserve(name, 1+rnd.IntN(9))
		for _, v := range got {
			if r.departure(v) < stop {
				r.Errorf("%s departs %v before the stop ends", v.ID, stop.Sub(r.departure(v)))
			}
			starts = append(starts, law.Start{At: time.Duration(r.departure(v)) * time.Microsecond, Cost: v.Cost})
		}
		for _, v := range got {
			verdict := []queue.Verdict{
				queue.Deliver, queue.Deliver, queue.Throttle, queue.Down, queue.Down, queue.Down,
			}[rnd.IntN(6)]
			r.settleWith(verdict, "", time.Duration(rnd.IntN(2000))*time.Millisecond, v)
		}
		r.clock.Advance(time.Duration(rnd.IntN(400)) * time.Millisecond)
		if rnd.IntN(50) == 0 {
			r.clock.Advance(2 * time.Minute)
		}
	}
	r.lawful(name, law.Law{Rate: s.Rate, Burst: s.Burst, MaxCost: 3, Slack: rounding}, starts)
	r.lawful(name, law.Law{Rate: s.Limits[0].Rate, Burst: s.Limits[0].Burst, MaxCost: 3, Slack: rounding}, starts)
	if i := r.info(name); len(starts) < 100 || i.Throttled < 20 || i.Down < 20 || i.Delivered < 20 {
		r.Errorf("%d departures of %+v are too few to say anything", len(starts), i)
	}
	r.check(r.e.Delete(r.ctx, name, queue.AnyRevision, true))
}
