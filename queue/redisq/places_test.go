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

	"github.com/penstock/penstock/internal/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// However many places end at once, a call frees but some of them, and answers as if all were gone: what is left is nobody's, costs nothing, and
// is had anew.
func TestManyPlacesEndAtOnce(t *testing.T) {
	const first, second, some = 3500, 2000, 500 // of the costs 1 and 2 by turns
	c := redistest.New(t, redistest.Options{}).Client()
	at, ttl := leaky.Instant(1_700_000_000_000_000), time.Minute
	v := open(t, c, redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	rule := queue.Rule{Name: "r", Algorithm: leaky.AlgorithmConcurrency, Bound: queue.Bound{Limit: leaky.MaxEntries, TTL: queue.Duration(ttl)}}
	if _, err := v.e.PutRule(v.ctx, rule, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	l, err := rule.Limiter(rule.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	tally := l.Fresh()
	ask := func(takes ...queue.Take) {
		t.Helper()
		got, err := v.e.Take(v.ctx, "r", takes)
		if err != nil {
			t.Fatal(err)
		}
		for i, take := range takes {
			a := leaky.Ask{Cost: take.Cost, Lease: take.Lease}
			var want leaky.Decision
			switch take.Op {
			case queue.TakeNow:
				want = tally.Take(at, a)
			case queue.TakePeek:
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
			takes := make([]queue.Take, some)
			for i := range takes {
				takes[i] = queue.Take{Lease: fmt.Sprint("p", from+i), Cost: 1 + int64(i)%2}
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
		take := queue.Take{Op: []queue.TakeOp{queue.TakeNow, queue.TakeNow, queue.TakePeek, queue.TakeBack}[rnd.IntN(4)], Lease: fmt.Sprint("p", rnd.IntN(2*first)), Cost: 1 + rnd.Int64N(3)}
		if call == 0 {
			take = queue.Take{Op: queue.TakeNow, Lease: fmt.Sprint("p", first-1), Cost: 3} // of the last to be freed, at another cost
		}
		if call == 1 {
			take = queue.Take{Op: queue.TakePeek, Cost: leaky.MaxEntries - 5} // to pass when nearly all are free
		}
		ask(take)
		if n := kept(); before-n > some+1 {
			t.Errorf("%+v: of %d places %d are left", take, before, n)
		}
	}
	at += leaky.Instant(ttl.Microseconds())
	ask(queue.Take{Lease: "last"})
	for range (first + second) / some {
		ask(queue.Take{Op: queue.TakePeek})
	}
	if n := kept(); n != 1 {
		t.Errorf("%d places are kept", n)
	}
}

// To tell when much is free, as many places are looked at: one call to the server is not asked that often.
func TestMuchIsAskedOfPlacesInManyFlights(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	v := open(t, c, redisq.Options{Init: true, Partitions: 1})
	v.rule(queue.Rule{Name: "r", Algorithm: leaky.AlgorithmConcurrency, Bound: queue.Bound{Limit: leaky.MaxEntries, TTL: queue.Duration(time.Minute)}})
	flights := func(cost int64) int {
		t.Helper()
		takes := make([]queue.Take, 100)
		for i := range takes {
			takes[i] = queue.Take{Op: queue.TakePeek, Cost: cost}
		}
		c.ConfigResetStat(v.ctx)
		if got, err := v.e.Take(v.ctx, "r", takes); err != nil || !got[99].Allowed {
			t.Fatal(got, err)
		}
		return scriptCalls(t, c)
	}
	flights(1) // now the rule is known
	if few, many := flights(1), flights(9000); few != 1 || many < 45 {
		t.Errorf("100 questions of cost 1 went in %d flights, of cost 9000 in %d, want 1 and about 2 questions in each", few, many)
	}
}

// scriptCalls is how many scripts the server ran since its statistics were reset.
func scriptCalls(t *testing.T, c *redis.Client) int {
	t.Helper()
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(c.Info(t.Context(), "commandstats").Val())
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
