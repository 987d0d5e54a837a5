package queuetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// jobOfLane returns a job in a lane.
func jobOfLane(lane, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.Lane = lane
	return j
}

// jobsOfLane returns jobs in one lane.
func jobsOfLane(lane, queueName string, ids ...string) []queue.Job {
	list := jobs(queueName, ids...)
	for i := range list {
		list[i].Lane = lane
	}
	return list
}

// keys returns n lane keys in the order of their digests, which decide ties.
func keys(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("lane-", i)
	}
	slices.SortFunc(list, func(a, b string) int {
		x, y := queue.DigestLane(a), queue.DigestLane(b)
		return bytes.Compare(x[:], y[:])
	})
	return list
}

// everyLane sets the rule for each lane.
func everyLane(rule queue.LaneRule) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Lanes.LaneRule = rule }
}

// except sets the rule for one lane.
func except(lane string, rule queue.LaneRule) func(*queue.Spec) {
	return func(s *queue.Spec) {
		if s.Lanes.Overrides == nil {
			s.Lanes.Overrides = map[string]queue.LaneRule{}
		}
		s.Lanes.Overrides[lane] = rule
	}
}

// laneRate returns a rule with only a rate.
func laneRate(rate string) queue.LaneRule {
	r, err := leaky.ParseRate(rate)
	if err != nil {
		panic(err)
	}
	return queue.LaneRule{Rate: r}
}

// expected checks the place of a job in its lane and its eta.
func (r *rig) expected(a queue.Appended, position int64, eta leaky.Instant) {
	r.Helper()
	if a.Position != position || instantOf(a.ETA.At) != eta || a.ETA.Exact {
		r.Errorf("%s: at %d, expected at %+v; want %d, roughly %v", a.ID, a.Position, a.ETA, position, eta.Time())
	}
}

func (r *rig) lanes(queueName string, want int64) {
	r.Helper()
	if i := r.info(queueName); i.Lanes != want {
		r.Errorf("jobs of %s wait in %d lanes, want %d", queueName, i.Lanes, want)
	}
}

