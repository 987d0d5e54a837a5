package queuetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// learningEstimate sets an estimate of tokens that learns.
func learningEstimate(quantile string, cost int64) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Estimate = map[string]queue.Estimate{"tokens": {Default: cost, Learn: quantile}}
	}
}

// spend appends jobs to a queue and settles them with actual costs.
func (r *rig) spend(queueName string, costs ...int64) {
	r.Helper()
	r.spendIn(queueName, "", costs...)
}

// spendIn is spend for a lane.
func (r *rig) spendIn(queueName, lane string, costs ...int64) {
	r.Helper()
	for part := range slices.Chunk(costs, 16) {
		var jobs []queue.Job
		for range part {
			r.spent++
			jobs = append(jobs, jobOfLane(lane, queueName, fmt.Sprint("spent", r.spent)))
		}
		r.acceptJobs(jobs...)
		v := r.reserve(queueName, len(part))
		if len(v) != len(part) {
			r.Fatalf("%d jobs of %d are granted", len(v), len(part))
		}
		var list []queue.Settlement
		for i := range v {
			list = append(list, actual(v[i], fmt.Sprint("tokens=", part[i])))
		}
		for _, s := range r.settle(list...) {
			if s.State != queue.Delivered || s.Err != nil {
				r.Fatalf("%+v", s)
			}
		}
	}
}

// charges checks what a new job without a cost is charged.
func (r *rig) charges(queueName string, want int64) {
	r.Helper()
	r.spent++
	id := fmt.Sprint("asks", r.spent)
	r.acceptJobs(job(queueName, id))
	if got := r.job(queueName, id).Costs["tokens"]; got != want {
		r.Fatalf("a job of %s is charged %d, want %d", queueName, got, want)
	}
	r.cancels(queue.Cancelled, queueName, id)
	i := r.info(queueName)
	if got, ok := i.Expected(&i.Spec, "tokens"); !ok || got != want {
		r.Errorf("%s shows that it charges %d, want %d", queueName, got, want)
	}
}

// times returns a list of the same cost.
func times(n int, cost int64) []int64 { return slices.Repeat([]int64{cost}, n) }

const wide = "1000000/s 1000000000"

