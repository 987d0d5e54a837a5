package redisq_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

func dailyIn(zone string, most int64) queue.Limit {
	return queue.Limit{Quota: queue.Quota{Max: most, Per: "d"}, Timezone: zone}
}

// tidy sweeps as long as a Reserve says that it is needed, and reports whether it was.
func (v *env) tidy() (needed bool) {
	v.t.Helper()
	for range 3 {
		if !v.reserve("email").Garbage {
			return needed
		}
		needed = true
		if _, err := v.e.Sweep(v.ctx, 0); err != nil {
			v.t.Fatal(err)
		}
	}
	v.t.Error("a sweep is needed for ever")
	return needed
}

// A calendar is told how it goes on before it ends, and, once nobody did for long, afterwards.
func TestCalendarsAreRenewed(t *testing.T) {
	v, _, at := manual(t)
	limit := dailyIn("Europe/Berlin", 2)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Limits = []queue.Limit{limit, {Rate: leaky.PerSecond(1)}} })
	if v.tidy() {
		t.Error("a fresh calendar was renewed")
	}
	renewed := 0
	step := func(n int, by time.Duration) {
		t.Helper()
		*at = at.Add(by)
		v.append(job("email", n))
		v.settle(deliver(v.reserve("email").Jobs...)...)
		if v.tidy() {
			renewed++
		}
		calendar, err := limit.Calendar(at.Time())
		if err != nil {
			t.Fatal(err)
		}
		w := v.info("email").Limits[0].Window
		if want := calendar.End(*at); w.Ends != want || w.Used != 1 {
			t.Errorf("at %v: %d used until %v, want 1 until %v", at.Time(), w.Used, w.Ends.Time(), want.Time())
		}
	}
	for n := range 250 { // over the last day of March, which has 23 hours
		step(n, 24*time.Hour)
	}
	if renewed < 250/64 || renewed > 250/32 {
		t.Errorf("renewed %d times in 250 days, of which one calendar knows 64", renewed)
	}
	*at = at.Add(300 * 24 * time.Hour)
	v.tidy()
	step(1000, 24*time.Hour)
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	*at = at.Add(300 * 24 * time.Hour)
	v.put("other", leaky.Unlimited, nil)
	if v.tidy(); v.tidy() {
		t.Error("the calendar of a queue that is gone is renewed")
	}
}

// A Put between the question what a queue's limits are and the answer how they go on has told it itself.
func TestCalendarsAreRenewedBesideChanges(t *testing.T) {
	other, s, at := manual(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	v := open(t, client, redisq.Options{Partitions: 1, Now: func() leaky.Instant { return *at }})
	zoned := func(s *queue.Spec) { s.Limits = []queue.Limit{dailyIn("Europe/Berlin", 2)} }
	v.put("email", leaky.Unlimited, zoned)
	*at = at.Add(60 * 24 * time.Hour)
	calls := &between{then: []func(){
		func() { other.put("email", leaky.Unlimited, nil) },   // the sweep has found that the calendar is to be renewed
		func() { other.put("email", leaky.Unlimited, zoned) }, // there was no quota
	}}
	client.AddHook(calls)
	if _, err := v.e.Sweep(v.ctx, 0); err != nil {
		t.Fatal(err)
	}
	if len(calls.then) > 0 {
		t.Fatalf("%d changes were not made", len(calls.then))
	}
	*at = at.Add(60 * 24 * time.Hour)
	if !v.tidy() {
		t.Error("the calendar is not renewed any more")
	}
}

// between does something behind each of a client's scripts.
type between struct{ then []func() }

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && len(b.then) > 0 {
			do := b.then[0]
			b.then = b.then[1:]
			do()
		}
		return err
	}
}

// What somebody wrote in place of a queue's limits stops that queue alone.
func TestPlantedLimitsStopNoOther(t *testing.T) {
	for _, field := range []string{"limits", "lstate"} {
		v, s, at := manual(t)
		v.put("email", leaky.PerSecond(1), func(s *queue.Spec) { s.Limits = []queue.Limit{dailyIn("", 100)} })
		v.put("other", leaky.PerSecond(1), nil)
		v.append(job("email", 0), job("email", 1), job("other", 2))
		v.settle(deliver(v.reserve("email").Jobs...)...)
		before, err := s.Client().HGet(v.ctx, "ps{0}q1", field).Result()
		if err != nil {
			t.Fatal(err)
		}
		s.Client().HSet(v.ctx, "ps{0}q1", field, "\xc1planted")
		v.append(job("other", 3))
		if _, err := v.e.Get(v.ctx, "email"); !errors.Is(err, queue.ErrCorrupt) {
			t.Errorf("%s: %v", field, err)
		}
		if seen := v.out(at, 5); seen["other"] != 1 || seen["email"] != 0 {
			t.Errorf("%s: %v left", field, seen)
		}
		s.Client().HSet(v.ctx, "ps{0}q1", field, before)
		if seen := v.out(at, 5); seen["email"] != 1 {
			t.Errorf("%s: mended: %v left", field, seen)
		}
	}
}

// A further pace obeys its own window law, whatever a restart lost.
func TestWindowLawOfALimitWhateverWasLost(t *testing.T) {
	t.Parallel()
	for _, p := range persistences {
		t.Run(p.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(5, 6))
			l := newLossy(t, p)
			put := func() {
				l.put("email", leaky.PerSecond(100), func(s *queue.Spec) {
					s.Limits = []queue.Limit{{Rate: leaky.PerSecond(5), Burst: 3}}
				})
			}
			put()
			work := func(steps int) {
				for range steps {
					for range rnd.IntN(3) {
						l.add("email", 1+rnd.Int64N(3))
					}
					for _, j := range l.reserve("email").Jobs {
						s := deliver(j)[0]
						if rnd.IntN(10) == 0 {
							s.Verdict = queue.Release
						} else {
							l.start(j)
						}
						l.settle(s)
					}
					if rnd.IntN(20) == 0 {
						l.must(l.e.Delete(l.ctx, "email", queue.AnyRevision, true))
						put()
					}
					l.at += leaky.Instant(rnd.Int64N(300_000))
				}
			}
			lost := 0
			for range 6 {
				work(20)
				l.keep()
				kept := len(l.starts)
				work(5 + rnd.IntN(20))
				lost += len(l.starts) - kept
				l.lose(rnd)
				put()
			}
			work(100)
			if lost < 6 {
				t.Errorf("only %d grants were lost", lost)
			}
			l.judge(leaky.PerSecond(5), 3)
		})
	}
}
