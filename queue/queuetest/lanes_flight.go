package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// maxInFlight limits how many jobs of a queue are in flight.
func maxInFlight(n int64) func(*queue.Spec) { return func(s *queue.Spec) { s.MaxInFlight = n } }

// wayOut is a way for a lease to end.
type wayOut struct {
	what string
	end  func(r *rig, v queue.Reservation)
	back bool // the job waits again, and is the next
}

// waysOut has all of them, with the state of the job after the next Reserve.
var waysOut = []wayOut{
	{"delivered", func(r *rig, v queue.Reservation) { r.deliver(v) }, false},
	{"buried", func(r *rig, v queue.Reservation) { r.settled(queue.Dead, settlement(queue.Bury, v)) }, false},
	{"failed", func(r *rig, v queue.Reservation) { r.fail(time.Hour, v) }, false},
	{"released", func(r *rig, v queue.Reservation) { r.release(v) }, true},
	{"ran out", func(r *rig, _ queue.Reservation) { r.clock.Advance(10 * time.Second) }, true},
}

// makesRoomForOne ends the lease of the first job, the only one in flight, and checks that the second departs.
func (r *rig) makesRoomForOne(way wayOut, queueName, first, second string) {
	r.Helper()
	res := r.reserveAs("client", queueName, 9)
	r.sameIDs(res.Jobs, first)
	if res.Next != 2*time.Second {
		r.Errorf("%s: next in %v: nothing can be done", way.what, res.Next)
	}
	r.grant(queueName, 9)
	way.end(r, res.Jobs[0])
	next := second
	if way.back {
		next = first
	}
	r.grant(queueName, 9, next)
	r.delete(queueName)
}

var flightRules = []rule{
	{"no more than max_in_flight jobs of a queue are leased, and the end of a lease makes room for another", func(r *rig) {
		for i, way := range waysOut {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", maxInFlight(1), leased(10*time.Second, 8))
			r.accept(q, "a", "b", "c")
			r.makesRoomForOne(way, q, "a", "b")
		}
	}},
	{"leases are counted over all drainers", func(r *rig) {
		q := r.queue("q", "unlimited", maxInFlight(3))
		r.accept(q, numbered("j", 6)...)
		one := r.reserveAs("one", q, 2).Jobs
		r.sameIDs(one, "j00001", "j00002")
		two := r.reserveAs("two", q, 2).Jobs
		r.sameIDs(two, "j00003")
		r.sameIDs(r.reserveAs("three", q, 2).Jobs)
		r.release(one[0])
		r.deliver(two[0])
		r.sameIDs(r.reserveAs("three", q, 9).Jobs, "j00001", "j00004")
	}},
	{"the pace applies too", func(r *rig) {
		q := r.queue("q", "10/s", maxInFlight(1))
		t0 := r.clock.Now()
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 9, "a")
		r.clock.Advance(30 * time.Millisecond)
		r.deliver(v...)
		r.grant(q, 9) // b departs at 100 ms
		r.clock.Advance(20 * time.Millisecond)
		v = r.grant(q, 9, "b")
		if d := r.departure(v[0]); d != t0.Add(100*time.Millisecond) {
			r.Errorf("b departs at %v", d.Sub(t0))
		}
		r.clock.Advance(10 * time.Second)
		r.grant(q, 9)
		r.deliver(v...)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "c")
		if len(res.Lost) != 0 || res.Jobs[0].In != 0 {
			r.Errorf("a queue at its max_in_flight loses no slots: %v", res.Lost)
		}
		r.deliver(res.Jobs...)
		r.accept(q, "d", "e")
		r.clock.Advance(time.Second)
		v = r.grant(q, 9, "d")
		r.deliver(v...)
		r.clock.Advance(time.Second)
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 9 { // e could have left 100 ms after d
			r.Errorf("lost %v, want 9", res.Lost)
		}
	}},
	{"the limit of a queue can be raised, lowered and lifted", func(r *rig) {
		q := r.queue("q", "unlimited", maxInFlight(2))
		r.accept(q, numbered("j", 9)...)
		v := r.grant(q, 9, "j00001", "j00002")
		r.queue(q, "unlimited", maxInFlight(4))
		v = append(v, r.grant(q, 9, "j00003", "j00004")...)
		r.queue(q, "unlimited", maxInFlight(2))
		r.deliver(v[0], v[1])
		r.grant(q, 9)
		r.deliver(v[2])
		r.grant(q, 9, "j00005")
		r.queue(q, "unlimited")
		r.grant(q, 9, "j00006", "j00007", "j00008", "j00009")
	}},
	{"scheduled and cancelled jobs are not in flight", func(r *rig) {
		q := r.queue("q", "unlimited", maxInFlight(1))
		r.accept(q, "a", "b", "c", "d")
		r.fail(time.Minute, r.grant(q, 9, "a")...)
		v := r.grant(q, 9, "b")
		r.cancels(queue.Cancelled, q, "c")
		r.cancels(queue.Cancelled, q, "a")
		r.grant(q, 9)
		r.deliver(v...)
		r.grant(q, 9, "d")
	}},
	{"no eta is exact while leases may hold up the others", func(r *rig) {
		q := r.queue("q", "10/s", maxInFlight(5))
		if a := r.accept(q, "a")[0]; a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
		r.queue(q, "10/s")
		if j := r.job(q, "a"); !j.ETA.Exact {
			r.Errorf("got %+v", j)
		}
	}},
	{"the end of a lease lets its queue or lane continue and wakes the watcher", func(r *rig) {
		q, p := r.queue("g.q", "unlimited", maxInFlight(1)), r.queue(
			"g.p", "unlimited", everyLane(queue.LaneRule{MaxInFlight: 1}),
		)
		for _, name := range []string{q, p} {
			r.appendToLane(name, "x", "j", 250, 1)
			r.awaitWake(name, "w", func(int) { r.deliver(r.watching("w", name)...) })
			r.delete(name)
		}
	}},
}

