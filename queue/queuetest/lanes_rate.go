package queuetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// departureTimes drains n jobs, asking when the engine says, and returns their departures counted from t0.
func (r *rig) departureTimes(queueName string, t0 leaky.Instant, n int) string {
	r.Helper()
	return r.drainTimes(queueName, t0, n, func(next time.Duration) { r.clock.Advance(next) })
}

// drainTimes drains n jobs and returns their departures counted from t0. wait waits between two requests, at least as
// long as the engine says.
func (r *rig) drainTimes(queueName string, t0 leaky.Instant, n int, wait func(next time.Duration)) string {
	r.Helper()
	var got []string
	for asked := 0; len(got) < n; asked++ {
		if asked > 10*n+100 {
			r.Fatalf("after %d requests only these departed: %v", asked, got)
		}
		res := r.reserveAs("client", queueName, queue.MaxReserve)
		for _, v := range res.Jobs {
			got = append(got, fmt.Sprint(v.ID, "@", r.departure(v).Sub(t0)))
			r.deliver(v)
		}
		wait(max(res.Next, time.Millisecond))
	}
	return strings.Join(got, " ")
}

// putWithLanes puts a queue with rules for its lanes and appends jobs. Their ids begin with the letter of their lane:
// x, y and z in the order of their digests; k for the lane without a key.
func (r *rig) putWithLanes(queueName, rate string, ids string, change ...func(*queue.Spec)) string {
	r.Helper()
	r.queue(queueName, rate, change...)
	r.appendToLanes(queueName, ids)
	return queueName
}

// appendToLanes appends jobs to the lanes of their letters.
func (r *rig) appendToLanes(queueName, ids string) []queue.Appended {
	r.Helper()
	return r.acceptJobs(laneJobs(queueName, ids)...)
}

var letters = func() map[byte]string {
	k := keys(3)
	return map[byte]string{'k': "", 'x': k[0], 'y': k[1], 'z': k[2]}
}()

var (
	laneX = letters['x']
	laneY = letters['y']
	laneZ = letters['z']
)