var learnedRules = []rule{
	{"the default applies until enough costs are known", func(r *rig) {
		q := r.queue("q", "unlimited", metered(wide), learningEstimate("p50", 15))
		r.spend(q, times(queue.LearnAfter-1, 7)...)
		r.charges(q, 15)
		r.spend(q, 7)
		r.charges(q, 7)
		r.acceptJobs(using("tokens=3", q, "own"))
		if got := r.job(q, "own").Costs["tokens"]; got != 3 {
			r.Errorf("a job with a cost is charged %d", got)
		}
	}},
	{"each quantile is that of a list of all costs", func(r *rig) {
		rnd := rand.New(rand.NewPCG(33, 1))
		for i, quantile := range []string{"p50", "p90", "p95", "p99"} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", metered(wide), learningEstimate(quantile, 15))
			var all []int64
			var h leaky.Histogram
			for range 12 {
				var some []int64
				for range 40 {
					some = append(some, int64(math.Exp(6+1.2*rnd.NormFloat64())))
				}
				r.spend(q, some...)
				for _, cost := range some {
					h = h.Add(cost)
				}
				all = append(all, some...)
				sorted := slices.Clone(all)
				slices.Sort(sorted)
				var percent int
				_, _ = fmt.Sscanf(quantile, "p%d", &percent)
				exact := sorted[(len(sorted)*percent+99)/100-1]
				info := r.info(q)
				got, _ := info.Expected(&info.Spec, "tokens")
				if got < exact || got > exact+exact/8 {
					r.Fatalf("%s of %d costs is %d, exactly %d", quantile, len(all), got, exact)
				}
				r.charges(q, got)
				if list := info.Learned; len(list) != 1 || list[0].Unit != "tokens" || list[0].Costs != h {
					r.Fatalf("%v is kept, want %q", list, h)
				}
			}
		}
	}},
	{"old costs fade", func(r *rig) {
		q := r.queue("q", "unlimited", metered(wide), learningEstimate("p99", 15))
		var h leaky.Histogram
		for _, cost := range []int64{5, 1000, 1, 7000} {
			r.spend(q, times(700, cost)...)
			for range 700 {
				h = h.Add(cost)
			}
		}
		if list := r.info(q).Learned; len(list) != 1 || list[0].Costs != h {
			r.Errorf("%v is kept, want %q", list, h)
		}
		r.charges(q, h.Quantile(99))
	}},
	{"costs of 0, of jobs given back and of repeated settlements are not learned", func(r *rig) {
		q := r.queue("q", "unlimited", metered(wide), learningEstimate("p99", 15))
		r.spend(q, times(40, 0)...)
		r.accept(q, "a")
		s := settlement(queue.Release, r.grant(q, 1, "a")[0])
		s.Actual = costsOf("tokens=9")
		r.settle(s)
		if list := r.info(q).Learned; len(list) != 0 {
			r.Errorf("%v is kept", list)
		}
		s = actual(r.grant(q, 1, "a")[0], "tokens=9")
		r.settle(s, s)
		r.settle(s)
		r.accept(q, "b")
		r.settle(actual(r.grant(q, 1, "b")[0], "tokens=9"), actual(queue.Reservation{
			Job: queue.Job{Queue: q, ID: "nobody"},
		}, "tokens=9"))
		if list := r.info(q).Learned; len(list) != 1 || list[0].Costs.Costs() != 2 {
			r.Errorf("%v is kept", list)
		}
		r.accept(q, "dies")
		s = settlement(queue.Bury, r.grant(q, 1, "dies")[0])
		s.Actual = costsOf("tokens=9")
		r.settle(s)
		if list := r.info(q).Learned; list[0].Costs.Costs() != 3 {
			r.Errorf("%v is kept", list)
		}
	}},
	{"children without an estimate learn together", func(r *rig) {
		r.queue("g", "unlimited", metered(wide), learningEstimate("p50", 15))
		a, b := r.queue("g.a", "unlimited"), r.queue("g.b", "unlimited")
		c := r.queue("g.c", "unlimited", learningEstimate("p90", 5))
		r.spend(a, times(20, 7)...)
		r.spend(b, times(20, 7)...)
		for name, want := range map[string]int64{a: 7, b: 7, c: 5, "g": 7} {
			r.charges(name, want)
		}
		r.spend(c, times(40, 9)...)
		for name, want := range map[string]int64{a: 7, b: 7, c: 9, "g": 7} {
			r.charges(name, want)
		}
		if list := r.info(a).Learned; len(list) != 0 {
			r.Errorf("the child keeps %v", list)
		}
		r.accept(a, "a")
		r.accept(b, "b")
		r.accept(c, "c")
		r.settle(
			actual(r.grant(a, 1, "a")[0], "tokens=7"), actual(r.grant(b, 1, "b")[0], "tokens=7"),
			actual(r.grant(c, 1, "c")[0], "tokens=9"),
		)
		for name, want := range map[string]int{"g": 42, c: 41} {
			if list := r.info(name).Learned; len(list) != 1 || list[0].Costs.Costs() != want {
				r.Errorf("%s keeps %v, want %d costs", name, list, want)
			}
		}
	}},
	{"what was learned is corrected with the charge of the job", func(r *rig) {
		q := r.queue("q", "unlimited", metered("quota 1000000/h"), learningEstimate("p50", 100))
		r.accept(q, "before")
		v := r.grant(q, 1, "before")[0]
		r.spend(q, times(40, 7)...)
		r.accept(q, "after")
		w := r.grant(q, 1, "after")[0]
		r.used(q, 100+40*7+7)
		r.settled(queue.Delivered, actual(v, "tokens=50"))
		r.settled(queue.Delivered, actual(w, "tokens=60"))
		r.used(q, 50+40*7+60)
	}},
	{"a job that has no cost is charged the default, whatever was learned meanwhile", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "old1", "old2")
		r.queue(q, "unlimited", metered("quota 1000000/h"), learningEstimate("p50", 100))
		r.clock.Advance(2 * queue.Horizon)
		v := r.grant(q, 1, "old1")[0]
		w := r.grant(q, 1, "old2")[0]
		r.spend(q, times(40, 7)...)
		r.used(q, 200+40*7)
		r.settled(queue.Delivered, actual(v, "tokens=50"))
		r.settled(queue.Delivered, actual(w, "tokens=150"))
		r.used(q, 200+40*7)
	}},
	{"a changed spec keeps what was learned, unless it no longer learns", func(r *rig) {
		q := r.queue("q", "unlimited", metered(wide), learningEstimate("p99", 15))
		r.spend(q, append(times(38, 7), 12, 12)...)
		r.charges(q, 12)
		r.queue(q, "unlimited", metered(wide, "images 5/s"), learningEstimate("p50", 20), func(s *queue.Spec) {
			s.Estimate["images"] = queue.Estimate{Default: 1, Learn: "p50"}
		})
		r.charges(q, 7)
		r.queue(q, "unlimited", metered(wide), estimating("tokens=20"))
		r.charges(q, 20)
		r.queue(q, "unlimited", metered(wide), learningEstimate("p50", 20))
		r.charges(q, 20)
		if list := r.info(q).Learned; len(list) != 0 {
			r.Errorf("%v is kept", list)
		}
		r.spend(q, times(40, 7)...)
		r.charges(q, 7)
		r.delete(q)
		r.queue(q, "unlimited", metered(wide), learningEstimate("p50", 20))
		r.charges(q, 20)
	}},
	{"an export has what was learned", func(r *rig) {
		q := r.queue("q", "unlimited", metered(wide), learningEstimate("p50", 15))
		r.spend(q, times(40, 7)...)
		m := r.export(q)
		r.move(m)
		r.charges(q, 7)
		if list := r.info(q).Learned; !slices.Equal(list, m.queue.Learned) || len(list) != 1 {
			r.Errorf("%v is imported, %v was exported", list, m.queue.Learned)
		}
		r.erase(q)
		done, err := r.mover().ImportQueues(r.ctx, []move.Queue{m.queue}, "another")
		if err != nil || len(done) != 1 || !done[0] {
			r.Fatal(done, err)
		}
		r.charges(q, 7)
		r.clock.Advance(queue.Horizon)
		r.spend(q, times(100, 9)...)
		r.charges(q, 9)
	}},
	{"settings that learn are checked", func(r *rig) {
		for field, e := range map[string]queue.Estimate{
			"estimate.tokens.learn": {Default: 1, Learn: "p100"}, "estimate.tokens.from": {Default: 1, From: "max_tokens"},
		} {
			_, err := r.e.Put(r.ctx, spec("q", "1/s", metered("1/s"), func(s *queue.Spec) {
				s.Estimate = map[string]queue.Estimate{"tokens": e}
			}), queue.AnyRevision)
			r.refusesField(field, err)
		}
	}},
}
