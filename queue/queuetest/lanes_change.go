package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

var laneChangeRules = []rule{
	{"a changed rate applies to resting lanes", func(r *rig) {
		const ms = time.Millisecond
		for i, tt := range []struct {
			what       string
			from, to   queue.LaneRule
			after      time.Duration // of the change, since the departure before
			want, then time.Duration // of the next departures, since the change
		}{
			{"raised late", laneRate("1/m"), laneRate("10/s"), time.Second, 0, 100 * ms},
			{"raised early", laneRate("1/m"), laneRate("10/s"), 20 * ms, 80 * ms, 180 * ms},
			{"raised a little", laneRate("1/s"), laneRate("1/800ms"), 200 * ms, 600 * ms, 1400 * ms},
			{"lifted", laneRate("1/m"), queue.LaneRule{}, time.Second, 0, 0},
			{"lowered", laneRate("10/s"), laneRate("1/m"), 50 * ms, 30 * time.Second, 90 * time.Second},
			{"the same", laneRate("1/s"), laneRate("1/s"), 400 * ms, 600 * ms, 1600 * ms},
			{"the first", queue.LaneRule{}, laneRate("1/s"), time.Second, 0, time.Second},
			{
				"a larger burst adds no departures", laneRate("1/s"),
				queue.LaneRule{Rate: laneRate("1/s").Rate, Burst: 3},
				400 * ms, 600 * ms, 1600 * ms,
			},
		} {
			q := r.putWithLanes(fmt.Sprint("g.q", i), "unlimited", "x1", everyLane(tt.from))
			r.deliver(r.grant(q, 9, "x1")...)
			r.appendToLanes(q, "x2 x3")
			if !tt.from.Rate.Unlimited() {
				r.grant(q, 9) // it rests
			} else {
				r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
			}
			r.clock.Advance(tt.after)
			r.queue(q, "unlimited", everyLane(tt.to))
			r.check(r.e.Resume(r.ctx, q))
			t1 := r.clock.Now()
			if got, want := r.departureTimes(q, t1, 2), fmt.Sprintf("x2@%v x3@%v", tt.want, tt.then); got != want {
				r.Errorf("%s: got %s, want %s", tt.what, got, want)
			}
			r.clock.Advance(time.Hour)
		}
	}},
	{"a rule for one key can be set and removed without affecting other lanes", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 y1 y2", everyLane(laneRate("1/m")))
		t0 := r.clock.Now()
		r.deliver(r.grant(q, 9, "x1", "y1")...)
		r.queue(q, "unlimited", everyLane(laneRate("1/m")), except(laneX, queue.LaneRule{}))
		r.deliver(r.grant(q, 9, "x2", "x3")...)
		r.appendToLanes(q, "x4")
		r.deliver(r.grant(q, 9, "x4")...)
		r.queue(q, "unlimited", everyLane(laneRate("1/m")))
		if got := r.departureTimes(q, t0, 1); got != "y2@1m0s" {
			r.Errorf("got %s", got)
		}
	}},
	{"the lane without a key is free once its queue is not ordered, before a visit has seen the change", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "k1 x1 x2", ordered, except(laneX, laneRate("1/h")))
		list := r.grant(q, 9, "k1", "x1")
		r.deliver(list[1])
		r.grant(q, 9)
		r.queue(q, "unlimited", ordered, except(laneX, laneRate("2/h")))
		r.appendToLanes(q, "k2")
		r.queue(q, "unlimited", except(laneX, laneRate("3/h")))
		r.deliver(list[0])
		r.deliver(r.grant(q, 9, "k2")...)
	}},
	{"a change that leaves a lane's rule the same does not affect the lane", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 x2 y1", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		r.deliver(r.grant(q, 9, "x1")...)
		for range 5 {
			r.queue(q, "10/s", everyLane(laneRate("1/s")), except("nobody", laneRate("5/s")))
			r.queue(q, "10/s", everyLane(laneRate("1/s")))
			r.grant(q, 9)
		}
		if got := r.departureTimes(q, t0, 2); got != "y1@100ms x2@1s" {
			r.Errorf("got %s", got)
		}
	}},
	{"many resting lanes continue together when their rule is lifted", func(r *rig) {
		const n = 350
		q := r.queue("q", "unlimited", everyLane(laneRate("1/d")))
		var list []queue.Job
		for i := range n {
			lane := fmt.Sprint("lane-", i)
			list = append(list, jobOfLane(lane, q, fmt.Sprint("a", i)), jobOfLane(lane, q, fmt.Sprint("b", i)))
		}
		r.acceptJobs(list...)
		drainNow := func(want int) {
			r.Helper()
			left := 0
			for t0 := r.clock.Now(); r.clock.Now() < t0.Add(100*time.Millisecond); {
				res := r.reserveAs("client", q, queue.MaxReserve)
				left += len(res.Jobs)
				r.deliver(res.Jobs...)
				r.clock.Advance(max(res.Next, time.Millisecond))
			}
			if left != want {
				r.Errorf("%d departed within 100ms, want %d", left, want)
			}
		}
		drainNow(n)
		r.lanes(q, n)
		r.queue(q, "unlimited")
		drainNow(n)
		r.lanes(q, 0)
	}},
	{"a second change applies to all lanes, even while the first is still being applied", func(r *rig) {
		const n = 350
		q := r.queue("q", "unlimited", everyLane(laneRate("1/d")))
		var list []queue.Job
		for i := range n {
			lane := fmt.Sprint("lane-", i)
			list = append(list, jobOfLane(lane, q, fmt.Sprint("a", i)), jobOfLane(lane, q, fmt.Sprint("b", i)))
		}
		r.acceptJobs(list...)
		visit := func() (left int) {
			res := r.reserveAs("client", q, queue.MaxReserve)
			r.deliver(res.Jobs...)
			r.clock.Advance(time.Millisecond)
			return len(res.Jobs)
		}
		left := 0
		for range 20 {
			left += visit()
		}
		r.lanes(q, n)
		for _, rule := range []string{"1/h", "1/m", "2/d"} {
			r.queue(q, "unlimited", everyLane(laneRate(rule)))
			left += visit() // judges some of the lanes
		}
		if left != n {
			r.Errorf("%d departed before the rule was lifted, want %d", left, n)
		}
		r.queue(q, "unlimited")
		for range 20 {
			left += visit()
		}
		if left != 2*n {
			r.Errorf("%d departed after it was, want %d", left, 2*n)
		}
		r.lanes(q, 0)
	}},
	{"a raised rate of lanes wakes the watcher", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneRate("1/d")))
		r.appendToLane(q, "x", "j", 300, 1)
		r.awaitWake(q, "w", func(int) {
			r.queue(q, "unlimited", everyLane(laneRate("1/d")))
			r.deliver(r.watching("w", q)...)
			r.queue(q, "unlimited", everyLane(laneRate("100/s")))
		})
	}},
	{"an invalid rule for lanes is refused and changes nothing", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneRate("1/s")))
		rev := r.info(q).Revision
		for field, change := range map[string]func(*queue.Spec){
			"lanes.burst":                     everyLane(queue.LaneRule{Burst: -1}),
			"lanes.capacity":                  everyLane(queue.LaneRule{Capacity: -1}),
			"lanes.max_in_flight":             everyLane(queue.LaneRule{MaxInFlight: queue.MaxMaxInFlight + 1}),
			"lanes.overrides":                 except("", queue.LaneRule{}),
			"lanes.overrides.a.max_in_flight": except("a", queue.LaneRule{MaxInFlight: -1}),
			"max_in_flight":                   func(s *queue.Spec) { s.MaxInFlight = -1 },
			"max_scheduled":                   func(s *queue.Spec) { s.MaxScheduled = -1 },
		} {
			_, err := r.e.Put(r.ctx, spec(q, "unlimited", change), queue.AnyRevision)
			if kind(err) != "field "+field {
				r.Errorf("%s: %v", field, err)
			}
		}
		if i := r.info(q); i.Revision != rev || i.Spec.Lanes.Rate != laneRate("1/s").Rate {
			r.Errorf("got %+v", i)
		}
	}},
	{"rules of lanes are read back as put, and putting them again changes nothing", func(r *rig) {
		change := []func(*queue.Spec){
			everyLane(queue.LaneRule{Rate: laneRate("2/s").Rate, Burst: 2, Capacity: 9, MaxInFlight: 3}),
			except("a{b}", laneRate("1/m")), except("ä", queue.LaneRule{}),
			func(s *queue.Spec) { s.MaxInFlight, s.MaxScheduled, s.Ordered = 7, 8, true },
		}
		s := spec("q", "10/s", change...)
		first := r.put(s)
		if again := r.put(spec("q", "10/s", change...)); again.Changed || again.Revision != first.Revision {
			r.Errorf("put again: %+v", again)
		}
		if got := r.info("q").Spec; !got.Equal(s) {
			r.Errorf("got %+v\nwant %+v", got, s)
		}
	}},
}
