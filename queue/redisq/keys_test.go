package redisq_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// windows is a rule of keys that stay for the test.
func windows(maxKeys int64) rules.Rule {
	return rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog, MaxKeys: maxKeys,
		Bound: rules.Bound{Limit: 5, Period: unit.Duration(time.Hour)},
	}
}

// takeAll takes one under each of so many keys, and returns how many were let in.
func (v *env) takeAll(rule string, from, to int) (allowed int) {
	v.t.Helper()
	for ; from < to; from += rules.MaxTakes {
		takes := make([]rules.Take, min(to-from, rules.MaxTakes))
		for i := range takes {
			takes[i].Key = fmt.Sprint("key", from+i)
		}
		began := time.Now()
		got, err := v.e.Take(v.ctx, rule, takes)
		if err != nil {
			v.t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			v.t.Errorf("a call took %v", took)
		}
		for _, a := range got {
			if a.Allowed {
				allowed++
			} else if a.MaxKeys == 0 || a.RetryAfter <= 0 {
				v.t.Fatalf("refused: %+v", a)
			}
		}
	}
	return allowed
}

// Of many keys a part is counted: the bound holds nearly, and what is counted stays small. Keys that are there go on,
// and what is freed is had again.
func TestManyKeysAreCountedByAPart(t *testing.T) {
	const most, come = 20_000, 30_000
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	v.rule(windows(most))
	// A quarter of the held keys is counted, so their number has a standard error of 1.2%: 245 of 20,000.
	near := func(what string, got, want int) {
		t.Helper()
		if d := got - want; d > most/20 || -d > most/20 {
			t.Errorf("%s: %d, want %d or nearly", what, got, want)
		}
	}
	held := v.takeAll("r", 0, come)
	near("let in", held, most)
	info, err := v.e.Rule(v.ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	near("said to be held", int(info.Keys), held)
	if n := c.ZCard(v.ctx, "ps{0}W1").Val(); n < 4096 || n > 8193 {
		t.Errorf("%d keys are counted by", n)
	}
	if n := v.takeAll("r", 0, 1000); n != 1000 {
		t.Errorf("%d of 1000 keys that are held go on", n)
	}
	var back []rules.Take
	for i := range 10_000 {
		back = append(back, rules.Take{Op: rules.TakeAnew, Key: fmt.Sprint("key", i)})
	}
	for len(back) > 0 {
		if _, err := v.e.Take(v.ctx, "r", back[:rules.MaxTakes]); err != nil {
			t.Fatal(err)
		}
		back = back[rules.MaxTakes:]
	}
	near("let in for those that were freed", v.takeAll("r", come, come+15_000), 10_000)
	if err := v.e.ResetRule(v.ctx, "r"); err != nil {
		t.Fatal(err)
	}
	if n := c.Exists(v.ctx, "ps{0}W1").Val(); n != 0 {
		t.Error("what was counted is not forgotten")
	}
	if n := v.takeAll("r", 0, 1000); n != 1000 {
		t.Errorf("%d of 1000 keys after a reset", n)
	}
}

// Keys that end are counted no more, though nobody gave them back.
func TestKeysThatEndMakeRoom(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	half := unit.Duration(500 * time.Millisecond)
	var beside sync.WaitGroup
	for _, r := range []rules.Rule{
		{
			Name: "meter", Key: "{lane}", Algorithm: leaky.AlgorithmMeter,
			Bound: rules.Bound{Rate: leaky.PerSecond(2), Burst: 1},
		},
		{
			Name: "window", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow,
			Bound: rules.Bound{Limit: 5, Period: half},
		},
		{
			Name: "counter", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
			Bound: rules.Bound{Limit: 5, Period: half},
		},
		{Name: "log", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog, Bound: rules.Bound{Limit: 5, Period: half}},
		{Name: "gap", Key: "{lane}", Algorithm: leaky.AlgorithmGap, Bound: rules.Bound{Period: half}},
		{Name: "places", Key: "{lane}", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: 5, TTL: half}},
	} {
		r.MaxKeys = 3
		v.rule(r)
		beside.Go(func() {
			let, refused, seen := 0, 0, time.Now()
			few := func() bool { return (let < 6 || refused == 0) && time.Since(seen) < time.Minute } // a busy machine
			for i := 0; time.Since(seen) < 2*time.Second || few(); i++ {
				got, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: fmt.Sprint("key", i)}})
				if err != nil || got[0].Err != nil {
					t.Error(r.Name, got, err)
					return
				}
				if got[0].Allowed {
					let++
					continue
				}
				refused++
				if wait := got[0].RetryAfter; got[0].MaxKeys != 3 || wait > 2*half.D() {
					t.Errorf("%s: %+v", r.Name, got[0])
				}
				time.Sleep(got[0].RetryAfter)
			}
			// Three for each time that a key lasts, and as many more for a pause of this machine or the end of a window.
			if most := 3 * (int(time.Since(seen)/half.D()) + 3); let < 6 || let > most || refused == 0 {
				t.Errorf("%s: %d were let in and %d refused in %v", r.Name, let, refused, time.Since(seen))
			}
		})
	}
	beside.Wait()
}

