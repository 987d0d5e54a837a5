package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func scenarioRules(list []scenario) (rules []rule) {
	for _, s := range list {
		rules = append(rules, s.rule())
	}
	return rules
}

func forecastScenarios() []scenario {
	return slices.Concat(
		plainScenarios, laneScenarios(), laneLimitScenarios,
		limitScenarios, rampScenarios, hoursScenarios, stopScenarios, flightScenarios,
		scheduleScenarios, groupScenarios,
	)
}

// plainly returns a queue with that many jobs.
func plainly(rate string, n int, change ...func(*queue.Spec)) func(r *rig) {
	return func(r *rig) {
		r.queue("q", rate, change...)
		r.fills("q", n)
	}
}

func bursting(n int64) func(*queue.Spec) { return func(s *queue.Spec) { s.Burst = n } }

var plainScenarios = []scenario{
	{name: "a plain queue", set: plainly("20/s", 200), exact: true},
	{name: "a slow one", set: plainly("1/m", 12), exact: true},
	{name: "an odd rate", set: plainly("7/s", 100), exact: true},
	{name: "a burst", set: plainly("5/s", 60, bursting(20)), exact: true},
	{name: "more burst than jobs", set: plainly("5/s", 10, bursting(20)), exact: true},
	{name: "no rate", set: plainly("unlimited", 100), exact: true},
	{name: "one job", set: plainly("1/h", 1), exact: true},
	{name: "no job", set: plainly("1/h", 0), exact: true},
	{name: "costs", set: costly("10/s"), cost: 3},
	{name: "priorities", set: func(r *rig) {
		r.queue("q", "10/s")
		for n := range 60 {
			j := job("q", fmt.Sprint("p", n))
			j.Priority = n % 4
			r.acceptJobs(j)
		}
	}, exact: true},
	{name: "a new rate", set: func(r *rig) {
		r.attended("q", "1/m")
		r.fills("q", 50)
		r.put(spec("q", "2/s"))
	}, exact: true},
	{name: "a pull queue with a worker", set: plainly("10/s", 50, pulled)},
	{name: "a pull queue without", set: plainly("10/s", 50, pulled), alone: true, never: true},
	{name: "no drainer", set: plainly("10/s", 50), alone: true, never: true},
	{name: "a rate that adapts", set: plainly("10/s", 50, adapting("1/s", "10/s"))},
	{name: "ordered, and nothing in flight", set: plainly("10/s", 50, ordered)},
}

func costly(rate string) func(r *rig) {
	return func(r *rig) {
		r.queue("q", rate)
		for n := range 60 {
			r.acceptJobs(costing(3, "q", fmt.Sprint("c", n)))
		}
	}
}

