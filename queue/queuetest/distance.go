package queuetest

import (
	"fmt"
	"maps"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const ms = time.Millisecond

// ask reserves as a client with this lead and uncertainty.
func (r *rig) ask(client, queueName string, most int, lead, uncertainty time.Duration) queue.Reserved {
	r.Helper()
	req := r.request(client, queueName, most)
	req.Lead, req.Uncertainty = lead, uncertainty
	return r.do(req)
}

// Rules for clients that are far from the engine, and for calls that would take long.
var distanceRules = []rule{
	{"no paced departure is earlier than the lead", func(r *rig) {
		for i, c := range []struct {
			rate string
			lead time.Duration
			want []time.Duration
		}{
			{"100/s", 0, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms, 50 * ms}},
			{"100/s", 15 * ms, []time.Duration{15 * ms, 25 * ms, 35 * ms, 45 * ms}},
			{"100/s", 50 * ms, []time.Duration{50 * ms}},
			{"100/s", time.Hour, []time.Duration{50 * ms}},
			{"unlimited", 15 * ms, []time.Duration{0, 0, 0, 0, 0, 0, 0, 0}},
		} {
			q := r.queue(fmt.Sprint("q", i), c.rate)
			r.accept(q, numbered("j", 8)...)
			var in []time.Duration
			for _, v := range r.ask(fmt.Sprint("client", i), q, 10, c.lead, 0).Jobs {
				in = append(in, v.In)
			}
			if fmt.Sprint(in) != fmt.Sprint(c.want) {
				r.Errorf("%s with a lead of %v: departures in %v, want %v", c.rate, c.lead, in, c.want)
			}
		}
	}},
	{"the lead applies to limits, members of groups and lanes", func(r *rig) {
		r.queue("limited", "unlimited", func(s *queue.Spec) {
			s.Limits = []queue.Limit{{Rate: leaky.PerSecond(100), Burst: 1}}
		})
		r.queue("g", "100/s")
		r.queue("g.child", "unlimited")
		r.queue("laned", "unlimited", everyLane(queue.LaneRule{Rate: leaky.PerSecond(100)}))
		r.accept("limited", "a")
		r.accept("g.child", "a")
		r.acceptJobs(jobOfLane(laneX, "laned", "a"))
		in := map[string]time.Duration{}
		for _, q := range []string{"limited", "g.child", "laned"} { // which may be of one partition
			for _, v := range r.ask("client", q, 9, 7*ms, 0).Jobs {
				in[v.Queue] = v.In
			}
		}
		if want := map[string]time.Duration{"limited": 7 * ms, "g.child": 7 * ms, "laned": 7 * ms}; !maps.Equal(in, want) {
			r.Errorf("departures in %v, want %v", in, want)
		}
	}},
	{"a lead earns no slots for idleness and no larger burst", func(r *rig) {
		q := r.queue("q", "100/s", func(s *queue.Spec) { s.Burst = 3 })
		r.accept(q, numbered("j", 9)...)
		r.clock.Advance(time.Minute)
		var in []time.Duration
		for _, v := range r.ask("client", q, 9, 20*ms, 0).Jobs {
			in = append(in, v.In)
		}
		if want := []time.Duration{20 * ms, 20 * ms, 20 * ms, 30 * ms, 40 * ms, 50 * ms}; fmt.Sprint(in) != fmt.Sprint(want) {
			r.Errorf("departures in %v, want %v", in, want)
		}
	}},
	{"a distant client is told to ask sooner", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a", "b")
		if res := r.ask("client", q, 1, 0, 0); res.Next != 975*ms && res.Next != 0 {
			r.Errorf("next in %v, want 975ms", res.Next)
		}
		r.clock.Advance(100 * ms)
		if res := r.ask("client", q, 9, 20*ms, 0); res.Next != 855*ms {
			r.Errorf("with a lead of 20ms: next in %v, want 855ms", res.Next)
		}
		r.clock.Advance(100 * ms)
		if res := r.ask("client", q, 9, 40*ms, 0); res.Next != 720*ms {
			r.Errorf("with a lead of 40ms: next in %v, want 720ms", res.Next)
		}
	}},
	{"a job that expires within the lead does not depart", func(r *rig) {
		q := r.queue("q", "100/s")
		r.acceptJobs(expiringJob(r.clock.Now().Add(10*ms), q, "a"), job(q, "b"))
		if v := r.ask("client", q, 9, 20*ms, 0).Jobs; len(v) != 1 || v[0].ID != "b" {
			r.Errorf("granted %v, want b alone", ids(v))
		}
		r.state(queue.Expired, q, "a")
	}},
	{"a departure keeps its distance from an uncertain client's", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 40)...)
		far := r.ask("far", q, 2, 0, 20*ms).Jobs // it takes as many as it may, so that other clients look
		last := r.departure(far[1])
		if v := r.ask("near", q, 9, 0, 0).Jobs; len(v) != 0 {
			r.Errorf("granted %d departures while the other may go on", len(v))
		}
		r.clock.Advance(10 * ms)
		v := r.ask("near", q, 9, 0, 0).Jobs
		if len(v) == 0 || r.departure(v[0]).Sub(last) != 30*ms {
			r.Errorf("%d departures, want the first 30ms behind the other client's: an interval, and its uncertainty", len(v))
		}
		if v := r.ask("near", q, 9, 0, 0).Jobs; len(v) != 0 {
			r.Errorf("granted %v, want nothing more within the horizon", ids(v))
		}
	}},
	{"a probe departs where its bucket says", func(r *rig) {
		r.queue("g", "1/h", bursting(4))
		for _, name := range []string{"alone", "g.a"} {
			q := r.queue(name, "1/h", bursting(4), circuitAfter(1, 10*ms, 20*ms))
			r.accept(q, "a", "b", "c")
			far := r.ask("client", name, 1, 20*ms, 40*ms).Jobs
			r.settleWith(queue.Down, "refused", 0, far[0])
			probe := r.ask("client", name, 9, 0, 0).Jobs
			if len(probe) != 1 {
				r.Fatalf("%s: %d jobs probe", name, len(probe))
			}
			if next := instantOf(r.info(q).Next); next != r.departure(probe[0]).Add(time.Hour) {
				r.Errorf("%s: the next departure is %v behind the probe", name, next.Sub(r.departure(probe[0])))
			}
		}
	}},
	{"a slow queue keeps that distance too, however old the departure", func(r *rig) {
		q := r.queue("q", "1/m")
		r.accept(q, numbered("j", 4)...)
		far := r.departure(r.ask("far", q, 1, 0, 40*ms).Jobs[0])
		r.clock.Advance(time.Minute)
		if v := r.ask("near", q, 1, 0, 0).Jobs; len(v) != 1 || r.departure(v[0]).Sub(far) != time.Minute+40*ms {
			r.Errorf("granted %v, want one 60.04s behind the other client's", v)
		}
	}},
	{"a lane keeps that distance, even after its rate delays nothing any more", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(queue.LaneRule{Rate: leaky.PerSecond(100)}))
		for i := range 9 {
			r.acceptJobs(jobOfLane(laneX, q, fmt.Sprint("j", i)))
		}
		far := r.departure(r.ask("far", q, 1, 0, 40*ms).Jobs[0])
		var v []queue.Reservation
		for range 10 {
			r.clock.Advance(5 * ms)
			if v = r.ask("near", q, 1, 0, 0).Jobs; len(v) > 0 {
				break
			}
		}
		if len(v) != 1 || r.departure(v[0]).Sub(far) != 50*ms {
			r.Errorf("granted %v, want one 50ms behind the other client's", v)
		}
	}},
	{"clients that share a clock keep no distance from one another", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 40)...)
		var last leaky.Instant
		for i := range 4 {
			req := r.request(fmt.Sprint("worker", i%2), q, 1)
			req.Uncertainty, req.Clock = 20*ms, "process"
			v := r.do(req).Jobs
			if len(v) != 1 || i > 0 && r.departure(v[0]).Sub(last) != 10*ms {
				r.Fatalf("request %d: granted %v, want one 10ms behind the one before", i, v)
			}
			last = r.departure(v[0])
		}
	}},
	{"an uncertain client continues without a gap", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 40)...)
		var all []queue.Reservation
		for range 5 {
			res := r.ask("far", q, 20, 5*ms, 20*ms)
			for i := range res.Jobs {
				res.Jobs[i].In += time.Duration(r.clock.Now()) * time.Microsecond
			}
			all = append(all, res.Jobs...)
			r.clock.Advance(20 * ms)
		}
		for i := 1; i < len(all); i++ {
			if gap := all[i].In - all[i-1].In; gap != 10*ms {
				r.Errorf("departure %d is %v behind the one before, want 10ms", i, gap)
			}
		}
		if len(all) < 12 {
			r.Errorf("%d departures in 100ms and a horizon", len(all))
		}
	}},
	{"an uncertain client takes nothing while another watches", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 40)...)
		r.ask("near", q, 20, 0, 0)
		r.clock.Advance(20 * ms)
		if v := r.ask("far", q, 20, 0, 20*ms).Jobs; len(v) != 0 {
			r.Errorf("granted %d departures between the watcher's", len(v))
		}
		r.clock.Advance(40 * ms) // it is overdue
		if v := r.ask("far", q, 20, 0, 20*ms).Jobs; len(v) == 0 {
			r.Error("nothing is granted although the watcher is overdue")
		}
	}},
	{"a call visits a bounded number of queues, the longest due first, and says that there are more", func(r *rig) {
		var names []string
		for i := 0; len(names) < 2*queue.MaxVisits+5; i++ {
			if name := fmt.Sprint("q", i); r.partition(name) == r.partition("q") {
				names = append(names, r.queue(name, "1/m"))
			}
		}
		for _, name := range names {
			r.accept(name, "j")
			r.clock.Advance(10 * time.Microsecond)
		}
		var got []string
		for call, want := range []int{queue.MaxVisits, queue.MaxVisits, 5} {
			res := r.reserveAs("client", "q", queue.MaxReserve)
			if len(res.Jobs) != want || (res.Next == 0) != (call < 2) {
				r.Errorf("call %d: %d jobs, next in %v; want %d", call, len(res.Jobs), res.Next, want)
			}
			for _, v := range res.Jobs {
				got = append(got, v.Queue)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			r.Errorf("visited %v, want %v", got, names)
		}
	}},
	{"members of a group count as visits, and the group continues", func(r *rig) {
		r.queue("g", "1000/s", func(s *queue.Spec) { s.Burst = 1000 })
		var names []string
		for i := range queue.MaxVisits + 10 {
			names = append(names, r.queue(fmt.Sprint("g.c", i), "unlimited"))
			r.accept(names[i], "j")
		}
		seen := map[string]bool{}
		for call := 0; len(seen) < len(names) && call < 4; call++ {
			res := r.reserveAs("client", "g", queue.MaxReserve)
			if call == 0 && (len(res.Jobs) > queue.MaxVisits || res.Next != 0) {
				r.Errorf("%d jobs in one call, next in %v", len(res.Jobs), res.Next)
			}
			for _, v := range res.Jobs {
				seen[v.Queue] = true
			}
		}
		if len(seen) != len(names) {
			r.Errorf("jobs of %d members, want %d", len(seen), len(names))
		}
	}},
	{"the answer carries the engine's clock", func(r *rig) {
		q := r.queue("q", "100/s")
		r.clock.Advance(time.Hour)
		if res := r.reserveAs("client", q, 1); instantOf(res.Now) != r.clock.Now() {
			r.Errorf("without a job: %v, want %v", res.Now, r.clock.Now().Time())
		}
		r.accept(q, "a")
		if res := r.reserveAs("client", q, 1); instantOf(res.Now) != r.clock.Now() {
			r.Errorf("with one: %v, want %v", res.Now, r.clock.Now().Time())
		}
	}},
	{"a departure granted ahead does not end a lane's stop", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.acceptJobs(jobOfLane(laneX, q, "a"))
		v := r.reserve(q, 1)
		s := settlement(queue.Throttle, v[0])
		s.After, s.LaneOnly = 30*ms, true
		r.settle(s)
		r.ask("client", q, 1, 40*ms, 0)
		if a := r.acceptJobs(jobOfLane(laneX, q, "b"))[0]; instantOf(a.ETA.At) != r.clock.Now().Add(30*ms) {
			r.Errorf("expected in %v, want 30ms", instantOf(a.ETA.At).Sub(r.clock.Now()))
		}
	}},
}
