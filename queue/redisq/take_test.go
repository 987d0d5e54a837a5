package redisq_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// bounds are numbers of each algorithm, small ones that are met often and great ones that show rounding.
func bounds(a leaky.Algorithm) []rules.Bound {
	d := func(d time.Duration) unit.Duration { return unit.Duration(d) }
	rate := func(n int64, per time.Duration) leaky.Rate {
		r, err := leaky.NewRate(n, per)
		if err != nil {
			panic(err)
		}
		return r
	}
	switch a {
	case leaky.AlgorithmMeter, leaky.AlgorithmTokenBucket, leaky.AlgorithmBudget:
		return []rules.Bound{
			{Rate: leaky.PerSecond(14), Burst: 5},
			{Rate: rate(7, 3*time.Second), Burst: 1},
			{Rate: rate(999_999_937, 86_399*time.Second), Burst: 1_000_000},
			{Rate: rate(3, 5*time.Hour), Burst: 3},
		}
	case leaky.AlgorithmGap:
		return []rules.Bound{{Period: d(100 * time.Millisecond)}, {Period: d(7 * time.Hour)}}
	case leaky.AlgorithmSlidingLog:
		return []rules.Bound{
			{Limit: 5, Period: d(time.Second)},
			{Limit: 100, Period: d(10 * time.Second)},
			{Limit: 200, Period: d(time.Second)},
			{Limit: 1_000_000_000, Period: d(time.Hour), Resolution: d(time.Second)},
			{Limit: 40, Period: d(time.Second), Resolution: d(70 * time.Millisecond)},
		}
	case leaky.AlgorithmConcurrency:
		return []rules.Bound{
			{Limit: 4, TTL: d(time.Second)},
			{Limit: 40, TTL: d(200 * time.Millisecond)},
			{Limit: 10_000, TTL: d(time.Hour)},
		}
	}
	return []rules.Bound{
		{Limit: 5, Period: d(time.Second)},
		{Limit: 1_000_000_000, Period: d(366 * 24 * time.Hour)},
		{Limit: 77, Period: d(333_333 * time.Microsecond)},
	}
}

// What a script answers is what leaky does, to the microsecond, whatever came before.
func TestTakeIsLeaky(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, redistest.Options{})
	for _, a := range rules.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			for seed := range long.Of[uint64](4, 10) {
				if err := s.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				traceOf(t, s.Client(), a, seed)
			}
		})
	}
}

// traceOf asks a rule and leaky the same.
func traceOf(t *testing.T, c redis.UniversalClient, a leaky.Algorithm, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 6))
	at := leaky.Instant(1_700_000_000_000_000)
	v := open(t, c, redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	all := bounds(a)
	rule := rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: a, Bound: all[int(seed/2)%len(all)],
		Overrides: map[string]rules.Bound{"k3": all[r.IntN(len(all))]},
	}
	if a == leaky.AlgorithmBudget {
		rule.Unit = "tokens"
	}
	put := func() {
		if _, err := v.e.PutRule(v.ctx, rule, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	put()
	tallies, unders := map[string]leaky.Tally{}, map[string]rules.Bound{}
	for step := range 400 {
		switch calm := seed%2 == 1; { // then logs grow long
		case calm && r.IntN(100) > 0:
			at += leaky.Instant(r.Int64N(20_000))
		case r.IntN(3) > 0:
			at += leaky.Instant(r.Int64N([]int64{2, 1000, 50_000, 2_000_000, 4_000_000_000}[r.IntN(5)]))
		}
		if r.IntN(60) == 0 && (seed%2 == 0 || r.IntN(6) == 0) { // the numbers change
			rule.Bound = all[r.IntN(len(all))]
			put()
		}
		if r.IntN(150) == 0 && seed%2 == 0 {
			if err := v.e.ResetRule(v.ctx, "r"); err != nil {
				t.Fatal(err)
			}
			clear(tallies)
		}
		takes := make([]rules.Take, 1+r.IntN(4))
		for i := range takes {
			takes[i] = question(r, &rule, seed%2 == 1)
			takes[i].Unit = rule.Unit
		}
		got, err := v.e.Take(v.ctx, "r", takes)
		if err != nil {
			t.Fatal(err)
		}
		for i, take := range takes {
			l, err := rule.Of(take.Key).Limiter(a)
			if err != nil {
				t.Fatal(err)
			}
			tally, under := tallies[take.Key], rule.Of(take.Key)
			switch {
			case tally == nil:
				tally = l.Fresh()
			case unders[take.Key] != under: // the first question since the numbers changed
				b, _ := tally.AppendBinary(nil)
				if tally, err = l.Restore(b); err != nil {
					t.Fatal(err)
				}
			}
			ask, err := rule.Ask(take, l)
			if err != nil {
				if got[i].Err == nil {
					t.Errorf("seed %d, step %d, %+v: answered %+v, want %v", seed, step, take, got[i], err)
				}
				continue
			}
			if take.Op != rules.TakePeek { // which changes nothing
				tallies[take.Key], unders[take.Key] = tally, under
			}
			var want leaky.Decision
			switch take.Op {
			case rules.TakeNow:
				want = tally.Take(at, ask)
			case rules.TakePeek:
				want = tally.Peek(at, ask)
			case rules.TakeBack:
				want = tally.Refund(at, ask)
			case rules.TakeAnew:
				tallies[take.Key] = l.Fresh()
				want = tallies[take.Key].Peek(at, leaky.Ask{})
			}
			if rule.Never(ask, l, &want) != nil && got[i].Err != nil {
				continue
			}
			if got[i].Err != nil || got[i].Decision != want {
				t.Fatalf("seed %d, step %d, %+v under %+v: answered %+v, want %+v", seed, step, take, rule.Of(take.Key),
					got[i], want)
			}
		}
	}
}

func question(r *rand.Rand, rule *rules.Rule, calm bool) rules.Take {
	take := rules.Take{Key: fmt.Sprint("k", r.IntN(4)), Op: []rules.TakeOp{
		rules.TakeNow, rules.TakeNow, rules.TakeNow,
		rules.TakePeek, rules.TakeBack, rules.TakeNow, rules.TakeNow,
	}[r.IntN(7)]}
	if calm && r.IntN(8) > 0 {
		take.Key, take.Op = "k0", rules.TakeNow
	}
	if r.IntN(40) == 0 && (!calm || r.IntN(20) == 0) {
		take.Op = rules.TakeAnew
	}
	l, _ := rule.Of(take.Key).Limiter(rule.Algorithm)
	if take.Cost = r.Int64N(3); r.IntN(4) == 0 && (!calm || r.IntN(10) == 0) {
		take.Cost = r.Int64N(l.Limit() + 2)
	}
	if rule.Algorithm == leaky.AlgorithmConcurrency {
		take.Lease = fmt.Sprint("place", r.IntN(30))
		if take.Op == rules.TakePeek && r.IntN(2) == 0 {
			take.Lease = ""
		}
	}
	return take
}
