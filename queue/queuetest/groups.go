package queuetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// group puts queues, each "name rate" or "name rate burst". "p" means the parent ses, any other letter its child of
// that name.
func (r *rig) group(list ...string) {
	r.Helper()
	for _, text := range list {
		r.put(groupSpec(text))
	}
}

func groupSpec(text string, change ...func(*queue.Spec)) queue.Spec {
	var name, rate string
	burst := int64(1)
	_, _ = fmt.Sscan(text, &name, &rate, &burst) // the burst may be left out
	return spec(named(name), rate, append(change, func(s *queue.Spec) { s.Burst = burst })...)
}

func named(letter string) string {
	if letter == "p" {
		return "ses"
	}
	return "ses." + letter
}

// appendGroup appends jobs to the queues of a group by the first letters of their ids: "a1 p1 b1*3" is a job for ses.a,
// a job for ses itself, and a job of cost 3 for ses.b.
func (r *rig) appendGroup(list string) []queue.Appended {
	r.Helper()
	return r.acceptJobs(broodOf(list)...)
}

func broodOf(list string) (jobs []queue.Job) {
	for _, text := range strings.Fields(list) {
		id, cost, costly := strings.Cut(text, "*")
		j := job(named(id[:1]), id)
		if costly {
			_, _ = fmt.Sscan(cost, &j.Cost)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// clear deletes a group between two parts of a rule.
func (r *rig) clear(letters string) {
	r.Helper()
	for _, c := range letters {
		r.check(r.e.Delete(r.ctx, named(string(c)), queue.AnyRevision, true))
	}
	r.clock.Advance(time.Hour) // by then the buckets of the names are forgotten
}

var groupRules = []rule{
	{"jobs depart exactly when the parent's rate and the children's allow", func(r *rig) {
		for _, tt := range []struct {
			what, jobs, want string
			queues           []string
		}{
			{
				"the parent's rate covers all", "a1 a2 b1 b2", "a1@0s b1@100ms a2@200ms b2@300ms",
				[]string{"p 10/s", "a unlimited", "b unlimited"},
			},
			{
				"a parent with jobs of its own", "a1 a2 p1 p2", "p1@0s a1@100ms p2@200ms a2@300ms",
				[]string{"p 10/s", "a unlimited"},
			},
			{
				"a child's slower rate", "a1 a2 b1 b2 b3", "a1@0s b1@100ms b2@200ms b3@300ms a2@1s",
				[]string{"p 10/s", "a 1/s", "b unlimited"},
			},
			{"a child as fast as its parent", "a1 a2 a3", "a1@0s a2@100ms a3@200ms", []string{"p 10/s", "a 10/s"}},
			{
				"children that are all slower", "a1 a2 a3 b1 b2",
				"a1@0s b1@0s a2@100ms b2@200ms a3@200ms",
				[]string{"p unlimited", "a 10/s", "b 5/s"},
			},
			{
				"costs", "a1*3 a2*3 b1 b2 b3 b4", "a1@0s b1@300ms b2@400ms b3@500ms a2@600ms b4@900ms",
				[]string{"p 10/s", "a unlimited", "b unlimited"},
			},
			{
				"a cost in a slower child", "a1*3 a2 b1", "a1@0s b1@300ms a2@3s",
				[]string{"p 10/s", "a 1/s", "b unlimited"},
			},
			{
				"a burst of the parent", "a1 a2 b1 b2", "a1@0s b1@0s a2@0s b2@100ms",
				[]string{"p 10/s 3", "a unlimited", "b unlimited"},
			},
			{"a burst of a child", "a1 a2 a3", "a1@0s a2@100ms a3@1s", []string{"p 10/s", "a 1/s 2"}},
			{
				"bursts of both", "a1 a2 a3 b1 b2", "a1@0s b1@0s a2@0s b2@100ms a3@1s",
				[]string{"p 10/s 3", "a 1/s 2", "b unlimited"},
			},
			{
				"instants are rounded up", "a1 a2 a3 a4", "a1@0s a2@333.334ms a3@666.667ms a4@1s",
				[]string{"p 3/s", "a 3/s"},
			},
			{
				"an unlimited group", "a1 b1 p1", "p1@0s a1@0s b1@0s",
				[]string{"p unlimited", "a unlimited", "b unlimited"},
			},
			{
				"a child ready between two departures of the parent", "a1 a2 a3", "a1@0s a2@1.02s a3@2.04s",
				[]string{"p 1/s", "a 1/1020ms"},
			},
		} {
			r.group(tt.queues...)
			t0 := r.clock.Now()
			r.appendGroup(tt.jobs)
			if got := r.departureTimes("ses", t0, len(strings.Fields(tt.jobs))); got != tt.want {
				r.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
			}
			letters := "" // the parent goes last
			for _, q := range tt.queues {
				letters = q[:1] + letters
			}
			r.clear(letters)
		}
	}},
	{"14/s over three children neither drifts nor gains", func(r *rig) {
		r.group("p 14/s", "a unlimited", "b unlimited", "c 14/s")
		r.accept("ses.a", numbered("a", 300)...)
		r.accept("ses.b", numbered("b", 300)...)
		r.accept("ses.c", numbered("c", 300)...)
		var first, last leaky.Instant
		for n := 0; n < 1+14*60; {
			res := r.reserveAs("client", "ses", 100)
			for _, v := range res.Jobs {
				if n++; n == 1 {
					first = r.departure(v)
				}
				last = r.departure(v)
				if n == 1+14*60 && last.Sub(first) != time.Minute {
					r.Errorf("60 x 14 departures after the first took %v", last.Sub(first))
				}
			}
			r.deliver(res.Jobs...)
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		if p := r.info("ses"); p.Lost != 0 {
			r.Errorf("%d slots lost", p.Lost)
		}
	}},
	{"lanes and their rates work within children", func(r *rig) {
		r.put(groupSpec("p 10/s"))
		r.put(groupSpec("a unlimited", everyLane(laneRate("1/s"))))
		r.put(groupSpec("b unlimited"))
		t0 := r.clock.Now()
		r.acceptJobs(append(laneJobs("ses.a", "x1 x2 y1 y2"), broodOf("b1 b2 b3")...)...)
		r.sameDepartures(
			r.departureTimes("ses", t0, 7), "x1@0s b1@100ms y1@200ms b2@300ms b3@400ms x2@1s y2@1.2s",
		)
	}},
	{"priorities and schedules apply to each queue", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		t0 := r.clock.Now()
		r.appendGroup("a1 b1")
		r.acceptJobs(withPriority(9, "", "ses.a", "a2"))
		r.schedule(later(t0.Add(150*time.Millisecond), "ses.b", "b2"), later(t0.Add(time.Second), "ses", "p1"))
		r.sameDepartures(r.departureTimes("ses", t0, 5), "a2@0s b1@100ms a1@200ms b2@300ms p1@1s")
	}},
	{"max_in_flight applies to each queue, and to the parent for its own jobs", func(r *rig) {
		r.put(groupSpec("p 100/s", maxInFlight(1)))
		r.put(groupSpec("a unlimited", maxInFlight(1)))
		r.put(groupSpec("b unlimited"))
		r.appendGroup("p1 p2 a1 a2 b1 b2 b3")
		var v []queue.Reservation
		for range 20 {
			v = append(v, r.reserve("ses", 9)...)
			r.clock.Advance(10 * time.Millisecond)
		}
		r.sameIDs(v, "p1", "a1", "b1", "b2", "b3")
		r.deliver(v[1])
		w := r.grant("ses", 9, "a2")
		r.fail(time.Hour, v[0])
		r.clock.Advance(10 * time.Millisecond)
		r.grant("ses", 9, "p2")
		r.deliver(w...)
	}},
	{"the parent's window law and each child's hold, whatever happens to jobs", func(r *rig) {
		for seed := range uint64(2) {
			r.storm(rand.New(rand.NewPCG(seed, 44)), fmt.Sprint("g", seed))
		}
	}},
}

// storm runs random operations on a group and checks the departures at every level.
func (r *rig) storm(rnd *rand.Rand, parent string) {
	r.Helper()
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	specs := []queue.Spec{spec(parent, pick("50/s", "25/s"), func(s *queue.Spec) { s.Burst = 1 + rnd.Int64N(3) })}
	for i := range 5 {
		specs = append(specs, spec(fmt.Sprint(parent, ".c", i), pick(
			"unlimited", "5/s", "30/s", "14/s",
		), func(s *queue.Spec) {
			s.Burst = 1 + rnd.Int64N(2)
			s.Lanes.LaneRule = laneRate(pick("unlimited", "3/s", "20/s"))
		}))
	}
	for _, s := range specs {
		s.Pull = s.Name == parent+".c4"
		r.put(s)
	}
	starts := map[string][]law.Start{}
	for step, n := 0, 0; step < 300; step++ {
		switch rnd.IntN(10) {
		case 0:
			q := specs[rnd.IntN(len(specs))].Name
			r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
			r.clock.Advance(time.Duration(rnd.IntN(200)) * time.Millisecond)
			r.check(r.e.Resume(r.ctx, q))
		case 1, 2, 3:
			for range 1 + rnd.IntN(8) {
				j := jobOfLane(pick("", "x", "y"), specs[rnd.IntN(len(specs))].Name, fmt.Sprint(parent, "-", n))
				j.Cost = 1 + rnd.Int64N(3)
				r.acceptJobs(j)
				n++
			}
		}
		var granted []queue.Reservation
		if rnd.IntN(2) == 0 {
			granted = r.do(r.pulling("puller", parent+".c4", 1+rnd.IntN(8))).Jobs
		}
		granted = append(granted, r.reserveAs("client", parent, 1+rnd.IntN(20)).Jobs...)
		for _, v := range r.endAnyhow(rnd, granted) {
			s := law.Start{At: time.Duration(r.departure(v)) * time.Microsecond, Cost: v.Cost}
			starts[parent] = append(starts[parent], s)
			if v.Queue != parent {
				starts[v.Queue] = append(starts[v.Queue], s)
			}
			if v.Lane != "" {
				starts[v.Queue+" "+v.Lane] = append(starts[v.Queue+" "+v.Lane], s)
			}
		}
		r.clock.Advance(time.Duration(rnd.IntN(60)) * time.Millisecond)
	}
	for _, s := range specs {
		r.lawful(s.Name, law.Law{Rate: s.Rate, Burst: s.Burst, MaxCost: 3, Slack: rounding}, starts[s.Name])
		for _, lane := range []string{"x", "y"} {
			if s.Name != parent {
				r.lawful(
					s.Name+" "+lane, law.Law{Rate: s.Lanes.Rate, MaxCost: 3, Slack: rounding}, starts[s.Name+" "+lane],
				)
			}
		}
	}
	if n := len(starts[parent]); n < 80 {
		r.Errorf("%d departures are too few to say anything", n)
	}
	for _, s := range slices.Backward(specs) {
		r.check(r.e.Delete(r.ctx, s.Name, queue.AnyRevision, true))
	}
}

// rounding is how much later an instant may be than its exact value, and so how much too near the next may be.
const rounding = time.Microsecond

// endAnyhow settles jobs, some as failed or unused, and returns the used ones.
func (r *rig) endAnyhow(rnd *rand.Rand, list []queue.Reservation) (used []queue.Reservation) {
	r.Helper()
	var all []queue.Settlement
	for i, v := range list {
		s := settlement(queue.Deliver, v)
		switch {
		case i == len(list)-1 && rnd.IntN(4) == 0 || rnd.IntN(12) == 0:
			s.Verdict = queue.Release
		case rnd.IntN(5) == 0:
			s.Verdict, s.After, s.Reason = queue.Fail, time.Duration(rnd.IntN(300))*time.Millisecond, "it failed"
		}
		if s.Verdict != queue.Release {
			used = append(used, v)
		}
		all = append(all, s)
	}
	if len(all) > 0 {
		r.settle(all...)
	}
	return used
}

func (r *rig) lawful(what string, l law.Law, starts []law.Start) {
	r.Helper()
	if v := l.Judge(starts); !v.Held {
		r.Errorf(
			"%s at %s, burst %d: %d depart in %v, %d may", what, l.Rate, l.Burst, v.Worst.Starts, v.Worst.Width,
			v.Worst.Allowed,
		)
	}
}