var laneRateRules = []rule{
	{"lanes depart exactly when their rates and the queue's allow", func(r *rig) {
		burst := func(n int64) func(*queue.Spec) { return func(s *queue.Spec) { s.Burst = n } }
		for i, tt := range []struct {
			what, rate string
			change     []func(*queue.Spec)
			jobs, want string
		}{
			{
				"far below the queue's", "10/s",
				[]func(*queue.Spec){everyLane(laneRate("1/s"))},
				"x1 x2 x3 y1 y2 y3",
				"x1@0s y1@100ms x2@1s y2@1.1s x3@2s y3@2.1s",
			},
			{
				"above the queue's", "10/s",
				[]func(*queue.Spec){everyLane(laneRate("1000/s"))},
				"x1 x2 y1 y2",
				"x1@0s y1@100ms x2@200ms y2@300ms",
			},
			{
				"the lane without a key has no rule", "10/s",
				[]func(*queue.Spec){everyLane(laneRate("1/s"))},
				"x1 x2 k1 k2 k3",
				"k1@0s x1@100ms k2@200ms k3@300ms x2@1.1s",
			},
			{
				"keys with rules of their own", "20/s",
				[]func(*queue.Spec){everyLane(laneRate("1/s")), except(
					laneY, laneRate("10/s"),
				), except(laneZ, queue.LaneRule{})},
				"x1 x2 y1 y2 y3 z1 z2 z3",
				"x1@0s y1@50ms z1@100ms y2@150ms z2@200ms y3@250ms z3@300ms x2@1s",
			},
			{
				"a rule for one key only", "10/s",
				[]func(*queue.Spec){except(laneX, laneRate("1/s"))},
				"x1 x2 y1 y2",
				"x1@0s y1@100ms y2@200ms x2@1s",
			},
			{
				"bursts of a lane", "10/s",
				[]func(*queue.Spec){everyLane(queue.LaneRule{Rate: laneRate("1/s").Rate, Burst: 3})},
				"x1 x2 x3 x4 x5",
				"x1@0s x2@100ms x3@200ms x4@1s x5@2s",
			},
			{
				"bursts of the queue", "10/s",
				[]func(*queue.Spec){burst(2), everyLane(laneRate("1/s"))},
				"x1 x2 y1 y2",
				"x1@0s y1@0s x2@1s y2@1s",
			},
			{
				"an unlimited queue", "unlimited",
				[]func(*queue.Spec){everyLane(laneRate("10/s"))},
				"x1 x2 y1 y2",
				"x1@0s y1@0s x2@100ms y2@100ms",
			},
			{
				"the instant of a lane is rounded up", "100/s",
				[]func(*queue.Spec){everyLane(laneRate("3/s"))},
				"x1 x2 x3 x4",
				"x1@0s x2@333.334ms x3@666.668ms x4@1.000002s",
			}, // each counts from the one before
			{
				"a lane ready between two departures of the queue", "1/s",
				[]func(*queue.Spec){everyLane(laneRate("1/1020ms"))},
				"x1 x2 x3",
				"x1@0s x2@1.02s x3@2.04s",
			},
		} {
			q := r.putWithLanes(fmt.Sprint("g.q", i), tt.rate, tt.jobs, tt.change...)
			if got := r.departureTimes(q, r.clock.Now(), len(strings.Fields(tt.jobs))); got != tt.want {
				r.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
			}
		}
	}},
	{"costs count in the lane as in the queue", func(r *rig) {
		q := r.queue("q", "10/s", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		costly := jobOfLane(laneX, q, "x1")
		costly.Cost = 3
		r.acceptJobs(costly, jobOfLane(laneX, q, "x2"), jobOfLane(laneY, q, "y1"), jobOfLane(laneZ, q, "z1"))
		if got := r.departureTimes(q, t0, 4); got != "y1@0s z1@100ms x1@200ms x2@3.2s" {
			r.Errorf("got %s", got)
		}
	}},
	{"a queue whose lanes all rest is visited when the first is ready, and not before", func(r *rig) {
		q := r.putWithLanes(
			"q", "100/s", "x1 x2 x3 y1 y2", everyLane(laneRate("1/s")), except(laneY, laneRate("1/800ms")),
		)
		nextIn := func(want time.Duration, granted ...string) {
			r.Helper()
			res := r.reserveAs("client", q, 9)
			r.sameIDs(res.Jobs, granted...)
			r.deliver(res.Jobs...)
			if res.Next != want || len(res.Lost) != 0 {
				r.Errorf("next in %v, want %v; lost %v", res.Next, want, res.Lost)
			}
		}
		nextIn(810*time.Millisecond, "x1", "y1") // y1 departs 10 ms after x1
		r.clock.Advance(810*time.Millisecond - time.Microsecond)
		nextIn(time.Millisecond)
		r.clock.Advance(time.Microsecond)
		nextIn(190*time.Millisecond, "y2")
		r.clock.Advance(190 * time.Millisecond)
		nextIn(time.Second, "x2")
		r.appendToLanes(q, "y3") // its lane rests for another 610 ms
		nextIn(610 * time.Millisecond)
		r.clock.Advance(610 * time.Millisecond)
		nextIn(390*time.Millisecond, "y3")
		r.clock.Advance(390 * time.Millisecond)
		nextIn(2*time.Second, "x3")
	}},
	{"a departure is granted ahead for a lane that is ready before the queue, and for no other", func(r *rig) {
		for i, tt := range []struct {
			rule  string
			next  time.Duration
			ahead time.Duration // before the departure
			at    time.Duration
		}{
			{"2/s", 975 * time.Millisecond, queue.Horizon, time.Second},
			{"1/s", 975 * time.Millisecond, queue.Horizon, time.Second},
			{"1/1020ms", 1020 * time.Millisecond, 0, 1020 * time.Millisecond},
		} {
			q := r.putWithLanes(fmt.Sprint("g.q", i), "1/s", "x1 x2", everyLane(laneRate(tt.rule)))
			t0 := r.clock.Now()
			res := r.reserveAs("client", q, 9)
			r.sameIDs(res.Jobs, "x1")
			if res.Next != tt.next {
				r.Errorf("%s: next in %v, want %v", tt.rule, res.Next, tt.next)
			}
			r.deliver(res.Jobs...)
			r.clock.Set(t0.Add(tt.at - tt.ahead - time.Microsecond))
			r.grant(q, 9)
			r.clock.Advance(time.Microsecond)
			v := r.grant(q, 9, "x2")
			if r.departure(v[0]).Sub(t0) != tt.at {
				r.Errorf("%s: departs at %v, want %v", tt.rule, r.departure(v[0]).Sub(t0), tt.at)
			}
			r.deliver(v...)
			r.clock.Advance(time.Minute)
		}
	}},
	{"within the horizon a lane is granted all that its rate allows, between the others", func(r *rig) {
		q := r.queue("q", "1000/s", except(laneX, laneRate("50/s")))
		r.appendToLane(q, laneX, "x", 10, 1)
		r.appendToLane(q, laneY, "y", 100, 1)
		res := r.reserveAs("client", q, 500)
		if len(res.Jobs) != 51 || res.Next != 26*time.Millisecond {
			r.Errorf("%d jobs, next in %v; want 51 up to the horizon, and 26ms", len(res.Jobs), res.Next)
		}
		for i, v := range res.Jobs {
			if want := i%20 == 0; (v.Lane == laneX) != want || v.In != time.Duration(i)*time.Millisecond {
				r.Errorf("%s departs in %v", v.ID, v.In)
			}
		}
	}},
	{"a resting lane delays nobody", func(r *rig) {
		s := spec("q", "14/s", except(laneX, laneRate("1/h")))
		r.put(s)
		r.appendToLanes(s.Name, "x1 x2 x3")
		r.appendToLane(s.Name, laneY, "y", 100, 1)
		r.appendToLane(s.Name, "", "k", 100, 1)
		r.follow(mirrorOf(s), s.Name, 201)
		if i := r.info(s.Name); i.Waiting != 2 || i.Lanes != 1 || i.Lost != 0 {
			r.Errorf("%d wait in %d lanes, %d slots lost", i.Waiting, i.Lanes, i.Lost)
		}
	}},
	{"slots unused since a lane was ready are lost", func(r *rig) {
		q := r.putWithLanes("q", "1/s", "x1 x2", everyLane(laneRate("1/1020ms")))
		r.deliver(r.grant(q, 9, "x1")...)
		r.clock.Advance(5020 * time.Millisecond)
		if res := r.reserveAs("client", q, 9); len(res.Jobs) != 1 || res.Lost[q] != 4 {
			r.Errorf("granted %v, lost %v; want 4", ids(res.Jobs), res.Lost)
		}
	}},
	{"slots lost since a lane was ready stay counted, whatever happens to other jobs", func(r *rig) {
		for i, tt := range []struct {
			what string
			do   func(q string, v queue.Reservation)
			want int64
		}{
			{"nothing", func(string, queue.Reservation) {}, 6},
			{"a job comes back", func(_ string, v queue.Reservation) { r.release(v) }, 6},
			{"one fails", func(_ string, v queue.Reservation) { r.fail(time.Hour, v) }, 6},
			{"a job is cancelled", func(q string, _ queue.Reservation) { r.cancels(queue.Cancelled, q, "x2") }, 6},
			{"a job comes in behind", func(q string, _ queue.Reservation) { r.appendToLanes(q, "x4") }, 6},
			{"another lane comes", func(q string, _ queue.Reservation) { r.appendToLanes(q, "y1") }, 1},
			{
				"the rule changes",
				func(q string, _ queue.Reservation) { r.queue(q, "100/s", everyLane(laneRate("2/s"))) }, 1,
			},
		} {
			q := r.putWithLanes(fmt.Sprint("g.q", i), "100/s", "x1 x2 x3", everyLane(laneRate("1/s")))
			v := r.grant(q, 9, "x1")
			r.clock.Advance(1050 * time.Millisecond)
			tt.do(q, v[0])
			r.clock.Advance(10 * time.Millisecond)
			if res := r.reserveAs("client", q, 9); len(res.Jobs) == 0 || res.Lost[q] != tt.want {
				r.Errorf("%s: granted %v, lost %v; want %d", tt.what, ids(res.Jobs), res.Lost, tt.want)
			}
			r.clock.Advance(10 * time.Minute)
			for _, v := range r.reserve(q, 9) {
				r.deliver(v)
			}
			r.delete(q)
		}
	}},
	{"a lane keeps its bucket while it is empty", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 y1", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		r.deliver(r.grant(q, 9, "x1", "y1")...)
		r.clock.Advance(300 * time.Millisecond)
		r.appendToLanes(q, "x2 z1")
		if got := r.departureTimes(q, t0, 2); got != "z1@300ms x2@1s" {
			r.Errorf("got %s", got)
		}
	}},
	{"a release gives the queue its slot back, and the lane nothing", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 y1", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		r.release(r.grant(q, 9, "x1")...)
		if got := r.departureTimes(q, t0, 2); got != "y1@0s x1@1s" {
			r.Errorf("got %s", got)
		}
	}},
	{"a pause does not stop a resting lane's time, and saves no slots up", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		r.deliver(r.grant(q, 9, "x1")...)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.clock.Advance(10 * time.Second)
		r.grant(q, 9)
		r.check(r.e.Resume(r.ctx, q))
		if got := r.departureTimes(q, t0, 2); got != "x2@10s x3@11s" {
			r.Errorf("got %s", got)
		}
	}},
	{"the eta counts the lane's rate", func(r *rig) {
		q := r.putWithLanes("q", "10/s", "x1 x2", everyLane(laneRate("1/s")))
		t0 := r.clock.Now()
		r.expected(r.appendToLanes(q, "x3")[0], 3, t0.Add(2*time.Second))
		r.expected(r.appendToLanes(q, "y1")[0], 1, t0.Add(100*time.Millisecond))
		r.expected(r.appendToLanes(q, "y2")[0], 2, t0.Add(time.Second))
		r.expected(r.appendToLanes(q, "k1")[0], 1, t0.Add(200*time.Millisecond))
		r.deliver(r.grant(q, 1, "k1")...)
		r.clock.Advance(50 * time.Millisecond)
		r.deliver(r.grant(q, 1, "x1")...) // at 100 ms
		for id, want := range map[string]time.Duration{
			"x2": 1100 * time.Millisecond, "x3": 2100 * time.Millisecond, "y1": 300 * time.Millisecond,
		} {
			if j := r.job(q, id); instantOf(j.ETA.At) != t0.Add(want) {
				r.Errorf("%s is expected at %v, want %v", id, instantOf(j.ETA.At).Sub(t0), want)
			}
		}
	}},
	{"each lane keeps its rate and the queue its own over any window, and no lane waits needlessly", func(r *rig) {
		rnd := rand.New(rand.NewPCG(2026, 11))
		for i, tt := range []struct {
			rate  string
			burst int64
			lane  queue.LaneRule
			cost  int64
		}{
			{"100/s", 1, laneRate("14/s"), 1},
			{"unlimited", 1, queue.LaneRule{Rate: laneRate("7/s").Rate, Burst: 3}, 2},
			{"40/s", 4, queue.LaneRule{Rate: laneRate("30/s").Rate, Burst: 2}, 3},
			{"1000/s", 1, laneRate("999/s"), 1},
		} {
			s := spec(
				fmt.Sprint("g.q", i), tt.rate, func(s *queue.Spec) { s.Burst = tt.burst }, everyLane(tt.lane),
				except("fast", queue.LaneRule{}),
			)
			r.put(s)
			m := lanesOf(s)
			for n := range 150 {
				j := jobOfLane([]string{"", "a", "b", "c", "d", "fast"}[rnd.IntN(6)], s.Name, fmt.Sprintf("j%05d", n))
				j.Cost = 1 + rnd.Int64N(tt.cost)
				r.acceptJobs(j)
				m.waiting[j.Lane]++
			}
			r.followLanes(m, s.Name, 150)
		}
	}},
}

