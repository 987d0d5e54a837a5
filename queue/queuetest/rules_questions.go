package queuetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

const second = unit.Duration(time.Second)

// bounds are numbers for each algorithm whose edges a few takes a second reach. The first of each allows at most five
// at once.
var bounds = map[leaky.Algorithm][]rules.Bound{
	leaky.AlgorithmMeter: {
		{Rate: leaky.PerSecond(5), Burst: 5},
		{Rate: rate("7/m"), Burst: 1},
		{Rate: rate("14/s"), Burst: 100},
		{Rate: rate("1000000/s"), Burst: 3},
		{Rate: rate("1/744h"), Burst: 11},
	},
	leaky.AlgorithmTokenBucket: {{Rate: leaky.PerSecond(3), Burst: 4}, {Rate: rate("3/7s"), Burst: 40}},
	leaky.AlgorithmFixedWindow: {
		{Limit: 5, Period: second},
		{Limit: 40, Period: 7 * second},
		{Limit: leaky.MaxLimit, Period: unit.Duration(leaky.MaxPeriod)},
	},
	leaky.AlgorithmSlidingCounter: {
		{Limit: 5, Period: second},
		{Limit: 41, Period: 7 * second},
		{Limit: 5, Period: unit.Duration(leaky.MaxPeriod)},
	},
	leaky.AlgorithmSlidingLog: {
		{Limit: 5, Period: second},
		{Limit: 40, Period: 7 * second},
		{Limit: 5, Period: second, Resolution: second / 10},
		{Limit: 300, Period: 7 * second, Resolution: second},
		{Limit: 7, Period: second, Resolution: second},
	},
	leaky.AlgorithmGap: {
		{Period: second}, {Period: 333_333 * second / 1_000_000}, {Period: unit.Duration(leaky.MaxInterval)},
	},
	leaky.AlgorithmConcurrency: {{Limit: 5, TTL: second}, {Limit: 20, TTL: 7 * second}},
}

func rate(text string) leaky.Rate {
	r, err := leaky.ParseRate(text)
	if err != nil {
		panic(err)
	}
	return r
}

// changeable returns the bounds among which a rule may change. The contract leaves open what a sliding log remembers of
// a raised period.
func changeable(a leaky.Algorithm) []rules.Bound {
	if a == leaky.AlgorithmSlidingLog {
		return []rules.Bound{
			{Limit: 5, Period: second},
			{Limit: 40, Period: second},
			{Limit: 4, Period: second, Resolution: second / 10},
			{Limit: 9, Period: second, Resolution: second},
		}
	}
	return bounds[a]
}

// questions draws takes of a few keys, sometimes including an invalid one.
func questions(rnd *rand.Rand, a leaky.Algorithm, most int64, n int) []rules.Take {
	list := make([]rules.Take, n)
	for i := range list {
		t := rules.Take{Key: []string{"", "a", "b", "vip"}[rnd.IntN(4)], Cost: rnd.Int64N(3)}
		t.Op = []rules.TakeOp{
			rules.TakeNow, rules.TakeNow, rules.TakeNow, rules.TakeNow, rules.TakePeek, rules.TakePeek, rules.TakeBack,
		}[rnd.IntN(7)]
		switch rnd.IntN(40) {
		case 0:
			t.Op = rules.TakeAnew
		case 1, 2:
			t.Cost = most
		case 3:
			t.Cost = most + 1
		case 4:
			t.Cost = -1
		}
		if a == leaky.AlgorithmConcurrency && rnd.IntN(8) > 0 {
			t.Lease = fmt.Sprint("p", rnd.IntN(8))
		}
		list[i] = t
	}
	return list
}

// strolls moves the clock: not at all, somewhat, or to an instant at which an answer changes, or just before it.
func (r *rig) strolls(rnd *rand.Rand, answers []rules.Taken) {
	step := time.Duration(0)
	switch rnd.IntN(6) {
	case 0:
		step = time.Duration(rnd.Int64N(int64(2 * time.Second)))
	case 1:
		step = time.Duration(rnd.Int64N(int64(100 * time.Millisecond)))
	case 2, 3:
		step = answers[rnd.IntN(len(answers))].RetryAfter - time.Duration(rnd.IntN(2))*time.Microsecond
	case 4:
		step = answers[rnd.IntN(len(answers))].ResetAfter - time.Duration(rnd.IntN(2))*time.Microsecond
	}
	if step < time.Hour || rnd.IntN(20) == 0 { // or the calendar is soon used up
		r.clock.Advance(max(0, step))
	}
}
