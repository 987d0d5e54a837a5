package queuetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// metered sets limits that count tokens, each as limited reads it. Other units are written before it: "images quota
// 5/m".
func metered(list ...string) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Limits = nil
		for _, text := range list {
			unit, rest, named := strings.Cut(text, " ")
			if named = named && unit != "quota" && !strings.Contains(unit, "/"); !named {
				unit, rest = "tokens", text
			}
			l := limit(rest)
			l.Unit = unit
			s.Limits = append(s.Limits, l)
		}
	}
}

// estimating sets the estimates of a spec, such as "tokens=1000 images=1".
func estimating(text string) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Estimate = map[string]queue.Estimate{}
		for unit, cost := range costsOf(text) {
			s.Estimate[unit] = queue.Estimate{Default: cost}
		}
	}
}

func costsOf(text string) map[string]int64 {
	costs := map[string]int64{}
	for _, f := range strings.Fields(text) {
		unit, number, _ := strings.Cut(f, "=")
		var cost int64
		_, _ = fmt.Sscan(number, &cost)
		costs[unit] = cost
	}
	return costs
}

// using returns a job with costs such as "tokens=1000".
func using(costs, queueName, id string) queue.Job {
	j := job(queueName, id)
	j.Costs = costsOf(costs)
	return j
}

// tokens appends jobs that cost so many tokens each: j1, j2 and so on.
func (r *rig) tokens(queueName string, costs ...int64) {
	r.Helper()
	var list []queue.Job
	for i, cost := range costs {
		list = append(list, using(fmt.Sprint("tokens=", cost), queueName, fmt.Sprint("j", i+1)))
	}
	r.acceptJobs(list...)
}

// actual returns the settlement of a delivered job that used so much.
func actual(v queue.Reservation, costs string) queue.Settlement {
	s := settlement(queue.Deliver, v)
	s.Actual = costsOf(costs)
	return s
}

// leavesAt checks when the next job of a queue departs, counted from t0, and returns it.
func (r *rig) leavesAt(queueName string, t0 leaky.Instant, want time.Duration) queue.Reservation {
	r.Helper()
	if now := r.clock.Now(); t0.Add(want) > now.Add(queue.Horizon) {
		r.clock.Set(t0.Add(want).Add(-queue.Horizon - time.Millisecond))
		r.grant(queueName, 1)
		r.clock.Advance(time.Millisecond)
	}
	v := r.reserve(queueName, 1)
	if len(v) != 1 || r.departure(v[0]) != t0.Add(want) {
		r.Fatalf("%v at %v, want one at %v", v, r.clock.Now().Sub(t0), want)
	}
	return v[0]
}