var laneRules = []rule{
	{"a job shows its lane everywhere and counts in it", func(r *rig) {
		q := r.queue("q", "unlimited")
		x, y := "example.com", "example.org"
		a := r.acceptJobs(
			jobOfLane(x, q, "x1"), jobOfLane(x, q, "x2"), jobOfLane(y, q, "y1"), job(q, "k1"), jobOfLane(x, q, "x3"),
		)
		for i, want := range []int64{1, 2, 1, 1, 3} {
			if a[i].Position != want {
				r.Errorf("%s has position %d, want %d", a[i].ID, a[i].Position, want)
			}
		}
		r.lanes(q, 3)
		for id, lane := range map[string]string{"x2": x, "y1": y, "k1": ""} {
			if j := r.job(q, id); j.Lane != lane || j.State != queue.Waiting {
				r.Errorf("got %+v, want the lane %q", j, lane)
			}
		}
		req := r.request("client", q, 9)
		for range 2 { // as granted, and as granted again
			got := r.do(req).Jobs
			if len(got) != 5 {
				r.Fatalf("granted %v", ids(got))
			}
			for _, v := range got {
				if want := map[byte]string{'x': x, 'y': y, 'k': ""}[v.ID[0]]; v.Lane != want {
					r.Errorf("%s of lane %q, want %q", v.ID, v.Lane, want)
				}
			}
		}
		if j := r.job(q, "x1"); j.Lane != x || j.State != queue.Leased {
			r.Errorf("got %+v", j)
		}
		r.lanes(q, 0)
	}},
	{"a lane's key is any UTF-8 of up to 256 bytes, and each key is a lane", func(r *rig) {
		q := r.queue("q", "unlimited")
		odd := []string{
			"", " ", "a", "A", "a ", "\u00e4", "a\u0308", "\x00", "a\x00b", "{a}:b", "a\nb", "*", "\u2028", "日本",
			"\U0010ffff",
			strings.Repeat("x", queue.MaxLaneBytes), strings.Repeat("x", queue.MaxLaneBytes-1),
			strings.Repeat("ä", queue.MaxLaneBytes/2),
		}
		for i, key := range odd {
			if a := r.acceptJobs(
				jobOfLane(key, q, fmt.Sprint("a", i)), jobOfLane(key, q, fmt.Sprint("b", i)),
			); a[0].Position != 1 ||

				a[1].Position != 2 {
				r.Errorf("%q: at %d and %d", key, a[0].Position, a[1].Position)
			}
		}
		r.lanes(q, int64(len(odd)))
		for _, v := range r.drain(q) {
			var i int
			_, _ = fmt.Sscan(v.ID[1:], &i)
			if v.Lane != odd[i] {
				r.Errorf("%q came out as %q", odd[i], v.Lane)
			}
		}
		for _, key := range []string{strings.Repeat("x", queue.MaxLaneBytes+1), "\xff", "a\xc3", "\xed\xa0\x80"} {
			var fe *invalid.Error
			if a := r.outcome(queue.Invalid, jobOfLane(key, q, "bad")); !errors.As(a.Err, &fe) || fe.Field != "lane" {
				r.Errorf("%.20q: %v", key, a.Err)
			}
		}
	}},
	{"the same id in another lane is another job", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.acceptJobs(jobOfLane("x", q, "a"), job(q, "b"))
		r.duplicate(jobOfLane("x", q, "a"), queue.Waiting, 1)
		for _, j := range []queue.Job{jobOfLane("y", q, "a"), job(q, "a"), jobOfLane("x", q, "b")} {
			r.outcome(queue.Conflict, j)
		}
		r.drain(q)
		r.outcome(queue.Conflict, jobOfLane("y", q, "a"))
		r.duplicate(jobOfLane("x", q, "a"), queue.Delivered, 0)
	}},
	{"the eta counts the turns of the other lanes", func(r *rig) {
		const T = 100 * time.Millisecond
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		for _, tt := range []struct {
			lane, id         string
			position, before int64
		}{
			{"x", "x1", 1, 0},
			{"x", "x2", 2, 1},
			{"x", "x3", 3, 2},
			{"y", "y1", 1, 1}, // x takes a turn before it
			{"y", "y2", 2, 3}, // x twice, and y1
			{"z", "z1", 1, 2},
			{"x", "x4", 4, 6}, // all there are; a turn of each before each would be 11
			{"", "k1", 1, 3},
		} {
			r.expected(r.acceptJobs(jobOfLane(tt.lane, q, tt.id))[0], tt.position, t0.Add(time.Duration(tt.before)*T))
		}
		sees := func(id string, position, before int64) {
			r.Helper()
			r.checkJob(q, id, seen{
				state: queue.Waiting, position: position, eta: t0.Add(time.Duration(before) * T), cost: 1, appended: t0,
			})
		}
		sees("x1", 1, 3)
		sees("x2", 2, 7)
		sees("y2", 2, 7)
		sees("z1", 1, 3)
		r.cancels(queue.Cancelled, q, "k1")
		sees("x1", 1, 2)
		sees("y2", 2, 5)
	}},
	{"with lanes, the eta counts jobs, not their costs", func(r *rig) {
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		j := jobOfLane("x", q, "x1")
		j.Cost = 5
		r.acceptJobs(j)
		// one job before it, whatever it costs
		r.expected(r.acceptJobs(jobOfLane("x", q, "x2"))[0], 2, t0.Add(100*time.Millisecond))
	}},
	{"the eta of jobs without lanes stays exact until a job with a lane arrives", func(r *rig) {
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		exact := func(id string, position int64, at time.Duration) {
			r.Helper()
			if a := r.acceptJobs(costing(2, q, id))[0]; a.Position != position || instantOf(a.ETA.At) != t0.Add(at) ||
				!a.ETA.Exact {
				r.Errorf("%+v", a)
			}
		}
		exact("k1", 1, 0)
		exact("k2", 2, 200*time.Millisecond)
		exact("k3", 3, 400*time.Millisecond)
		r.acceptJobs(jobOfLane("x", q, "x1"))
		if j := r.job(q, "k1"); j.ETA.Exact {
			r.Errorf("k1 is expected exactly at %v", j.ETA.At)
		}
		r.drain(q)
		if a := r.accept(q, "k4")[0]; a.ETA.Exact {
			r.Errorf("k4 is expected exactly at %v: jobs of lanes may come again", a.ETA.At)
		}
	}},
	{"a returning job waits in its lane at its turn", func(r *rig) {
		k := keys(2)
		x, y := k[0], k[1]
		q := r.queue("q", "unlimited", leased(10*time.Second, 8))
		r.acceptJobs(append(jobsOfLane(x, q, "x1", "x2", "x3", "x4"), jobsOfLane(y, q, "y1", "y2")...)...)
		v := r.grant(q, 4, "x1", "y1", "x2", "y2")
		r.release(v[2])
		r.fail(10*time.Second, v[0])
		for id, want := range map[string]int64{"x2": 1, "x3": 2, "x4": 3} {
			if j := r.job(q, id); j.Position != want || j.Lane != x {
				r.Errorf("%s is at %d of %q, want %d of %q", id, j.Position, j.Lane, want, x)
			}
		}
		r.clock.Advance(10 * time.Second) // x1 is due, the leases of y1 and y2 ran out
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.grant(q, 9)
		r.lanes(q, 2)
		for id, want := range map[string]int64{"x2": 1, "x4": 3, "y1": 1, "y2": 2} {
			if j := r.job(q, id); j.State != queue.Waiting || j.Position != want {
				r.Errorf("%s is %v at %d, want it waiting at %d", id, j.State, j.Position, want)
			}
		}
		r.check(r.e.Resume(r.ctx, q))
		got := map[string][]string{}
		for _, v := range r.reserve(q, 9) {
			got[v.Lane] = append(got[v.Lane], v.ID)
		}
		if !slices.Equal(got[x], []string{"x1", "x2", "x3", "x4"}) || !slices.Equal(got[y], []string{"y1", "y2"}) {
			r.Errorf("granted %v", got)
		}
	}},
	{"cancelled jobs leave their lane, and an empty lane leaves the queue", func(r *rig) {
		k := keys(3)
		x, y, z := k[0], k[1], k[2]
		q := r.queue("q", "unlimited")
		r.acceptJobs(append(
			append(jobsOfLane(x, q, "x1", "x2", "x3"), jobsOfLane(y, q, "y1")...), jobsOfLane(z, q, "z1", "z2")...,
		)...)
		r.cancels(queue.Cancelled, q, "x1")
		r.cancels(queue.Cancelled, q, "y1")
		r.lanes(q, 2)
		r.cancels(queue.Cancelled, q, "x3")
		r.grant(q, 9, "x2", "z1", "z2")
		r.lanes(q, 0)
	}},
	{"a queue is deleted with its lanes, and its successor knows nothing of them", func(r *rig) {
		rule := everyLane(queue.LaneRule{Capacity: 2, MaxInFlight: 1})
		q := r.queue("q", "unlimited", rule)
		r.acceptJobs(append(jobsOfLane("x", q, "x1", "x2"), jobsOfLane("y", q, "y1", "y2")...)...)
		v := r.reserve(q, 9)
		r.fail(time.Hour, v[1])
		r.delete(q)
		r.queue(q, "unlimited", rule)
		r.lanes(q, 0)
		r.acceptJobs(append(jobsOfLane("x", q, "x1", "x3"), jobsOfLane("y", q, "y1", "y3")...)...)
		if got := r.reserve(q, 9); len(got) != 2 {
			r.Errorf("granted %v", ids(got))
		}
		r.stale(settlement(queue.Deliver, v[0]))
		for range 100 {
			more, err := r.e.Sweep(r.ctx, r.partition(q))
			r.check(err)
			if !more {
				break
			}
		}
		r.lanes(q, 2)
		if i := r.info(q); i.Waiting != 2 || i.Leased != 2 {
			r.Errorf("%d wait, %d are leased", i.Waiting, i.Leased)
		}
	}},
	{"a thousand lanes come and go", func(r *rig) {
		q := r.queue("q", "unlimited")
		for round := range 3 {
			var list []queue.Job
			for i := range 1000 {
				list = append(list, jobOfLane(fmt.Sprint("lane-", round, "-", i), q, fmt.Sprint("j", round, "-", i)))
			}
			r.acceptJobs(list...)
			r.lanes(q, 1000)
			if got := r.drain(q); len(got) != 1000 {
				r.Errorf("%d departed", len(got))
			}
			r.lanes(q, 0)
		}
	}},
}
