package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// oracle models a rule with package leaky.
type oracle struct {
	rule rules.Rule
	keys map[string]*takenUnderKey
	// open are the takes that can be corrected, and ids their ids in order.
	open map[string]*openTake
	ids  []string
	rnd  *rand.Rand
}

// openTake is a take that can be corrected.
type openTake struct {
	key  string
	was  leaky.Correction
	done bool
}

// takenUnderKey is the tally of one key.
type takenUnderKey struct {
	limiter leaky.Limiter // of the last take
	tally   leaky.Tally
	expires leaky.Instant
}

func newOracle(rule rules.Rule) *oracle {
	return &oracle{
		rule: rule, keys: map[string]*takenUnderKey{}, open: map[string]*openTake{}, rnd: rand.New(rand.NewPCG(3, 33)),
	}
}

// changes gives the rule other numbers, or another algorithm.
func (o *oracle) changes(rule rules.Rule) {
	if rule.Algorithm != o.rule.Algorithm {
		clear(o.keys)
		clear(o.open)
	}
	o.rule = rule
}

// of returns the tally of a key at now, and its limiter.
func (o *oracle) of(now leaky.Instant, key string) *takenUnderKey {
	l, err := o.rule.Of(key).Limiter(o.rule.Algorithm)
	if err != nil {
		panic(err)
	}
	k := o.keys[key]
	if k == nil || k.expires <= now {
		return &takenUnderKey{limiter: l, tally: l.Fresh()}
	}
	if k.limiter == l {
		return k
	}
	state, _ := k.tally.AppendBinary(nil)
	tally, err := l.Restore(state)
	if err != nil {
		panic(err)
	}
	return &takenUnderKey{limiter: l, tally: tally, expires: k.expires}
}

func (o *oracle) keep(now leaky.Instant, key string, k *takenUnderKey) {
	k.expires = k.tally.Expires(now)
	o.keys[key] = k
}

// corrects gives a correction without an id one of the recent takes, which it may have corrected before.
func (o *oracle) corrects(t rules.Take) rules.Take {
	if t.Op == rules.TakeCorrect && t.ID == "" && len(o.ids) > 0 {
		t.ID = o.ids[len(o.ids)-1-o.rnd.IntN(min(len(o.ids), 20))]
		if o.rnd.IntN(8) > 0 && o.open[t.ID] != nil {
			t.Key = o.open[t.ID].key
		}
	}
	return t
}

// correct corrects an earlier take, once.
func (o *oracle) correct(now leaky.Instant, t rules.Take, k *takenUnderKey) rules.Taken {
	open := o.open[t.ID]
	if open == nil || open.key != t.Key || now > open.was.At.Add(rules.CorrectFor) {
		return rules.Taken{Err: rules.UnknownTake(t.ID)}
	}
	a := rules.Taken{Decision: k.tally.Peek(now, leaky.Ask{}), Shadow: o.rule.Action == rules.Shadow}
	if !open.done {
		open.done, open.was.Actual = true, t.Cost
		a.Decision = k.tally.(leaky.Corrector).Correct(now, open.was)
		o.keep(now, t.Key, k)
	}
	return a
}

// ask answers one take. lease and id are what the engine made up, if it did.
func (o *oracle) ask(now leaky.Instant, t rules.Take, lease, id string) rules.Taken {
	k := o.of(now, t.Key)
	ask, err := o.rule.Ask(t, k.limiter)
	if err != nil {
		return rules.Taken{Err: err}
	}
	if t.Op == rules.TakeCorrect {
		return o.correct(now, t, k)
	}
	if made := lease + id; t.Lease == "" && made != "" {
		ask.Lease = made
	}
	a := rules.Taken{Shadow: o.rule.Action == rules.Shadow}
	switch t.Op {
	case rules.TakeNow:
		if a.Decision = k.tally.Take(now, ask); a.Allowed {
			if o.rule.SetID(&a, ask); a.ID != "" {
				o.open[a.ID] = &openTake{key: t.Key, was: leaky.Correction{At: now, Charged: ask.Cost}}
				o.ids = append(o.ids, a.ID)
			}
		}
		o.keep(now, t.Key, k)
	case rules.TakePeek:
		a.Decision = k.tally.Peek(now, ask)
	case rules.TakeBack:
		a.Decision = k.tally.Refund(now, ask)
		o.keep(now, t.Key, k)
	case rules.TakeAnew:
		delete(o.keys, t.Key)
		a.Decision = k.limiter.Fresh().Peek(now, leaky.Ask{})
	}
	if err := o.rule.Never(ask, k.limiter, &a.Decision); err != nil {
		return rules.Taken{Err: err}
	}
	return a
}