var unitRules = []rule{
	{"costs in a unit use up its budget", func(r *rig) {
		for i, tt := range []struct {
			what, limit string
			costs       []int64
			want        string
		}{
			{"a burst, then the rate", "10/s 20", []int64{5, 5, 10, 10, 5, 0}, "j1@0s j2@0s j3@0s j4@1s j5@1.5s j6@1.5s"},
			{"without a burst each pays for itself", "10/s", []int64{5, 1, 3, 1}, "j1@0s j2@500ms j3@600ms j4@900ms"},
			{"more than the burst leaves a debt", "10/s 10", []int64{30, 1, 100, 1}, "j1@0s j2@2.1s j3@3.1s j4@12.2s"},
			{"cheaper jobs do not overtake", "10/s 20", []int64{15, 20, 1, 1}, "j1@0s j2@1.5s j3@1.6s j4@1.7s"},
			{"each departure is rounded up", "3/s 1", []int64{1, 1, 1}, "j1@0s j2@333.334ms j3@666.668ms"},
		} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", metered(tt.limit))
			t0 := r.clock.Now()
			r.tokens(q, tt.costs...)
			if got := r.departureTimes(q, t0, len(tt.costs)); got != tt.want {
				r.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
			}
		}
	}},
	{"a departure needs what all limits ask for", func(r *rig) {
		q := r.queue("q", "10/s", metered("10/s 20", "images 1/s 2"))
		t0 := r.clock.Now()
		r.acceptJobs(
			using("tokens=10 images=2", q, "a"), using("tokens=5 images=0", q, "b"), using("tokens=10 images=1", q, "c"),
			using("tokens=1 images=1", q, "d"),
		)
		r.sameDepartures(r.departureTimes(q, t0, 4), "a@0s b@100ms c@1s d@2s")
	}},
	{"a quota of a unit", func(r *rig) {
		q := r.queue("q", "10/s", metered("quota 100/m"))
		t0 := r.clock.Now()
		r.tokens(q, 60, 40, 1, 1000, 5)
		r.sameDepartures(r.departures(q, t0, 5), "j1@0s j2@100ms j3@1m0s j4@2m0s j5@3m0s")
	}},
	{"a parent counts the costs of its children", func(r *rig) {
		r.queue("g", "unlimited", metered("10/s 20"), estimating("tokens=10"))
		a, b := r.queue("g.a", "unlimited"), r.queue("g.b", "unlimited", metered("1/s 100"), estimating("tokens=5"))
		t0 := r.clock.Now()
		r.acceptJobs(job(a, "a1"), job(a, "a2"), using("tokens=30", a, "a3"), job(b, "b1"), job(b, "b2"))
		r.sameDepartures(r.departureTimes("g", t0, 5), "a1@0s b1@0s a2@500ms b2@1s a3@3s")
	}},
	{"a job without a cost has the estimate", func(r *rig) {
		q := r.queue("q", "unlimited", metered("10/s 20", "images 1/s 5"), estimating("tokens=15"))
		r.acceptJobs(using("images=2", q, "a"))
		if got := r.job(q, "a").Costs; fmt.Sprint(got) != "map[images:2 tokens:15]" {
			r.Errorf("it costs %v", got)
		}
		r.queue(q, "unlimited", metered("10/s 20", "images 1/s 5"), estimating("tokens=1"))
		v := r.grant(q, 1, "a")[0]
		if fmt.Sprint(v.Costs) != "map[images:2 tokens:15]" {
			r.Errorf("it is handed out with costs %v", v.Costs)
		}
	}},
	{"costs that no limit counts, and missing costs, are refused", func(r *rig) {
		q, plain := r.queue("q", "1/s", metered("10/s 20"), estimating("images=1")), r.queue("plain", "1/s")
		r.queue("g", "1/s", metered("10/s 20"))
		child := r.queue("g.a", "1/s")
		for _, tt := range []struct {
			field string
			job   queue.Job
		}{
			{"costs.images", using("tokens=1 images=1", q, "a")},
			{"costs.tokens", job(q, "a")},
			{"costs.tokens", using("tokens=1", plain, "a")},
			{"costs.tokens", job(child, "a")},
			{"costs.tokens", using("tokens=-1", q, "a")},
			{"costs.tokens", using("tokens=1000000001", q, "a")},
			{"costs", using("Tokens=1", q, "a")},
			{"costs.jobs", using("jobs=1 tokens=1", q, "a")},
			{"costs", using("a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1", q, "a")},
		} {
			a := r.append(tt.job)[0]
			if a.Outcome != queue.Invalid {
				r.Errorf("%v in %s: %v", tt.job.Costs, tt.job.Queue, a.Outcome)
			}
			r.refusesField(tt.field, a.Err)
		}
		r.accept(r.queue("more", "1/s", metered("10/s 20"), estimating("tokens=1")), "a")
		r.acceptJobs(using("tokens=1", child, "b"))
	}},
	{"jobs that wait when a unit is added have its estimate, or cost 1", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		r.queue(q, "unlimited", metered("10/s 20"), estimating("tokens=20"))
		t0 := r.clock.Now()
		r.deliver(r.grant(q, 9, "a")...)
		r.queue(q, "unlimited", metered("10/s 20"))
		r.sameDepartures(r.departureTimes(q, t0, 2), "b@100ms c@200ms")
	}},
	{"actual costs replace the charge", func(r *rig) {
		for i, tt := range []struct {
			what, actual string
			verdict      queue.Verdict
			want         time.Duration
		}{
			{"less", "tokens=5", queue.Deliver, 500 * time.Millisecond},
			{"nothing", "tokens=0", queue.Deliver, 0},
			{"as charged", "tokens=20", queue.Deliver, 2 * time.Second},
			{"more", "tokens=50", queue.Deliver, 5 * time.Second},
			{"not stated", "", queue.Deliver, 2 * time.Second},
			{"a failure", "tokens=5", queue.Bury, 500 * time.Millisecond},
			{"a job that may have been sent", "tokens=50", queue.Hold, 5 * time.Second},
			{"a job given back", "tokens=50", queue.Release, 0},
		} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", metered("10/s 20"))
			t0 := r.clock.Now()
			r.tokens(q, 20)
			v := r.grant(q, 1, "j1")[0]
			s := settlement(tt.verdict, v)
			s.Actual = costsOf(tt.actual)
			for range 2 {
				r.settle(s)
			}
			if tt.verdict == queue.Release {
				r.cancels(queue.Cancelled, q, "j1")
			}
			r.acceptJobs(using("tokens=20", q, "next"))
			if got := r.leavesAt(q, t0, tt.want); got.ID != "next" {
				r.Errorf("%s: %s leaves", tt.what, got.ID)
			} else {
				r.deliver(got)
			}
			r.clock.Advance(time.Minute)
		}
	}},
	{"actual costs are those of the parent too", func(r *rig) {
		r.queue("g", "unlimited", metered("10/s 20", "quota 100/h"))
		a, b := r.queue("g.a", "unlimited", metered("images quota 10/m")), r.queue("g.b", "unlimited")
		t0 := r.clock.Now()
		r.acceptJobs(using("tokens=20 images=3", a, "a"))
		v := r.grant("g", 1, "a")[0]
		r.settled(queue.Delivered, actual(v, "tokens=35 images=5"))
		r.used(a, 5)
		if w := r.info("g").Limits[1].Window; w.Used != 35 {
			r.Errorf("the parent counts %d", w.Used)
		}
		r.tokens(b, 20)
		r.leavesAt("g", t0, 3500*time.Millisecond)
	}},
	{"a refund lets jobs leave at once", func(r *rig) {
		q := r.queue("q", "unlimited", metered("1/s 100"))
		r.tokens(q, 100, 100)
		v := r.grant(q, 9, "j1")[0]
		r.grant(q, 9)
		r.settled(queue.Delivered, actual(v, "tokens=0"))
		r.grant(q, 9, "j2")
	}},
	{"actual costs count in the window of the departure only", func(r *rig) {
		q := r.queue("q", "unlimited", metered("quota 100/m"), longLease)
		r.tokens(q, 60, 40)
		list := r.grant(q, 2, "j1", "j2")
		r.settled(queue.Delivered, actual(list[0], "tokens=10"))
		r.used(q, 50)
		r.clock.Advance(time.Minute)
		r.acceptJobs(using("tokens=50", q, "k"))
		r.grant(q, 1, "k")
		r.settled(queue.Delivered, actual(list[1], "tokens=0"))
		r.used(q, 50)
	}},
	{"actual costs that cannot be charged change nothing", func(r *rig) {
		q, plain := r.queue("q", "unlimited", metered("10/s 20")), r.queue("plain", "unlimited")
		r.tokens(q, 20)
		r.accept(plain, "a")
		v, other := r.grant(q, 1, "j1")[0], r.grant(plain, 1, "a")[0]
		for _, tt := range []struct {
			field, costs string
			v            queue.Reservation
		}{
			{"actual.images", "images=1", v},
			{"actual.tokens", "tokens=-1", v},
			{"actual.tokens", "tokens=1000000001", v},
			{"actual.jobs", "jobs=2", v},
			{"actual", "TOKENS=2", v},
			{"actual.tokens", "tokens=1", other},
		} {
			before := r.info(q).Limits
			out, err := r.e.Settle(r.ctx, []queue.Settlement{actual(tt.v, tt.costs), settlement(queue.Bury, queue.Reservation{
				Job: queue.Job{Queue: "nobody", ID: "x"},
			})})
			if err != nil || out[0].Err == nil || out[0].State != queue.StateNone {
				r.Errorf("%s: %+v, %v", tt.costs, out, err)
				continue
			}
			r.refusesField(tt.field, out[0].Err)
			if after := r.info(q).Limits; fmt.Sprint(after) != fmt.Sprint(before) {
				r.Errorf("%s: from %v to %v", tt.costs, before, after)
			}
			r.state(queue.Leased, tt.v.Queue, tt.v.ID)
		}
	}},
	{"a lease that ran out corrects nothing", func(r *rig) {
		q := r.queue("q", "unlimited", metered("1/m 20"), func(s *queue.Spec) { s.Lease = queueLease })
		r.tokens(q, 20)
		v := r.grant(q, 1, "j1")[0]
		r.clock.Advance(2 * queueLease.D())
		r.reserve(q, 1)
		before := r.info(q).Limits
		r.stale(actual(v, "tokens=0"))
		if after := r.info(q).Limits; after[0].Bucket.TAT != before[0].Bucket.TAT {
			r.Errorf("from %v to %v", before, after)
		}
	}},
	{"a limit that is newer than the departure is not corrected", func(r *rig) {
		q := r.queue("q", "unlimited", metered("10/s 20"))
		r.tokens(q, 20)
		v := r.grant(q, 1, "j1")[0]
		r.clock.Advance(time.Second)
		r.queue(q, "unlimited", metered("10/s 20", "quota 100/d"))
		r.settled(queue.Delivered, actual(v, "tokens=90"))
		if i := r.info(q); i.Limits[1].Window.Used != 0 {
			r.Errorf("the new quota counts %d", i.Limits[1].Window.Used)
		}
	}},
	{"a parent that is newer than the departure of a child is not corrected", func(r *rig) {
		child := r.queue("g.a", "unlimited", metered("1/s 100"))
		r.tokens(child, 20, 30)
		v := r.grant(child, 1, "j1")[0]
		r.queue("g", "unlimited", metered("quota 100/d"))
		r.settled(queue.Delivered, actual(v, "tokens=90"))
		r.used("g", 0)
	}},
	{"a queue says which budget a job waits for", func(r *rig) {
		q := r.queue("q", "unlimited", metered("10/s 20"), estimating("tokens=10"))
		t0 := r.clock.Now()
		r.acceptJobs(using("tokens=20", q, "a"), using("tokens=10", q, "b"), using("tokens=10", q, "c"))
		r.grant(q, 9, "a")
		r.waitsFor(lasting(cause.Rate, t0.Add(time.Second), "tokens 10/s burst 20"), q, "b", "c")
		for id, want := range map[string]time.Duration{"b": time.Second, "c": 2 * time.Second} {
			if eta := r.job(q, id).ETA; instantOf(eta.At) != t0.Add(want) || eta.Exact {
				r.Errorf("%s is expected in %v, exact %v", id, instantOf(eta.At).Sub(t0), eta.Exact)
			}
		}
		day := r.queue("day", "unlimited", metered("quota 20/m"))
		r.tokens(day, 20, 1)
		r.grant(day, 9, "j1")
		r.waitsFor(lasting(cause.Quota, t0.Add(time.Minute), "tokens 20/m"), day, "j2")
	}},
	{"changes of a budget bypass nothing", func(r *rig) {
		q := r.queue("q", "unlimited", metered("10/s 20"))
		t0 := r.clock.Now()
		r.tokens(q, 20, 10, 10)
		r.grant(q, 9, "j1")
		r.queue(q, "unlimited", metered("20/s 20"))
		r.leavesAt(q, t0, 500*time.Millisecond)
		r.queue(q, "unlimited", metered("20/s 40"))
		r.leavesAt(q, t0, time.Second)
		r.delete("q")
	}},
	{"a deleted queue continues its budget", func(r *rig) {
		q := r.queue("q", "unlimited", metered("10/s 20"))
		t0 := r.clock.Now()
		r.tokens(q, 20)
		r.deliver(r.grant(q, 9, "j1")...)
		r.delete(q)
		r.queue(q, "unlimited", metered("10/s 20"))
		r.tokens(q, 20)
		r.leavesAt(q, t0, 2*time.Second)
	}},
	{"settings of units are checked", func(r *rig) {
		for field, change := range map[string]func(*queue.Spec){
			"limits.0.unit": metered("Tokens 1/s"), "limits.0.burst": metered("1/d 1000"),
			"estimate.tokens.default": estimating("tokens=-1"), "estimate": estimating("TOKENS=1"),
			"limits": metered("a 1/s", "b 1/s", "c 1/s", "d 1/s", "e 1/s"),
		} {
			_, err := r.e.Put(r.ctx, spec("q", "1/s", change), queue.AnyRevision)
			r.refusesField(field, err)
		}
		r.queue("q", "1/s", metered("jobs 1/s 3"))
		if l := r.info("q").Spec.Limits[0]; l.Unit != "" || !l.Paced() {
			r.Errorf("%+v", l)
		}
	}},
	{"every budget holds, whatever happens to jobs", func(r *rig) {
		for seed := range uint64(3) {
			r.unitStorm(rand.New(rand.NewPCG(seed, 46)), fmt.Sprint("g.q", seed))
		}
	}},
}

func longLease(s *queue.Spec) { s.Lease = unit.Duration(time.Hour) }

const queueLease = unit.Duration(2 * time.Second)