// laneScenarios are lanes of all shapes under rules of all kinds.
func laneScenarios() (all []scenario) {
	shapes := []struct {
		name   string
		counts []int
	}{
		{"two deep ones", []int{150, 150}},
		{"a deep one and a shallow one", []int{300, 20}},
		{"steps", []int{10, 40, 80, 160}},
		{"a deep one and many shallow ones", slices.Concat([]int{200}, slices.Repeat([]int{2}, 60))},
		{"many different ones", []int{
			3, 14, 15, 92, 65, 35, 8, 97, 9, 32, 38, 46, 26, 43, 38, 32, 79, 50, 28, 84, 19, 71, 69, 39, 93, 75, 10, 58, 20, 97,
		}},
	}
	rules := []struct {
		name   string
		change func(*queue.Spec)
	}{
		{"without a rate", func(*queue.Spec) {}},
		{"at a rate", func(s *queue.Spec) { s.Lanes.Rate = leaky.PerSecond(2) }},
		{"at a rate with a burst", func(s *queue.Spec) { s.Lanes.Rate, s.Lanes.Burst = leaky.PerSecond(2), 10 }},
		{"and one with its own rate", func(s *queue.Spec) {
			s.Lanes.Rate = leaky.PerSecond(4)
			s.Lanes.Overrides = map[string]queue.LaneRule{"lane-0": {Rate: leaky.PerSecond(1)}}
		}},
	}
	for _, shape := range shapes {
		for _, rule := range rules {
			all = append(all, scenario{name: shape.name + ", " + rule.name, set: func(r *rig) {
				r.queue("q", "20/s", rule.change)
				r.spread("q", shape.counts...)
			}})
		}
	}
	return append(all,
		scenario{name: "limited lanes beside many jobs without a lane", set: func(r *rig) {
			r.queue("q", "20/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
			r.spread("q", slices.Repeat([]int{50}, 18)...)
			r.fills("q", 400)
		}},
		scenario{name: "lanes beside jobs without one", set: func(r *rig) {
			r.queue("q", "10/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
			r.spread("q", 30, 10)
			r.fills("q", 100)
		}},
		scenario{name: "lanes with costs", cost: 4, set: func(r *rig) {
			r.queue("q", "40/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(8)}))
			for n := range 120 {
				j := costing(int64(1+3*(n%2)), "q", fmt.Sprint("c", n))
				j.Lane = fmt.Sprint("lane-", n%2)
				r.acceptJobs(j)
			}
		}},
		scenario{name: "lanes of different weights", set: func(r *rig) {
			r.queue("q", "20/s", except("lane-0", weight(10)), except("lane-1", weight(3)))
			r.spread("q", 200, 200, 200, 50)
			r.fills("q", 40)
		}},
		scenario{name: "lanes of different weights, some with rates", set: func(r *rig) {
			heavy := queue.LaneRule{Weight: 20, Rate: leaky.PerSecond(4)}
			r.queue("q", "20/s", everyLane(weight(2)), except("lane-0", heavy), except("lane-1", weight(6)))
			r.spread("q", 100, 200, 150, 50)
		}},
		scenario{name: "many lanes of one job", set: func(r *rig) {
			r.queue("q", "20/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
			r.spread("q", slices.Repeat([]int{1}, 300)...)
		}},
	)
}

var limitScenarios = []scenario{
	{name: "a slower pace", set: plainly("20/s", 100, limited("4/s"))},
	{name: "a pace with a burst", set: plainly("20/s", 200, limited("2/s 50"))},
	{name: "a quota for each minute", set: plainly("1/s", 100, limited("quota 20/m"))},
	{name: "a quota for each minute, and no rate", set: plainly("unlimited", 100, limited("quota 20/m"))},
	{name: "a quota that does not matter", set: plainly("5/s", 100, limited("quota 1000/m"))},
	{name: "a quota for each hour", set: plainly("1/s", 130, limited("quota 40/h"))},
	{name: "a quota and a pace", set: plainly("10/s", 150, limited("quota 60/m", "2/s"))},
	{name: "two quotas", set: plainly("10/s", 150, limited("quota 30/m", "quota 100/h"))},
	{name: "a quota for costs", cost: 3, set: func(r *rig) {
		r.queue("q", "5/s", limited("quota 10/m"))
		for n := range 20 {
			r.acceptJobs(costing(3, "q", fmt.Sprint("c", n)))
		}
	}},
	{
		name: "a quota for each day, over midnight into summer time",
		set:  plainly("1/s", 90, limited("quota 30/d Europe/Berlin")),
	},
	{name: "a quota for each month", set: plainly("1/s", 25, limited("quota 30/mo"))},
	{name: "lanes under a quota", set: func(r *rig) {
		r.queue("q", "5/s", limited("quota 30/m"), everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
		r.spread("q", 60, 20)
	}},
	{name: "many windows", set: plainly("unlimited", 200, limited("quota 2/m"))},
}

var autumnScenarios = []scenario{
	{
		name: "a quota for each day, over midnight into winter time",
		set:  plainly("1/s", 90, limited("quota 30/d Europe/Berlin")),
	},
}

// then sets up and does more.
func then(set func(r *rig), more func(r *rig)) func(r *rig) {
	return func(r *rig) {
		set(r)
		more(r)
	}
}

var stopScenarios = []scenario{
	{name: "paused", set: then(plainly("10/s", 50), func(r *rig) { r.pauses("q", 0, "lunch") }), never: true},
	{name: "paused for a minute", set: then(plainly("10/s", 50), func(r *rig) {
		r.pauses("q", r.clock.Now().Add(time.Minute), "lunch")
	})},
	{name: "paused for a minute, with a burst", set: then(plainly("10/s", 50, bursting(20)), func(r *rig) {
		r.pauses("q", r.clock.Now().Add(time.Minute), "lunch")
	})},
	{name: "throttled", set: then(plainly("10/s", 50, bursting(5)), func(r *rig) {
		s := settlement(queue.Throttle, r.reserve("q", 1)[0])
		s.After, s.Reason = 30*time.Second, "429"
		r.settle(s)
	})},
	{name: "a lane throttled", set: func(r *rig) {
		r.queue("q", "10/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(2)}))
		r.spread("q", 40, 40)
		s := settlement(queue.Throttle, r.reserve("q", 1)[0])
		s.After, s.LaneOnly = 30*time.Second, true
		r.settle(s)
	}},
	{name: "down until the next probe", set: func(r *rig) {
		r.queue("q", "10/s", circuitAfter(1, 20*time.Second, time.Minute))
		r.fills("q", 50)
		r.breakdown("q")
	}},
	{name: "without a target", set: then(plainly("10/s", 50), func(r *rig) {
		s := settlement(queue.Throttle, r.reserve("q", 1)[0])
		s.After, s.NoTarget, s.Reason = 24*time.Hour, true, "none"
		r.settle(s)
	}), alone: true, never: true},
	{name: "paused, under a quota", set: then(plainly("1/s", 50, limited("quota 20/m")), func(r *rig) {
		r.pauses("q", 0, "lunch")
	}), never: true},
	{name: "stopped, and paused for longer", set: then(plainly("10/s", 80, bursting(40)), func(r *rig) {
		s := settlement(queue.Throttle, r.reserve("q", 1)[0])
		s.After = 30 * time.Second
		r.settle(s)
		r.pauses("q", r.clock.Now().Add(10*time.Minute), "lunch")
	})},
	{name: "paused, then a quota", set: then(plainly("1/s", 100, limited("quota 30/m")), func(r *rig) {
		r.pauses("q", r.clock.Now().Add(90*time.Second), "lunch")
	})},
	{name: "lanes after a pause", set: func(r *rig) {
		r.queue("q", "10/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1), Burst: 5}))
		r.spread("q", 40, 20)
		r.pauses("q", r.clock.Now().Add(time.Minute), "lunch")
	}},
}

var laneLimitScenarios = []scenario{
	{name: "limits of lanes in tokens", set: func(r *rig) {
		r.queue("q", "20/s", everyLane(laneTokens("600/m 100")), estimating("tokens=20"))
		r.spread("q", 60, 20)
	}},
	{name: "limits of lanes beside their rate, and the queue's", set: func(r *rig) {
		r.queue("q", "50/s", metered("100/s 200"), estimating("tokens=10"), everyLane(queue.LaneRule{
			Rate: leaky.PerSecond(1), Limits: laneTokens("20/s 40").Limits,
		}), except("lane-0", laneTokens("2/s 50")))
		r.spread("q", 40, 90)
	}},
	{name: "debts of lanes", set: func(r *rig) {
		r.queue("q", "20/s", everyLane(laneTokens("10/s 20")), estimating("tokens=10"))
		j := using("tokens=400", "q", "large")
		j.Lane = "lane-0"
		r.acceptJobs(j)
		r.deliver(r.grant("q", 1, "large")...)
		r.spread("q", 30, 30)
	}},
}

var flightScenarios = []scenario{
	{
		name: "in-flight limit", set: plainly("100/s", 600, maxInFlight(5)), flight: 500 * time.Millisecond,
		warm: 2 * time.Second,
	},
	{
		name: "in-flight limit that does not matter", set: plainly("5/s", 200, maxInFlight(50)),
		flight: 100 * time.Millisecond,
	},
	{
		name: "in-flight limit of lanes", flight: 500 * time.Millisecond, warm: 2 * time.Second, set: func(r *rig) {
			r.queue("q", "100/s", everyLane(queue.LaneRule{MaxInFlight: 2}))
			r.spread("q", 200, 200)
		},
	},
	{
		name: "ordered lanes", flight: 500 * time.Millisecond, warm: 2 * time.Second, set: func(r *rig) {
			r.queue("q", "100/s", ordered)
			r.spread("q", 120, 120)
		},
	},
}

// schedule appends n jobs that are due one after the other.
func (r *rig) schedules(n int, first, apart time.Duration) {
	r.Helper()
	for i := range n {
		j := job("q", fmt.Sprint("s", i))
		j.NotBefore = r.clock.Now().Add(first + time.Duration(i)*apart).Time()
		r.outcome(queue.Accepted, j)
	}
}

var scheduleScenarios = []scenario{
	{name: "scheduled jobs, one after the other", set: func(r *rig) {
		r.queue("q", "10/s")
		r.schedules(40, time.Minute, 2*time.Second)
	}},
	{name: "scheduled jobs, faster than the rate", set: func(r *rig) {
		r.queue("q", "2/s")
		r.schedules(200, time.Minute, 100*time.Millisecond)
	}},
	{name: "scheduled jobs all at once, behind others", set: func(r *rig) {
		r.queue("q", "5/s")
		r.fills("q", 100)
		r.schedules(100, 10*time.Second, 0)
	}},
	{name: "scheduled jobs into lanes", set: func(r *rig) {
		r.queue("q", "10/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
		r.spread("q", 20, 40)
		for i := range 30 {
			j := jobOfLane("lane-0", "q", fmt.Sprint("s", i))
			j.NotBefore = r.clock.Now().Add(30 * time.Second).Time()
			r.append(j)
		}
	}},
}

// children puts a group and fills its children: jobs of g.q, then of g.a, g.b and so on.
func children(parent, child string, counts ...int) func(r *rig) {
	return func(r *rig) {
		r.queue("g", parent)
		for n, count := range counts {
			name := "g.q"
			if n > 0 {
				name = "g." + string(rune('a'+n-1))
			}
			r.queue(name, child)
			r.fills(name, count)
		}
	}
}

// pullSibling makes g.a a pull queue with jobs, for which a client has asked so many times.
func pullSibling(asked int) func(r *rig) {
	return func(r *rig) {
		r.queue("g.a", "20/s", pulled)
		r.fills("g.a", 80)
		for range asked {
			r.deliver(r.do(r.pulling("client", "g.a", 9)).Jobs...)
		}
	}
}

var groupScenarios = []scenario{
	{name: "a child alone", of: "g.q", set: children("10/s", "20/s", 100)},
	{name: "a slow child", of: "g.q", set: children("10/s", "2/s", 50)},
	{name: "equal children", of: "g.q", set: children("10/s", "20/s", 100, 100)},
	{name: "a shallow sibling", of: "g.q", set: children("10/s", "20/s", 150, 20)},
	{name: "deep siblings", of: "g.q", set: children("12/s", "20/s", 60, 200, 200)},
	{name: "slow siblings", of: "g.q", set: then(children("10/s", "20/s", 150, 60), func(r *rig) {
		r.put(spec("g.a", "1/s"))
	})},
	{name: "a paused sibling", of: "g.q", set: then(children("10/s", "20/s", 100, 100), func(r *rig) {
		r.pauses("g.a", 0, "lunch")
	})},
	{name: "a paused parent", of: "g.q", never: true, set: then(children("10/s", "20/s", 100, 50), func(r *rig) {
		r.pauses("g", 0, "lunch")
	})},
	{name: "a parent paused for a minute", of: "g.q", set: then(children("10/s", "20/s", 100, 50), func(r *rig) {
		r.pauses("g", r.clock.Now().Add(time.Minute), "lunch")
	})},
	{name: "a quota of the parent", of: "g.q", set: then(children("10/s", "20/s", 100, 50), func(r *rig) {
		r.put(spec("g", "10/s", limited("quota 30/m")))
	})},
	{name: "jobs of the parent", of: "g.q", set: then(children("10/s", "20/s", 100), func(r *rig) { r.fills("g", 30) })},
	{name: "the parent itself", of: "g", set: then(children("10/s", "20/s", 40), func(r *rig) { r.fills("g", 100) })},
	{name: "a paused parent's own jobs", of: "g", set: then(children("10/s", "20/s", 60), func(r *rig) {
		r.fills("g", 60)
		r.pauses("g", r.clock.Now().Add(time.Minute), "lunch")
	})},
	{name: "a pull sibling without workers", of: "g.q", set: then(children("10/s", "20/s", 100), pullSibling(0))},
	{name: "a pull sibling with workers", of: "g.q", besides: []string{"g.a"}, set: then(
		children("10/s", "20/s", 100), pullSibling(1),
	)},
	{name: "a pull child beside a sibling", of: "g.q", besides: []string{""}, set: func(r *rig) {
		r.queue("g.q", "20/s", pulled)
		children("10/s", "20/s", 0, 60)(r)
		r.queue("g.q", "20/s", pulled)
		r.fills("g.q", 80)
	}},
	{name: "a heavy child", of: "g.q", set: func(r *rig) {
		r.queue("g", "10/s")
		r.queue("g.q", "20/s", weighs(3))
		r.queue("g.a", "20/s")
		r.queue("g.b", "20/s", weighs(6))
		r.fills("g.q", 100)
		r.fills("g.a", 60)
		r.fills("g.b", 60)
	}},
	{name: "a child with lanes", of: "g.q", set: func(r *rig) {
		r.queue("g", "10/s")
		r.queue("g.q", "20/s", everyLane(queue.LaneRule{Rate: leaky.PerSecond(3)}))
		r.queue("g.a", "20/s")
		r.spread("g.q", 100, 30)
		r.fills("g.a", 60)
	}},
}
