package redisq_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

var statCalls = regexp.MustCompile(`cmdstat_\w+:calls=(\d+)`)

// Jobs that expire, but do not lapse, are appended in the same few steps as others.
func TestAppendOfJobsThatExpire(t *testing.T) {
	v, s, at := manual(t)
	stored := 0
	steps := func(name string, expires time.Time) (calls int) {
		v.put(name, leaky.PerSecond(10), nil)
		var jobs []queue.Job
		for i := range 500 {
			j := job(name, i)
			j.ExpiresAt = expires
			jobs = append(jobs, j)
		}
		s.Client().ConfigResetStat(v.ctx)
		a := v.append(jobs...)
		for _, m := range statCalls.FindAllStringSubmatch(s.Client().Info(v.ctx, "commandstats").Val(), -1) {
			n, _ := strconv.Atoi(m[1])
			calls += n
		}
		accepted := 0
		for i, got := range a {
			if got.Outcome == queue.Accepted {
				accepted++
			}
			want := at.Add(time.Duration(i) * 100 * time.Millisecond).Time()
			late := !expires.IsZero() && want.After(expires)
			if late && got.Outcome != queue.Lapsed || !late &&
				(got.Outcome != queue.Accepted || got.Position != int64(i)+1 || !got.ETA.Exact) ||
				!got.ETA.At.Equal(want) && !late {
				t.Fatalf("%s: job %d: %+v", name, i, got)
			}
		}
		stored += accepted
		if n := len(s.Client().Keys(v.ctx, "*:job-*").Val()); n != stored {
			t.Errorf("with %s %d jobs are stored, %d were accepted", name, n, stored)
		}
		return calls
	}
	plain := steps("plain", time.Time{})
	expiring := steps("expiring", at.Time().Add(49900*time.Millisecond)) // the last of them just in time
	if expiring > plain+10 {
		t.Errorf("%d steps for 500 jobs that expire, %d for plain ones", expiring, plain)
	}
	steps("late", at.Time().Add(30*time.Second)) // these lapse from some job on
}

// What was taken under a key is kept until it is as fresh, whatever is asked of it and of however changed a rule, and
// not for ever.
func TestTalliesAreKeptForAsLongAsTheyMatter(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, a := range []leaky.Algorithm{
		leaky.AlgorithmMeter, leaky.AlgorithmTokenBucket, leaky.AlgorithmFixedWindow,
		leaky.AlgorithmSlidingCounter, leaky.AlgorithmSlidingLog, leaky.AlgorithmBudget,
	} {
		rule := rules.Rule{Name: "r." + string(a), Key: "{lane}", Algorithm: a}
		if a == leaky.AlgorithmBudget {
			rule.Unit = "tokens"
		}
		for i := range 300 {
			if i%25 == 0 {
				rule.Bound = someBound(a, rng)
				v.rule(rule)
			}
			takes := make([]rules.Take, 1+rng.IntN(3))
			for k := range takes {
				takes[k] = rules.Take{Op: []rules.TakeOp{
					rules.TakeNow, rules.TakeNow, rules.TakeNow, rules.TakeBack,
					rules.TakePeek,
				}[rng.IntN(5)], Key: "k", Cost: 1 + rng.Int64N(3), Unit: rule.Unit}
			}
			begun := time.Now()
			got, err := v.e.Take(v.ctx, rule.Name, takes)
			if err != nil {
				t.Fatal(err)
			}
			var left time.Duration
			shortest := math.MaxInt // of a name: the others are of takes that can be corrected
			for _, key := range c.Keys(v.ctx, "ps{0}V*").Val() {
				kept := c.PTTL(v.ctx, key).Val()
				if kept == -1 {
					t.Errorf("%s, %d: %+v is kept for ever", a, i, got)
				}
				if len(key) < shortest {
					left, shortest = kept, len(key)
				}
			}
			last := got[len(got)-1]
			past := time.Since(begun)
			if took := last.Allowed && takes[len(takes)-1].Op == rules.TakeNow; took &&
				left+past+time.Millisecond < last.ResetAfter {
				t.Errorf("%s, %d: %+v is kept for %v, %v after it was asked", a, i, last, left, past)
			}
		}
		c.FlushDB(v.ctx)
		v = open(t, c, redisq.Options{Init: true, Partitions: 1})
	}
}

// Of a key that is not there, what is given back in the same call does not pass for what it held.
func TestATallyGivenBackToAndTakenFromExpires(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	at := leaky.Instant(1_700_000_000_000_000) // the begin of a second
	v := open(t, c, redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	for a, bounds := range map[leaky.Algorithm]rules.Bound{
		leaky.AlgorithmMeter:          {Rate: leaky.PerSecond(1000), Burst: 5},
		leaky.AlgorithmFixedWindow:    {Limit: 5, Period: unit.Duration(5 * time.Millisecond)},
		leaky.AlgorithmSlidingCounter: {Limit: 5, Period: unit.Duration(5 * time.Millisecond)},
		leaky.AlgorithmSlidingLog:     {Limit: 5, Period: unit.Duration(5 * time.Millisecond)},
	} {
		name := "r." + string(a)
		v.rule(rules.Rule{Name: name, Key: "{lane}", Algorithm: a, Bound: bounds})
		if _, err := v.e.Take(v.ctx, name, []rules.Take{{Op: rules.TakeBack, Key: "k"}, {Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		keys := c.Keys(v.ctx, "ps{0}V*").Val()
		if len(keys) != 1 || c.PTTL(v.ctx, keys[0]).Val() < 0 {
			t.Errorf("%s: %d keys, of which the first is kept for %v", a, len(keys), c.PTTL(v.ctx, keys[0]).Val())
		}
		if _, err := v.e.Take(v.ctx, name, []rules.Take{{Op: rules.TakeAnew, Key: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// someBound is of lives below and above a second, and of some hours.
func someBound(a leaky.Algorithm, rng *rand.Rand) rules.Bound {
	n := 1 + rng.Int64N(100)
	period := unit.Duration([]time.Duration{
		50 * time.Millisecond, time.Second, 7 * time.Second,
		time.Hour,
	}[rng.IntN(4)])
	if a == leaky.AlgorithmMeter || a == leaky.AlgorithmTokenBucket || a == leaky.AlgorithmBudget {
		rate, err := leaky.ParseRate(fmt.Sprintf("%d/%s", n, []string{"s", "m", "h"}[rng.IntN(3)]))
		if err != nil {
			panic(err)
		}
		return rules.Bound{Rate: rate, Burst: 3 + n/4}
	}
	return rules.Bound{Limit: n + 3, Period: period}
}
