package queuetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// withPriority returns a job with a priority.
func withPriority(priority int, lane, queueName, id string) queue.Job {
	j := jobOfLane(lane, queueName, id)
	j.Priority = priority
	return j
}

var priorityRules = []rule{
	{"a higher priority leaves first, and equal priorities leave in order of arrival", func(r *rig) {
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		for _, tt := range []struct {
			id       string
			priority int
			position int64 // on arrival
		}{
			{"a", 0, 1}, {"b", 5, 1}, {"c", 5, 2}, {"d", 9, 1}, {"e", 0, 5}, {"f", 3, 4}, {"g", 9, 2}, {"h", 1, 6},
		} {
			a := r.acceptJobs(withPriority(tt.priority, "", q, tt.id))[0]
			if want := t0.Add(time.Duration(tt.position-1) * 100 * time.Millisecond); a.Position != tt.position ||
				instantOf(a.ETA.At) != want {
				r.Errorf(
					"%s: at %d, expected at %v; want %d, %v", tt.id, a.Position, a.ETA.At, tt.position, want.Time(),
				)
			}
			if j := r.job(q, tt.id); j.Priority != tt.priority || j.Position != tt.position {
				r.Errorf("got %+v, want priority %d, position %d", j, tt.priority, tt.position)
			}
		}
		for i, v := range r.drain(q) {
			if want := "dgbcfhae"[i]; v.ID[0] != want {
				r.Errorf("%d. departed %s, want %c", i+1, v.ID, want)
			}
		}
	}},
	{"a duplicate within a call shows its place at that moment, ahead of later jobs", func(r *rig) {
		q := r.queue("q", "1/s")
		a, b := withPriority(0, "", q, "a"), withPriority(9, "", q, "b")
		for i, got := range r.append(a, a, b, a, b) {
			want := []struct {
				outcome  queue.AppendOutcome
				position int64
			}{
				{queue.Accepted, 1},
				{queue.Duplicate, 1},
				{queue.Accepted, 1},
				{queue.Duplicate, 2},
				{queue.Duplicate, 1},
			}[i]
			if got.Outcome != want.outcome || got.Position != want.position || got.State != queue.Waiting {
				r.Errorf("%d: %v at %d, want %v at %d", i, got.Outcome, got.Position, want.outcome, want.position)
			}
		}
	}},
	{"every valid priority is kept, and no other is accepted", func(r *rig) {
		q := r.queue("q", "unlimited")
		for p := 0; p <= queue.MaxPriority; p++ {
			r.acceptJobs(withPriority(p, "", q, fmt.Sprint("j", p)))
		}
		for _, p := range []int{-1, queue.MaxPriority + 1, 1 << 40} {
			if a := r.outcome(queue.Invalid, withPriority(p, "", q, "bad")); kind(a.Err) != "field priority" {
				r.Errorf("%d: %v", p, a.Err)
			}
		}
		for i, v := range r.drain(q) {
			if want := queue.MaxPriority - i; v.Priority != want || v.ID != fmt.Sprint("j", want) {
				r.Errorf("%d. departed %s of priority %d", i+1, v.ID, v.Priority)
			}
		}
	}},
	{"costs, however high, do not mix priorities up", func(r *rig) {
		q := r.queue("q", "unlimited", withCapacity(20_000))
		costly := func(p int, n int) {
			r.Helper()
			list := jobs(q, numbered(fmt.Sprint("p", p, "-"), n)...)
			for i := range list {
				list[i].Cost, list[i].Priority = leaky.MaxCost, p
			}
			r.acceptJobs(list...)
		}
		for _, p := range []int{3, 0, 9, 4, 3} {
			if p == 3 && r.info(q).Waiting > 0 {
				r.acceptJobs(withPriority(3, "", q, "p3-00301"))
				continue
			}
			costly(p, 300)
		}
		var want []string
		for _, p := range []int{9, 4, 3, 0} {
			want = append(want, numbered(fmt.Sprint("p", p, "-"), 300)...)
			if p == 3 {
				want = append(want, "p3-00301")
			}
		}
		r.sameIDs(r.drain(q), want...)
	}},
	{"priorities order a lane and do not overtake other lanes", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.appendToLanes(q, "x1 x2 x3")
		for _, id := range []string{"y1", "y2", "y3"} {
			r.acceptJobs(withPriority(9, laneY, q, id))
		}
		r.acceptJobs(withPriority(1, laneX, q, "x4"), withPriority(9, "", q, "k1"))
		r.grant(q, 20, "k1", "x4", "y1", "x1", "y2", "x2", "y3", "x3")
	}},
	{"a returning job keeps its place within its priority", func(r *rig) {
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.acceptJobs(
			withPriority(0, "", q, "low1"), withPriority(5, "", q, "a"), withPriority(5, "", q, "b"),
			withPriority(5, "", q, "c"), withPriority(5, "", q, "d"), withPriority(0, "", q, "low2"),
		)
		v := r.grant(q, 3, "a", "b", "c")
		r.fail(10*time.Second, v[0])
		r.release(v[2])
		positions := func(want ...string) {
			r.Helper()
			for i, id := range want {
				if j := r.job(q, id); j.State != queue.Waiting || j.Position != int64(i+1) {
					r.Errorf("%s is %v at %d, want it waiting at %d", id, j.State, j.Position, i+1)
				}
			}
		}
		positions("c", "d", "low1", "low2")
		r.acceptJobs(withPriority(5, "", q, "e"), withPriority(6, "", q, "f"))
		positions("f", "c", "d", "e", "low1", "low2")
		r.clock.Advance(10 * time.Second) // a is due, and the lease of b ran out
		r.grant(q, 20, "f", "a", "b", "c", "d", "e", "low1", "low2")
	}},
	{"the priority does not distinguish jobs", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.acceptJobs(withPriority(3, "", q, "a"))
		r.duplicate(withPriority(9, "", q, "a"), queue.Waiting, 1)
		if j := r.job(q, "a"); j.Priority != 3 {
			r.Errorf("got %+v", j)
		}
	}},
	{"the eta of a job with a priority is never exact", func(r *rig) {
		q := r.queue("q", "10/s")
		if a := r.accept(q, "a")[0]; !a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
		r.acceptJobs(withPriority(1, "", q, "b"))
		if j := r.job(q, "a"); j.ETA.Exact || j.Position != 2 {
			r.Errorf("got %+v", j)
		}
	}},
	{"with random priorities, every lane stays in order of priority and arrival", func(r *rig) {
		rnd := rand.New(rand.NewPCG(2026, 12))
		q := r.queue("q", "1000/s")
		var list []queue.Job
		for i := range 400 {
			list = append(
				list, withPriority(rnd.IntN(10), []string{"", "a", "b"}[rnd.IntN(3)], q, fmt.Sprintf("j%03d", i)),
			)
			list[i].Cost = 1 + rnd.Int64N(9)
		}
		r.acceptJobs(list...)
		want, got := map[string][]string{}, map[string][]string{}
		slices.SortStableFunc(list, func(a, b queue.Job) int { return b.Priority - a.Priority })
		for _, j := range list {
			want[j.Lane] = append(want[j.Lane], j.ID)
		}
		for _, v := range r.drain(q) {
			got[v.Lane] = append(got[v.Lane], v.ID)
		}
		for lane := range want {
			if !slices.Equal(got[lane], want[lane]) {
				r.Errorf("lane %q departed\n%v\nwant\n%v", lane, got[lane], want[lane])
			}
		}
	}},
}