var laneFlightRules = []rule{
	{"no more than max_in_flight jobs of a lane are leased, and the end of a lease makes room for another", func(r *rig) {
		for i, way := range waysOut {
			q := r.putWithLanes(
				fmt.Sprint("g.q", i), "unlimited", "x1 x2 x3", everyLane(queue.LaneRule{MaxInFlight: 1}),
				leased(10*time.Second, 8),
			)
			r.makesRoomForOne(way, q, "x1", "x2")
		}
	}},
	{"a busy lane holds up nobody", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 y1 y2 y3 z1 k1 k2 k3",
			everyLane(queue.LaneRule{MaxInFlight: 1}), except(
				laneY, queue.LaneRule{MaxInFlight: 2},
			), except(laneZ, queue.LaneRule{}))
		v := r.grant(q, 20, "k1", "x1", "y1", "z1", "k2", "y2", "k3")
		r.lanes(q, 2)
		r.appendToLanes(q, "z2 z3 k4 x4")
		r.grant(q, 20, "k4", "z2", "z3")
		r.deliver(v[2])
		r.grant(q, 20, "y3")
		r.deliver(v[1])
		r.grant(q, 20, "x2")
	}},
	{"a lane that was busy waits for its turn, and for its rate", func(r *rig) {
		for i, tt := range []struct {
			delivered time.Duration
			want      string
		}{
			{300 * time.Millisecond, "x2@1s"},
			{1500 * time.Millisecond, "x2@1.5s"},
		} {
			q := r.putWithLanes(
				fmt.Sprint("g.q", i), "unlimited", "x1 x2",
				everyLane(queue.LaneRule{Rate: laneRate("1/s").Rate, MaxInFlight: 1}),
			)
			t0 := r.clock.Now()
			v := r.grant(q, 9, "x1")
			r.clock.Advance(tt.delivered)
			r.deliver(v...)
			if got := r.departureTimes(q, t0, 1); got != tt.want {
				r.Errorf("delivered after %v: got %s, want %s", tt.delivered, got, tt.want)
			}
			r.clock.Advance(time.Minute)
		}
	}},
	{"the limit of lanes can be raised, lowered and lifted", func(r *rig) {
		most := func(n int64) func(*queue.Spec) { return everyLane(queue.LaneRule{MaxInFlight: n}) }
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 x4 x5 x6 x7 x8", most(1))
		v := r.grant(q, 9, "x1")
		r.queue(q, "unlimited", most(3))
		v = append(v, r.grant(q, 9, "x2", "x3")...)
		r.queue(q, "unlimited", most(2))
		r.deliver(v[0])
		r.grant(q, 9)
		r.deliver(v[1])
		v = append(v, r.grant(q, 9, "x4")...)
		r.queue(q, "unlimited", most(2), except(laneX, queue.LaneRule{MaxInFlight: 3}))
		v = append(v, r.grant(q, 9, "x5")...)
		r.queue(q, "unlimited")
		v = append(v, r.grant(q, 1, "x6")...)
		r.queue(q, "unlimited", most(4)) // jobs leased before there was a limit count
		r.grant(q, 9)
		r.deliver(v[2])
		r.grant(q, 9, "x7")
	}},
	{"all waiting jobs of a busy lane can be cancelled", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3 y1 y2", everyLane(queue.LaneRule{MaxInFlight: 1}))
		v := r.grant(q, 9, "x1", "y1")
		r.cancels(queue.Cancelled, q, "x2")
		r.cancels(queue.Cancelled, q, "y2")
		r.lanes(q, 1)
		r.deliver(v...)
		r.grant(q, 9, "x3")
		r.appendToLanes(q, "y3")
		r.grant(q, 9, "y3")
	}},
	{"a new job waits while all jobs of its lane are in flight", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1", everyLane(queue.LaneRule{MaxInFlight: 1}))
		v := r.grant(q, 9, "x1")
		r.appendToLanes(q, "x2")
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs)
		if res.Next != 2*time.Second {
			r.Errorf("next in %v", res.Next)
		}
		r.deliver(v...)
		r.grant(q, 9, "x2")
	}},
	{"both the queue's limit and the lanes' apply", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 x3 y1 y2 y3 z1 z2", maxInFlight(4), everyLane(queue.LaneRule{MaxInFlight: 2}),
		)
		v := r.grant(q, 9, "x1", "y1", "z1", "x2")
		r.deliver(v[2])
		w := r.grant(q, 9, "y2")
		r.deliver(w...)
		r.release(v[1])
		r.grant(q, 9, "z2", "y1") // z has been ready for longer
	}},
	{"many lanes, each busy in turn, are all drained", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{MaxInFlight: 1}))
		for i := range 300 {
			r.appendToLane(q, fmt.Sprint("lane-", i), fmt.Sprint("j", i, "-"), 3, 1)
		}
		for round := range 3 {
			inFlight := map[string]bool{}
			var all []queue.Reservation
			for range 10 {
				got := r.reserve(q, queue.MaxReserve)
				for _, v := range got {
					if inFlight[v.Lane] {
						r.Fatalf("two of lane %s are in flight", v.Lane)
					}
					inFlight[v.Lane] = true
				}
				all = append(all, got...)
			}
			if len(all) != 300 {
				r.Fatalf("round %d: %d in flight, want one of each of 300 lanes", round, len(all))
			}
			r.deliver(all...)
		}
	}},
}
