package queuetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// laneTokens returns a rule with limits that count tokens, each as metered reads it.
func laneTokens(list ...string) queue.LaneRule {
	var s queue.Spec
	metered(list...)(&s)
	return queue.LaneRule{Limits: queue.LimitLane(s.Limits...)}
}

// laneUsing appends jobs such as "x1:20 y1:5": of the lanes of their letters, which cost so many tokens.
func (r *rig) laneUsing(queueName, text string) []queue.Appended {
	r.Helper()
	var list []queue.Job
	for _, f := range strings.Fields(text) {
		id, cost, _ := strings.Cut(f, ":")
		j := using("tokens="+cost, queueName, id)
		j.Lane = letters[id[0]]
		list = append(list, j)
	}
	return r.acceptJobs(list...)
}

// laneLeavesAt is leavesAt for a queue whose lanes decide: they let nothing out ahead.
func (r *rig) laneLeavesAt(queueName string, t0 leaky.Instant, want time.Duration) queue.Reservation {
	r.Helper()
	if before := t0.Add(want - time.Microsecond); before > r.clock.Now() {
		r.clock.Set(before)
		r.grant(queueName, 1)
		r.clock.Set(t0.Add(want))
	}
	v := r.reserve(queueName, 1)
	if len(v) != 1 || v[0].In != 0 {
		r.Fatalf("%v at %v, want one", v, r.clock.Now().Sub(t0))
	}
	return v[0]
}

// laneUsed checks how much of its limits a lane has in use.
func (r *rig) laneUsed(queueName, lane string, want ...int64) {
	r.Helper()
	i, l := r.lane(queueName, lane)
	list := i.Spec.Lanes.Of(lane).Limits.List()
	var got []int64
	for n, s := range l.Limits {
		b := leaky.BalanceOf(s.Bucket)
		got = append(got, list[n].Budget().Used(&b, instantOf(i.Now)))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("lane %q has %v in use, want %v", lane, got, want)
	}
}