func ordered(s *queue.Spec) { s.Ordered = true }

var orderedRules = []rule{
	{"one job of a lane is in flight at a time, also in the lane without a key", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "k1 k2 k3 x1 x2 y1", ordered)
		res := r.reserveAs("client", q, 9)
		r.sameIDs(res.Jobs, "k1", "x1", "y1")
		if res.Next != 2*time.Second {
			r.Errorf("next in %v: nothing can be done", res.Next)
		}
		r.grant(q, 9)
		r.deliver(res.Jobs[0])
		v := r.grant(q, 9, "k2")
		r.deliver(res.Jobs[1], v[0])
		r.grant(q, 9, "k3", "x2")
	}},
	{"a queue without lanes is one lane", func(r *rig) {
		q := r.queue("q", "10/s", ordered)
		t0 := r.clock.Now()
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 9, "a")
		r.clock.Advance(20 * time.Millisecond)
		r.deliver(v...)
		r.clock.Advance(30 * time.Millisecond)
		v = r.grant(q, 9, "b")
		if d := r.departure(v[0]).Sub(t0); d != 100*time.Millisecond {
			r.Errorf("b departs at %v", d)
		}
		r.clock.Advance(time.Second)
		r.grant(q, 9)
		r.deliver(v...)
		r.grant(q, 9, "c")
	}},
	{"the first job holds the others up until it has ended, in any way", func(r *rig) {
		for i, way := range []struct {
			what string
			end  func(q string, v queue.Reservation)
			next string
		}{
			{"delivered", func(_ string, v queue.Reservation) { r.deliver(v) }, "x2"},
			{"buried", func(_ string, v queue.Reservation) { r.settled(queue.Dead, settlement(queue.Bury, v)) }, "x2"},
			{"released", func(_ string, v queue.Reservation) { r.release(v) }, "x1"},
			{"its lease ran out", func(string, queue.Reservation) { r.clock.Advance(10 * time.Second) }, "x1"},
			{"failed, and it is due", func(_ string, v queue.Reservation) {
				r.fail(5*time.Second, v)
				r.clock.Advance(5 * time.Second)
			}, "x1"},
			{"failed and cancelled", func(q string, v queue.Reservation) {
				r.fail(time.Hour, v)
				r.cancels(queue.Cancelled, q, "x1")
			}, "x2"},
			{"failed for the last time", func(q string, v queue.Reservation) {
				r.fail(0, v)
				r.settled(queue.Dead, settlement(queue.Fail, r.grant(q, 1, "x1")[0]))
			}, "x2"},
			{"its lease ran out for the last time", func(q string, v queue.Reservation) {
				r.fail(0, v)
				r.grant(q, 1, "x1")
				r.clock.Advance(10 * time.Second)
			}, "x2"},
		} {
			q := r.putWithLanes(fmt.Sprint("g.q", i), "unlimited", "x1 x2 x3", ordered, leased(10*time.Second, 2))
			v := r.grant(q, 9, "x1")
			way.end(q, v[0])
			r.Log(way.what)
			r.grant(q, 9, way.next)
			r.delete(q)
		}
	}},
	{"a job that backs off holds up its lane and no other", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 y1 y2 k1 k2", ordered)
		v := r.grant(q, 9, "k1", "x1", "y1")
		r.fail(3*time.Second, v[0])
		r.fail(time.Second, v[1])
		nextIn := func(want time.Duration, granted ...string) []queue.Reservation {
			r.Helper()
			res := r.reserveAs("client", q, 9)
			r.sameIDs(res.Jobs, granted...)
			if res.Next != want {
				r.Errorf("next in %v, want %v", res.Next, want)
			}
			return res.Jobs
		}
		nextIn(time.Second)
		r.deliver(v[2])
		r.deliver(nextIn(time.Second, "y2")...)
		r.clock.Advance(time.Second)
		r.deliver(nextIn(2*time.Second, "x1")...)
		r.deliver(nextIn(2*time.Second, "x2")...)
		r.clock.Advance(2 * time.Second)
		w := nextIn(2*time.Second, "k1")
		if w[0].Attempt != 2 {
			r.Errorf("attempt %d", w[0].Attempt)
		}
		r.deliver(w...)
		r.grant(q, 9, "k2")
	}},
	{"a scheduled job holds nothing up before it is due", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.schedule(later(r.clock.Now().Add(time.Minute), q, "a"))
		r.accept(q, "b", "c", "d")
		r.deliver(r.grant(q, 9, "b")...)
		v := r.grant(q, 9, "c")
		r.clock.Advance(20 * time.Second)
		r.cancels(queue.Cancelled, q, "a")
		r.deliver(v...)
		r.grant(q, 9, "d")
	}},
	{"only a more urgent new job passes a returning one", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.acceptJobs(withPriority(5, "", q, "a"), withPriority(5, "", q, "b"))
		v := r.grant(q, 9, "a")
		r.acceptJobs(withPriority(9, "", q, "now"), withPriority(5, "", q, "c"))
		r.grant(q, 9)
		r.release(v...)
		for _, id := range []string{"now", "a", "b", "c"} {
			r.deliver(r.grant(q, 9, id)...)
		}
	}},
	{"a queue can become ordered and stop being ordered", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "k1 k2 x1 x2")
		v := r.grant(q, 9, "k1", "x1", "k2", "x2")
		r.appendToLanes(q, "k3 k4 k5 x3 x4")
		r.queue(q, "unlimited", ordered)
		w := r.grant(q, 9, "k3") // jobs without a key were not counted
		r.deliver(v[0], v[2])
		r.grant(q, 9)
		r.deliver(v[1])
		r.grant(q, 9) // x2 is in flight
		r.deliver(v[3])
		r.deliver(r.grant(q, 9, "x3")...)
		r.deliver(w...)
		r.fail(time.Hour, r.grant(q, 9, "k4", "x4")...)
		r.grant(q, 9)
		r.queue(q, "unlimited")
		r.grant(q, 9, "k5")
		r.appendToLanes(q, "x5 x6")
		r.grant(q, 9, "x5", "x6")
	}},
	{"a lane of an ordered queue has one job in flight, whatever its rule allows", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 y1 y2", ordered,
			everyLane(queue.LaneRule{MaxInFlight: 5, Rate: laneRate("1/s").Rate}),
		)
		t0 := r.clock.Now()
		v := r.grant(q, 9, "x1", "y1")
		r.clock.Advance(500 * time.Millisecond)
		r.deliver(v[0])
		r.clock.Advance(time.Second)
		r.deliver(v[1])
		if got := r.departureTimes(q, t0, 2); got != "x2@1.5s y2@1.5s" {
			r.Errorf("got %s", got)
		}
	}},
	{"no eta is exact", func(r *rig) {
		q := r.queue("q", "10/s", ordered)
		if a := r.accept(q, "a")[0]; a.ETA.Exact {
			r.Errorf("got %+v", a)
		}
	}},
	{"the jobs of a lane end in the order of arrival, whatever happens", func(r *rig) {
		rnd := rand.New(rand.NewPCG(2026, 13))
		q := r.queue("q", "1000/s", ordered, leased(5*time.Second, 1000))
		lanes := []string{"", "a", "b", "c", "d"}
		var list []queue.Job
		want, got := map[string][]string{}, map[string][]string{}
		for i := range 100 {
			j := jobOfLane(lanes[rnd.IntN(len(lanes))], q, fmt.Sprintf("j%03d", i))
			want[j.Lane] = append(want[j.Lane], j.ID)
			list = append(list, j)
		}
		r.acceptJobs(list...)
		for asked := 0; ; asked++ {
			i := r.info(q)
			if i.Size() == 0 {
				break
			}
			if asked > 5000 {
				r.Fatalf("still there: %+v", i)
			}
			res := r.reserveAs("client", q, 1+rnd.IntN(9))
			seen := map[string]bool{}
			for _, v := range res.Jobs {
				if seen[v.Lane] {
					r.Fatalf("two of lane %q in one answer: %v", v.Lane, ids(res.Jobs))
				}
				seen[v.Lane] = true
				switch rnd.IntN(7) {
				case 0:
					r.fail(time.Duration(rnd.IntN(100))*time.Millisecond, v)
				case 1:
					r.release(v)
				case 2: // its lease runs out
				default:
					got[v.Lane] = append(got[v.Lane], v.ID)
					r.deliver(v)
				}
			}
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		for _, lane := range lanes {
			if !slices.Equal(got[lane], want[lane]) {
				r.Errorf("lane %q ended\n%v\nwant\n%v", lane, got[lane], want[lane])
			}
		}
	}},
}