// While keys are used the store goes on to count them, and mostly spends nothing on it.
func TestKeysThatAreUsedStayCounted(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	clock := leaky.Instant(1_767_000_000_000_000)
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return clock }}),
		s.Client()
	for _, r := range exact() {
		r.MaxKeys, r.Overrides = 1, nil
		v.rule(r)
		take := func(key string) {
			t.Helper()
			if _, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: key, Cost: 60}}); err != nil {
				t.Fatal(err)
			}
		}
		take("k")
		counted := c.Keys(v.ctx, "ps{0}W*").Val()
		if len(counted) != 1 {
			t.Fatal(counted)
		}
		kept := c.PTTL(v.ctx, counted[0]).Val()
		c.PExpire(v.ctx, counted[0], time.Minute)
		clock = clock.Add(time.Millisecond)
		take("k")
		if got := c.PTTL(v.ctx, counted[0]).Val(); got > time.Minute {
			t.Errorf("%s: kept at each take", r.Name)
		}
		for range 60 {
			clock = clock.Add(kept / 60)
			take("k")
		}
		if got := c.PTTL(v.ctx, counted[0]).Val(); got <= time.Minute {
			t.Errorf("%s: kept for %v", r.Name, got)
		}
		c.Del(v.ctx, counted[0])
	}
}

// A key whose tally stands costs nothing to count, be it fresh or not.
func TestKnownKeysCostNothingToCount(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	clock := leaky.Instant(1_767_000_000_000_000)
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return clock }}),
		s.Client()
	second := unit.Duration(time.Second)
	for _, r := range []rules.Rule{
		{
			Name: "meter", Key: "{lane}", Algorithm: leaky.AlgorithmMeter,
			Bound: rules.Bound{Rate: leaky.PerSecond(1), Burst: 5},
		},
		{
			Name: "window", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow,
			Bound: rules.Bound{Limit: 5, Period: second},
		},
		{
			Name: "counter", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
			Bound: rules.Bound{Limit: 5, Period: second},
		},
	} {
		v.rule(r)
		take := func() {
			t.Helper()
			if got, err := v.e.Take(v.ctx, r.Name, []rules.Take{{Key: "k"}}); err != nil || !got[0].Allowed {
				t.Fatal(got, err)
			}
		}
		take()
		if err := c.ConfigResetStat(v.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			take()
			clock = clock.Add(4 * time.Second)
		}
		stats := c.Info(v.ctx, "commandstats").Val()
		if strings.Contains(stats, "cmdstat_z") || !strings.Contains(stats, "cmdstat_mget:calls=3,") {
			t.Errorf("%s: commands of three takes:\n%s", r.Name, stats)
		}
	}
}

// When a rule is full by its sample, keys outside the sample that are as fresh find no more room than those in it.
func TestFreshKeysOutsideAFullSample(t *testing.T) {
	const most = 10_000
	s := redistest.New(t, redistest.Options{})
	clock := leaky.Instant(1_767_000_000_000_000)
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return clock }})
	v.rule(rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmMeter, MaxKeys: most,
		Bound: rules.Bound{Rate: leaky.PerSecond(1), Burst: 5},
	})
	if n := v.takeAll("r", 0, most*8/10); n != most*8/10 {
		t.Fatalf("%d were let in, below the bound", n)
	}
	clock = clock.Add(time.Second)
	let := v.takeAll("r", most, 4*most) // these fill it
	if low, high := most*95/100, most*105/100; let < low || let > high {
		t.Errorf("%d new ones were let in, want %d or nearly", let, most)
	}
	if n := v.takeAll("r", 0, most*8/10); n > most/20 {
		t.Errorf("%d that were as fresh came back beside them", n)
	}
}

// What somebody else wrote where keys are counted stops nobody for long.
func TestPlantedKeysOfARule(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1}), s.Client()
	v.put("q", leaky.PerSecond(1), nil)
	v.rule(windows(5))
	const counted = "ps{0}W1"
	for name, plant := range map[string]func() error{
		"string": func() error { return c.Set(v.ctx, counted, "x", 0).Err() },
		"list":   func() error { return c.LPush(v.ctx, counted, "x").Err() },
		"odd members": func() error {
			return c.ZAdd(v.ctx, counted, redis.Z{Member: "x", Score: 5}, redis.Z{Member: "yy", Score: 1e9},
				redis.Z{Member: string(make([]byte, 40)), Score: 0}).Err()
		},
		"a mark alone": func() error { return c.ZAdd(v.ctx, counted, redis.Z{Member: "", Score: -30}).Err() },
	} {
		if err := v.e.ResetRule(v.ctx, "r"); err != nil {
			t.Fatal(err)
		}
		keys := c.Keys(v.ctx, "ps{0}W*").Val()
		if len(keys) > 0 {
			t.Fatal(keys)
		}
		is, err := c.HGet(v.ctx, "ps{0}", "u:r").Result()
		if err != nil {
			t.Fatal(err)
		}
		var nr int
		if _, err := fmt.Sscan(is, &nr); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if err := c.Rename(v.ctx, counted, fmt.Sprintf("ps{0}W%d", nr)).Err(); err != nil {
			t.Fatal(err)
		}
		if n := v.takeAll("r", 0, 10); n != 5 {
			t.Errorf("%s: %d were let in, want 5", name, n)
		}
	}
}