// same reports whether an engine's answer equals the oracle's. Errors are compared by field.
func same(got, want rules.Taken) bool {
	if want.Err != nil {
		var a, b *invalid.Error
		return errors.As(got.Err, &a) && errors.As(want.Err, &b) && a.Field == b.Field
	}
	return reflect.DeepEqual(got, want)
}

// asksOf asks a rule and compares the answers with the oracle's.
func (r *rig) asksOf(o *oracle, takes ...rules.Take) []rules.Taken {
	r.Helper()
	now := r.clock.Now()
	takes = stated(o.rule.Unit, takes)
	for i := range takes {
		takes[i] = o.corrects(takes[i])
	}
	got := r.take(o.rule.Name, takes...)
	for i, t := range takes {
		if want := o.ask(now, t, got[i].Lease, got[i].ID); !same(got[i], want) {
			r.Fatalf("%s: question %d of %d at %d, %v %.40q cost %d lease %q:\n got %+v, %v\nwant %+v, %v", o.rule.Name,
				i, len(takes), now, t.Op, t.Key, t.Cost, t.Lease,
				got[i], got[i].Err, want, want.Err)
		}
	}
	return got
}

// take asks a rule.
func (r *rig) take(rule string, takes ...rules.Take) []rules.Taken {
	r.Helper()
	got, err := r.e.Take(r.ctx, rule, stated(r.units[rule], takes))
	if err != nil || len(got) != len(takes) {
		r.Fatalf("take from %s: %d answers to %d questions, %v", rule, len(got), len(takes), err)
	}
	return got
}

// stated returns takes with their costs in the unit of a rule, unless they name one.
func stated(unit string, takes []rules.Take) []rules.Take {
	takes = slices.Clone(takes)
	for i := range takes {
		if t := &takes[i]; unit != "" && t.Unit == "" {
			t.Unit = unit
			if t.Op != rules.TakeCorrect && t.Cost == 0 {
				t.Cost = 1
			}
		}
	}
	return takes
}

// takes asks a rule and checks whether it allows the take.
func (r *rig) takes(rule, key string, cost int64, allowed bool) rules.Taken {
	r.Helper()
	got := r.take(rule, rules.Take{Key: key, Cost: cost})[0]
	if got.Err != nil || got.Allowed != allowed {
		r.Errorf(
			"%s: %d of %.40q at %d: %+v, %v; want allowed: %v", rule, cost, key, r.clock.Now(), got, got.Err, allowed,
		)
	}
	return got
}

// checkRemaining checks how much a rule would still allow under a key, without taking anything.
func (r *rig) checkRemaining(rule, key string, want int64) {
	r.Helper()
	got := r.take(rule, rules.Take{Op: rules.TakePeek, Key: key})[0]
	have := got.Remaining
	if got.Allowed {
		have++ // a peek answers what would remain
	}
	if got.Err != nil || have != want {
		r.Errorf("%s: %d are left of %.40q at %d, want %d: %+v, %v", rule, have, key, r.clock.Now(), want, got, got.Err)
	}
}

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
	leaky.AlgorithmBudget: {
		{Rate: leaky.PerSecond(5), Burst: 5},
		{Rate: rate("200000/m"), Burst: 20_000},
		{Rate: rate("7/3s"), Burst: 40},
		{Rate: rate("1000000/s"), Burst: leaky.MaxUnits},
		{Rate: rate("1/744h"), Burst: 11},
	},
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
		if rules.NeedsUnit(a) && rnd.IntN(4) == 0 {
			t.Op, t.Cost = rules.TakeCorrect, []int64{0, rnd.Int64N(3), rnd.Int64N(3 * most), -1, leaky.MaxUnits}[rnd.IntN(5)]
			if t.Cost == leaky.MaxUnits && rnd.IntN(50) > 0 { // or the key is blocked for long
				t.Cost = most
			}
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
