package redisq_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// However many places end at once, a call frees but some of them, and answers as if all were gone: what is left is
// nobody's, costs nothing, and is had anew.
func TestManyPlacesEndAtOnce(t *testing.T) {
	const first, second, some = 3500, 2000, 500 // of the costs 1 and 2 by turns
	c := redistest.New(t, redistest.Options{}).Client()
	at, ttl := leaky.Instant(1_700_000_000_000_000), time.Minute
	v := open(t, c, redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	rule := rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmConcurrency,
		Bound: rules.Bound{Limit: leaky.MaxEntries, TTL: unit.Duration(ttl)},
	}
	if _, err := v.e.PutRule(v.ctx, rule, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	l, err := rule.Limiter(rule.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	tally := l.Fresh()
	ask := func(takes ...rules.Take) {
		t.Helper()
		got, err := v.e.Take(v.ctx, "r", takes)
		if err != nil {
			t.Fatal(err)
		}
		for i, take := range takes {
			a := leaky.Ask{Cost: take.Cost, Lease: take.Lease}
			var want leaky.Decision
			switch take.Op {
			case rules.TakeNow:
				want = tally.Take(at, a)
			case rules.TakePeek:
				want = tally.Peek(at, a)
			default:
				want = tally.Refund(at, a)
			}
			if got[i].Err != nil || got[i].Decision != want {
				t.Fatalf("%+v: answered %+v, %v, want %+v", take, got[i], got[i].Err, want)
			}
		}
	}
	fill := func(begin, n int) {
		t.Helper()
		for from := begin; from < begin+n; from += some {
			takes := make([]rules.Take, some)
			for i := range takes {
				takes[i] = rules.Take{Lease: fmt.Sprint("p", from+i), Cost: 1 + int64(i)%2}
			}
			ask(takes...)
		}
	}
	fill(0, first)
	at += 20_000_000
	fill(first, second)
	at += 40_000_000 // the first of them end
	kept := func() (n int64) {
		t.Helper()
		for _, key := range c.Keys(v.ctx, "*V*").Val() {
			if !strings.HasSuffix(key, "c") {
				n += c.ZCard(v.ctx, key).Val()
			}
		}
		return n
	}
	if n := kept(); n != first+second {
		t.Fatalf("%d places are kept", n)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for call := range first / some {
		before := kept()
		take := rules.Take{Op: []rules.TakeOp{
			rules.TakeNow, rules.TakeNow, rules.TakePeek,
			rules.TakeBack,
		}[rnd.IntN(4)], Lease: fmt.Sprint("p", rnd.IntN(2*first)), Cost: 1 + rnd.Int64N(3)}
		if call == 0 {
			// of the last to be freed, at another cost
			take = rules.Take{Op: rules.TakeNow, Lease: fmt.Sprint("p", first-1), Cost: 3}
		}
		if call == 1 {
			take = rules.Take{Op: rules.TakePeek, Cost: leaky.MaxEntries - 5} // to pass when nearly all are free
		}
		ask(take)
		if n := kept(); before-n > some+1 {
			t.Errorf("%+v: of %d places %d are left", take, before, n)
		}
	}
	at += leaky.Instant(ttl.Microseconds())
	ask(rules.Take{Lease: "last"})
	for range (first + second) / some {
		ask(rules.Take{Op: rules.TakePeek})
	}
	if n := kept(); n != 1 {
		t.Errorf("%d places are kept", n)
	}
}

// However many places are held, whatever they and the questions cost, and however many of them have to end, it is not
// asked often, and no call makes it do much.
func TestPlacesAreNotGoneThrough(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	at := leaky.Instant(1_700_000_000_000_000)
	v := open(t, c, redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	rule := rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmConcurrency,
		Bound: rules.Bound{Limit: leaky.MaxEntries, TTL: unit.Duration(time.Minute)},
	}
	var tallies [30]leaky.Tally
	put := func(limit int64) {
		t.Helper()
		rule.Limit = limit
		v.rule(rule)
		l, err := rule.Bound.Limiter(rule.Algorithm)
		if err != nil {
			t.Fatal(err)
		}
		for key, before := range tallies {
			if tallies[key] = l.Fresh(); before != nil {
				b, _ := before.AppendBinary(nil)
				if tallies[key], err = l.Restore(b); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := v.e.Take(v.ctx, "r", []rules.Take{{Op: rules.TakePeek}}); err != nil { // now it is known
			t.Fatal(err)
		}
	}
	ask := func(what string, takes []rules.Take) {
		t.Helper()
		c.ConfigResetStat(v.ctx)
		got, err := v.e.Take(v.ctx, "r", takes)
		if err != nil {
			t.Fatal(err)
		}
		if scripts, all := scriptCalls(t, c), commands(t, c); scripts > 20 || all/scripts > 12_000 {
			t.Errorf("%s: %d scripts ran %d commands", what, scripts, all)
		}
		for i, take := range takes {
			key, err := strconv.Atoi(take.Key)
			if err != nil {
				t.Fatal(err)
			}
			a := leaky.Ask{Cost: take.Cost, Lease: take.Lease}
			var want leaky.Decision
			switch take.Op {
			case rules.TakeNow:
				want = tallies[key].Take(at, a)
			case rules.TakePeek:
				want = tallies[key].Peek(at, a)
			default:
				want = tallies[key].Refund(at, a)
			}
			if got[i].Err != nil || got[i].Decision != want {
				t.Fatalf("%s, %d, %+v: answered %+v, %v, want %+v", what, i, take, got[i], got[i].Err, want)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 47))
	fill := func(key, n, cost int) {
		t.Helper()
		takes := make([]rules.Take, n)
		for i := range takes {
			takes[i] = rules.Take{Key: strconv.Itoa(key), Lease: fmt.Sprint("p", i), Cost: 1 + rnd.Int64N(int64(cost))}
		}
		ask("filling", takes)
		at += leaky.Instant(n)
	}
	put(leaky.MaxEntries)
	for from := range 10 {
		takes := make([]rules.Take, 500)
		for i := range takes {
			takes[i] = rules.Take{Key: "0", Lease: fmt.Sprint("p", from, "-", i), Cost: 1 + int64(i)%2}
		}
		ask("filling", takes)
		at += 1000
	}
	fill(1, 1000, 30)
	fill(2, 1000, 2000)
	put(3) // so that nearly all have to end
	takes := make([]rules.Take, 1000)
	for i := range takes {
		takes[i] = rules.Take{Op: rules.TakePeek, Key: strconv.Itoa(rnd.IntN(3)), Cost: 1 + rnd.Int64N(3)}
		if rnd.IntN(4) == 0 {
			takes[i].Op, takes[i].Lease = []rules.TakeOp{rules.TakeNow, rules.TakeBack}[rnd.IntN(2)],
				fmt.Sprint("p", rnd.IntN(1500))
		}
	}
	ask("lowered", takes)
	put(leaky.MaxEntries)
	for i := range takes {
		takes[i].Cost = 1 + rnd.Int64N(leaky.MaxEntries)
	}
	ask("much", takes)

	put(leaky.MaxEntries)
	for key := range tallies {
		fill(key, 700, 2)
	}
	at += 2 * 60_000_000 // all end
	takes = takes[:0]
	for key := range tallies {
		takes = append(takes, rules.Take{Key: strconv.Itoa(key), Lease: "p1", Cost: leaky.MaxEntries},
			rules.Take{Op: rules.TakeBack, Key: strconv.Itoa(key), Lease: "p1"},
			rules.Take{Key: strconv.Itoa(key), Lease: "p2", Cost: 7})
	}
	ask("all have ended", takes)
	if n := scriptCalls(t, c); n == 1 {
		t.Error("the places of 30 keys are freed in one call")
	}

	for key := range tallies {
		fill(key, 400, 20)
	}
	rule.TTL /= 2
	put(leaky.MaxEntries)
	takes = takes[:0]
	for key := range tallies {
		takes = append(takes, rules.Take{Key: strconv.Itoa(key), Lease: "p1"})
	}
	ask("all end sooner", takes)
}

// What places cost goes with them, also if it stays behind: by the key of the places expiring a moment sooner, or
// somebody writing into it.
func TestWhatGonePlacesCostIsForgotten(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		c := redistest.New(t, redistest.Options{}).Client()
		v := open(t, c, redisq.Options{Init: true, Partitions: 1})
		v.rule(rules.Rule{
			Name: "r", Algorithm: leaky.AlgorithmConcurrency,
			Bound: rules.Bound{Limit: 100, TTL: unit.Duration(time.Hour)},
		})
		remaining := func(lease string, cost int64) int64 {
			t.Helper()
			got, err := v.e.Take(v.ctx, "r", []rules.Take{{Lease: lease, Cost: cost}})
			if err != nil || !got[0].Allowed {
				t.Fatalf("%+v, %v", got, err)
			}
			return got[0].Remaining
		}
		remaining("a", 20)
		places := "ps{0}V1:" + string(make([]byte, 16))
		if n := c.Del(v.ctx, places).Val(); n != 1 {
			t.Fatalf("%d keys are deleted", n)
		}
		if wrote {
			c.Set(v.ctx, places, "planted", 0)
		}
		for _, want := range []struct {
			lease           string
			cost, remaining int64
		}{{"b", 1, 99}, {"b", 1, 99}, {"c", 4, 95}, {"c", 4, 95}, {"d", 20, 75}} {
			if got := remaining(want.lease, want.cost); got != want.remaining {
				t.Errorf("%+v: %d remain", want, got)
			}
		}
	}
}

// commands is how many commands the server ran since its statistics were reset.
func commands(t *testing.T, c *redis.Client) int {
	t.Helper()
	n := 0
	for _, found := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(c.Info(t.Context(),
		"commandstats").Val(), -1) {
		calls, err := strconv.Atoi(found[2])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// scriptCalls is how many scripts the server ran since its statistics were reset.
func scriptCalls(t *testing.T, c *redis.Client) int {
	t.Helper()
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(c.Info(t.Context(),
		"commandstats").Val())
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