// laneMirror models the buckets of a queue and its lanes, and counts the waiting jobs of each lane.
type laneMirror struct {
	*bucketMirror
	spec    queue.Spec
	buckets map[string]leaky.Bucket
	waiting map[string]int
}

func lanesOf(s queue.Spec) *laneMirror {
	return &laneMirror{mirrorOf(s), s, map[string]leaky.Bucket{}, map[string]int{}}
}

// followLanes is follow for a queue whose lanes have rates.
func (r *rig) followLanes(m *laneMirror, queueName string, count int) {
	r.Helper()
	for n, asked := 0, 0; n < count; asked++ {
		if asked > 20*count {
			r.Fatalf("%d of %d departed after %d requests", n, count, asked)
		}
		res := r.reserveAs("client", queueName, queue.MaxReserve)
		now := r.clock.Now()
		for _, v := range res.Jobs {
			r.departs(m.bucketMirror, []queue.Reservation{v}, false)
			m.waiting[v.Lane]--
			rule, b := m.spec.Lanes.Of(v.Lane), m.buckets[v.Lane]
			if rule.Rate.Unlimited() {
				continue
			}
			d := r.departure(v)
			if got, ok := rule.Pacer().Take(&b, d, v.Cost); !ok || got != d {
				r.Fatalf("%s departs at %v, its lane allows it at %v", v.ID, d.Time(), rule.Pacer().Next(b, d).Time())
			}
			m.buckets[v.Lane] = b
		}
		if next := m.p.Next(m.b, now); next <= now.Add(queue.Horizon) {
			for lane, jobs := range m.waiting {
				rule := m.spec.Lanes.Of(lane)
				if jobs > 0 && (rule.Rate.Unlimited() || rule.Pacer().Next(m.buckets[lane], next) <= next) {
					r.Fatalf("lane %q could have departed in %v", lane, next.Sub(now))
				}
			}
		}
		n += len(res.Jobs)
		r.deliver(res.Jobs...)
		r.clock.Advance(max(res.Next, time.Millisecond))
	}
}