var laneLimitRules = []rule{
	{"lanes depart exactly when their limits and the queue's allow", func(r *rig) {
		for i, tt := range []struct {
			what, rate string
			change     []func(*queue.Spec)
			jobs, want string
		}{
			{
				"each lane has its own", "unlimited",
				[]func(*queue.Spec){everyLane(laneTokens("10/s 20"))},
				"x1:20 x2:20 y1:5 y2:20", "x1@0s y1@0s y2@500ms x2@2s",
			},
			{
				"a lane that waits keeps its turn", "10/s",
				[]func(*queue.Spec){everyLane(laneTokens("10/s 20"))},
				"x1:20 x2:1 x3:1 y1:1 y2:1 y3:1", "x1@0s y1@100ms x2@200ms y2@300ms x3@400ms y3@500ms",
			},
			{
				"within the queue's", "unlimited",
				[]func(*queue.Spec){metered("20/s 30"), everyLane(laneTokens("10/s 20"))},
				"x1:20 x2:10 y1:20 z1:10", "x1@0s y1@500ms z1@1s x2@1.5s",
			},
			{
				"with a rate", "unlimited",
				[]func(*queue.Spec){func(s *queue.Spec) {
					s.Lanes.LaneRule = laneTokens("10/s 20")
					s.Lanes.Rate = leaky.PerSecond(4)
				}},
				"x1:5 x2:5 x3:20 x4:1", "x1@0s x2@250ms x3@1s x4@1.25s",
			},
			{
				"several limits", "unlimited",
				[]func(*queue.Spec){everyLane(laneTokens("10/s 20", "1/s 25"))},
				"x1:20 x2:5 x3:5", "x1@0s x2@500ms x3@5s",
			},
			{
				"a single lane", "unlimited",
				[]func(*queue.Spec){
					everyLane(laneTokens("10/s 20")), except(laneY, laneTokens("100/s 20")), except(laneZ, queue.LaneRule{}),
				},
				"x1:20 x2:20 y1:20 y2:20 z1:20 z2:20", "x1@0s y1@0s z1@0s z2@0s y2@200ms x2@2s",
			},
			{
				"more than the burst leaves a debt", "unlimited",
				[]func(*queue.Spec){everyLane(laneTokens("10/s 10"))},
				"x1:30 x2:1 y1:1 x3:100 x4:1", "x1@0s y1@0s x2@2.1s x3@3.1s x4@12.2s",
			},
			{
				"jobs without a lane have none", "unlimited",
				[]func(*queue.Spec){metered("1000/s 1000"), everyLane(laneTokens("10/s 20"))},
				"k1:20 k2:20 x1:20 x2:1 k3:20", "k1@0s x1@0s k2@0s k3@0s x2@100ms",
			},
		} {
			q := r.queue(fmt.Sprint("g.q", i), tt.rate, tt.change...)
			t0 := r.clock.Now()
			r.laneUsing(q, tt.jobs)
			if got := r.departureTimes(q, t0, len(strings.Fields(tt.jobs))); got != tt.want {
				r.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
			}
		}
	}},
	{"actual costs replace the charge of the lane", func(r *rig) {
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
			{"a job given back", "tokens=50", queue.Release, 0},
		} {
			q := r.queue(fmt.Sprint("g.q", i), "unlimited", everyLane(laneTokens("10/s 20")))
			t0 := r.clock.Now()
			r.laneUsing(q, "x1:20")
			s := settlement(tt.verdict, r.grant(q, 1, "x1")[0])
			s.Actual = costsOf(tt.actual)
			for range 2 {
				r.settle(s)
			}
			if tt.verdict == queue.Release {
				r.cancels(queue.Cancelled, q, "x1")
			}
			r.laneUsing(q, "x2:20")
			if got := r.laneLeavesAt(q, t0, tt.want); got.ID != "x2" {
				r.Errorf("%s: %s leaves", tt.what, got.ID)
			} else {
				r.deliver(got)
			}
			r.clock.Advance(time.Minute)
		}
	}},
	{"a shortfall delays a lane that had been idle for long", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("10/s 20")), longLease)
		r.laneUsing(q, "x1:1")
		v := r.grant(q, 1, "x1")[0]
		r.clock.Advance(time.Minute)
		t0 := r.clock.Now()
		r.settled(queue.Delivered, actual(v, "tokens=51"))
		r.laneUsed(q, laneX, 50)
		r.laneUsing(q, "x2:10 y1:10")
		r.sameDepartures(r.departureTimes(q, t0, 2), "y1@0s x2@4s")
	}},
	{"a refund cannot exceed the burst", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("10/s 20")), longLease)
		r.laneUsing(q, "x1:20")
		v := r.grant(q, 1, "x1")[0]
		r.clock.Advance(5 * time.Second)
		t0 := r.clock.Now()
		r.laneUsing(q, "x2:15 x3:20")
		r.grant(q, 1, "x2")
		r.settled(queue.Delivered, actual(v, "tokens=0"))
		r.laneUsed(q, laneX, 15)
		r.laneLeavesAt(q, t0, 1500*time.Millisecond)
	}},
	{"a refund lets jobs of a lane leave at once", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("1/s 100")))
		r.laneUsing(q, "x1:100 x2:100 y1:10")
		v := r.grant(q, 9, "x1", "y1")[0]
		r.grant(q, 9)
		r.settled(queue.Delivered, actual(v, "tokens=0"))
		r.grant(q, 9, "x2")
	}},
	{"costs that only lanes count", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("10/s 20")), except(laneY, laneTokens("images 1/s 2")),
			except(laneZ, queue.LaneRule{}))
		r.laneUsing(q, "k1:20 x1:1 z1:20")
		for _, tt := range []struct{ field, lane, costs string }{
			{"costs.tokens", laneX, ""},
			{"costs.images", laneY, "tokens=1"},
			{"costs.else", laneX, "else=1 tokens=1"},
		} {
			j := using(tt.costs, q, "refused")
			j.Lane = tt.lane
			a := r.append(j)[0]
			if a.Outcome != queue.Invalid {
				r.Errorf("%s of lane %q: %v", tt.costs, tt.lane, a.Outcome)
			}
			r.refusesField(tt.field, a.Err)
		}
		r.acceptJobs(job(q, "k2"), jobOfLane(laneZ, q, "z2"))
		r.queue(q, "unlimited", everyLane(laneTokens("10/s 20")), estimating("tokens=15"))
		r.acceptJobs(jobOfLane(laneX, q, "x2"), job(q, "k3"))
		for id, want := range map[string]string{"x2": "map[tokens:15]", "k3": "map[]"} {
			if got := r.job(q, id).Costs; fmt.Sprint(got) != want {
				r.Errorf("%s costs %v, want %s", id, got, want)
			}
		}
		out, err := r.e.Settle(r.ctx, []queue.Settlement{
			actual(r.reserve(q, 1)[0], "images=1"), settlement(queue.Deliver, queue.Reservation{Job: job("nobody", "x")}),
		})
		if r.check(err); out[0].State != queue.StateNone {
			r.Errorf("%+v", out)
		}
		r.refusesField("actual.images", out[0].Err)
	}},
	{"jobs that wait when a limit is added have its estimate", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "x1 x2 x3")
		r.queue(q, "unlimited", everyLane(laneTokens("10/s 20")), estimating("tokens=20"))
		t0 := r.clock.Now()
		r.sameDepartures(r.departureTimes(q, t0, 2), "x1@0s x2@2s")
	}},
	{"changes bypass nothing", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("10/s 20")))
		t0 := r.clock.Now()
		r.laneUsing(q, "x1:40 x2:10 x3:10 y1:1")
		r.grant(q, 9, "x1", "y1")
		r.grant(q, 9)
		r.queue(q, "unlimited", everyLane(laneTokens("20/s 20")))
		r.grant(q, 9) // lanes follow when they are looked at
		r.laneLeavesAt(q, t0, 1500*time.Millisecond)
		r.queue(q, "unlimited", everyLane(laneTokens("1/s 20")))
		r.grant(q, 9)
		r.queue(q, "unlimited", everyLane(laneTokens("20/s 20", "images 1/s 9")), estimating("images=1"))
		r.grant(q, 9)
		r.laneLeavesAt(q, t0, 2*time.Second)
		r.queue(q, "unlimited")
		r.laneUsing(r.queue(q, "unlimited", everyLane(laneTokens("1/s 20"))), "z1:20")
		r.grant(q, 9, "z1")
	}},
	{"a lane keeps its rate when its limits are removed", func(r *rig) {
		both, alone := laneTokens("1/s 20"), queue.LaneRule{Rate: leaky.PerSecond(1)}
		both.Rate = alone.Rate
		q := r.queue("q", "unlimited", everyLane(both))
		t0 := r.clock.Now()
		r.laneUsing(q, "x1:40 x2:1 y1:1")
		r.grant(q, 9, "x1", "y1")
		r.grant(q, 9)
		r.queue(q, "unlimited", everyLane(alone))
		r.sameDepartures(r.departureTimes(q, t0, 1), "x2@1s")
	}},
	{"a lane about which nothing is known has the limits of the present rule", func(r *rig) {
		for i, tt := range []struct {
			before, now queue.LaneRule
			want        time.Duration // from the end of the import
		}{
			{laneTokens("10/s 5000"), laneTokens("10/s 1"), 2*queue.Horizon + 100*time.Millisecond},
			{queue.LaneRule{Rate: leaky.PerSecond(100)}, laneTokens("10/s 20"), 2*queue.Horizon + 100*time.Millisecond},
		} {
			q := fmt.Sprint("q", i)
			r.putWithLanes(q, "unlimited", "x1")
			r.queue(q, "unlimited", everyLane(tt.before), estimating("tokens=1"))
			r.move(r.export(q))
			t0 := r.clock.Now()
			r.reserve(q, 1) // looks at the lane
			r.queue(q, "unlimited", everyLane(tt.now), estimating("tokens=1"))
			if at := r.job(q, "x1").ETA.At; !at.Equal(t0.Add(tt.want).Time()) {
				r.Errorf("%v leaves at %v, want %v", tt.now, at.Sub(t0.Time()), tt.want)
			}
		}
	}},
	{"a queue says which limit of its lane a job waits for", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens("10/s 20")), estimating("tokens=10"))
		t0 := r.clock.Now()
		r.laneUsing(q, "x1:20 x2:10 x3:10 y1:1")
		r.grant(q, 9, "x1", "y1")
		r.grant(q, 9)
		r.waitsFor(lasting(cause.LaneRate, t0.Add(time.Second), "tokens 10/s burst 20"), q, "x2", "x3")
		for id, want := range map[string]time.Duration{"x2": time.Second, "x3": 2 * time.Second} {
			if eta := r.job(q, id).ETA; instantOf(eta.At) != t0.Add(want) || eta.Exact {
				r.Errorf("%s is expected in %v, exact %v", id, instantOf(eta.At).Sub(t0), eta.Exact)
			}
		}
		if i := r.info(q); !i.LanesRest || instantOf(i.Ready) != t0.Add(time.Second) {
			r.Errorf("lanes rest: %v, ready at %v", i.LanesRest, instantOf(i.Ready).Sub(t0))
		}
		r.laneUsed(q, laneX, 20)
		r.laneUsed(q, laneZ, 0)
	}},
	{"limits of lanes in a group", func(r *rig) {
		r.queue("g", "unlimited", metered("100/s 100"))
		a, b := r.queue("g.a", "unlimited", everyLane(laneTokens("10/s 20"))), r.queue("g.b", "unlimited")
		t0 := r.clock.Now()
		r.laneUsing(a, "x1:20 x2:10 y1:10")
		r.laneUsing(b, "x3:20 x4:20")
		r.sameDepartures(r.departureTimes("g", t0, 5), "x1@0s x3@0s y1@0s x4@0s x2@1s")
	}},
	{"settings of lane limits are checked", func(r *rig) {
		jobs, quota := laneTokens("jobs 1/s"), laneTokens("quota 5/d")
		for field, change := range map[string]func(*queue.Spec){
			"lanes.limits.0.unit":                 everyLane(jobs),
			"lanes.limits.0.quota":                everyLane(quota),
			"lanes.limits.1.burst":                everyLane(laneTokens("1/s", "1/d 1000")),
			"lanes.limits":                        everyLane(laneTokens("1/s", "2/s", "3/s", "4/s", "5/s")),
			"lanes.overrides.a.limits.0.unit":     except("a", laneTokens("Tokens 1/s")),
			"lanes.overrides.a.limits.0.timezone": except("a", queue.LaneRule{Limits: queue.LimitLane(zoned)}),
		} {
			_, err := r.e.Put(r.ctx, spec("q", "1/s", change), queue.AnyRevision)
			r.refusesField(field, err)
		}
		_, err := r.e.Put(r.ctx, spec("q", "1/s", metered("a 1/s", "b 1/s", "c 1/s"), everyLane(laneTokens("d 1/s")),
			except("a", laneTokens("e 1/s"))), queue.AnyRevision)
		r.refusesField("lanes.limits", err)
		s := spec("q", "1/s", everyLane(laneTokens("10/s 20", "images 1/s")), except(laneX, laneTokens("3/s")))
		if r.put(s); !r.info("q").Spec.Equal(s) || r.put(s).Changed {
			r.Errorf("got %+v", r.info("q").Spec.Lanes)
		}
	}},
	{"lanes are charged and corrected as the queue and its parent are", func(r *rig) {
		const each = "1000/s 100000"
		r.queue("g", "unlimited")
		q := r.queue("g.q", "unlimited")
		r.acceptJobs(jobOfLane(laneX, q, "old1"), jobOfLane(laneX, q, "old2"))
		r.queue("g", "unlimited", metered(each), learningEstimate("p50", 100))
		r.queue(q, "unlimited", metered(each), everyLane(laneTokens(each)), longLease)
		r.clock.Advance(2 * queue.Horizon)
		use := func(what string, want int64) {
			r.Helper()
			r.laneUsed(q, laneX, want)
			for _, name := range []string{q, "g"} {
				i := r.info(name)
				if got, ok := i.BudgetState(0); !ok || got.Used != want {
					r.Errorf("%s: %s has %d in use, want %d", what, name, got.Used, want)
				}
			}
		}
		old := r.grant(q, 2, "old1", "old2")
		use("the default, as the jobs have no cost", 200)
		r.spendIn(q, laneX, times(queue.LearnAfter, 7)...)
		use("actual costs", 200+32*7)
		r.settled(queue.Delivered, actual(old[0], "tokens=50"))
		use("less than the default", 150+32*7)
		r.settled(queue.Delivered, actual(old[1], "tokens=150"))
		use("more than the default", 200+32*7)
		r.acceptJobs(jobOfLane(laneX, q, "new"))
		v := r.grant(q, 1, "new")[0]
		use("what was learned", 207+32*7)
		s := actual(v, "tokens=20")
		r.settle(s, s)
		use("more than was learned, stated twice", 220+32*7)
		r.laneUsing(q, "x1:30")
		r.release(r.grant(q, 1, "x1")[0])
		use("given back", 220+32*7)
		s = settlement(queue.Fail, r.grant(q, 1, "x1")[0])
		use("its own cost", 250+32*7)
		s.Actual = costsOf("tokens=10")
		r.settled(queue.Scheduled, s)
		use("less than its own cost, and failed", 230+32*7)
	}},
	{"a queue learns costs that only its lanes count", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(laneTokens(wide)), except(laneZ, queue.LaneRule{}),
			learningEstimate("p50", 15))
		r.spendIn(q, laneX, times(queue.LearnAfter, 7)...)
		r.acceptJobs(jobOfLane(laneX, q, "x1"), jobOfLane(laneY, q, "y1"), jobOfLane(laneZ, q, "z1"), job(q, "k1"))
		for id, want := range map[string]string{"x1": "map[tokens:7]", "y1": "map[tokens:7]", "z1": "map[]", "k1": "map[]"} {
			if got := r.job(q, id).Costs; fmt.Sprint(got) != want {
				r.Errorf("%s costs %v, want %s", id, got, want)
			}
		}
		r.grant(q, 9, "k1", "x1", "y1", "z1")
		r.laneUsed(q, laneX, queue.LearnAfter*7+7)
		r.laneUsed(q, laneY, 7)
	}},
	{"each limit of each lane holds in any window, whatever happens to jobs", func(r *rig) {
		for seed := range uint64(3) {
			r.laneStorm(rand.New(rand.NewPCG(seed, 33)), fmt.Sprint("g.q", seed))
		}
	}},
}

var zoned = queue.Limit{Unit: "tokens", Rate: leaky.PerSecond(1), Timezone: "Europe/Berlin"}
