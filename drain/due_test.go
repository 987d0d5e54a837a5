package drain_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// tallies counts the drainers' requests and jobs.
type tallies struct {
	drain.NoObserver
	departed, released atomic.Int64
}

func (t *tallies) Departed(*drain.Job, time.Duration) { t.departed.Add(1) }
func (t *tallies) Released(string, drain.Reason)      { t.released.Add(1) }

var scriptCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// calls returns how many scripts the server has run.
func calls(t *testing.T, c *redis.Client) int {
	t.Helper()
	m := scriptCalls.FindStringSubmatch(c.Info(t.Context(), "commandstats").Val())
	if m == nil {
		t.Fatal("the server does not say how many scripts it ran")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fillMany makes n queues with a rate, and appends jobs to each.
func fillMany(t *testing.T, e queue.Engine, prefix string, n, jobs int, rate leaky.Rate) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan string, n)
	for i := range n {
		next <- fmt.Sprintf("%s%04d", prefix, i)
	}
	close(next)
	for range 16 {
		all.Go(func() {
			for name := range next {
				// With less slack, some jobs of the fast queues would be late on a busy machine.
				put(t, e, queue.Spec{Name: name, Rate: rate, Slack: unit.Duration(queue.MostSlack)})
				push(t, e, name, 0, jobs)
			}
		})
	}
	all.Wait()
}

// Many queues due at once are served once each: almost no job is granted that cannot start, and the store is not asked
// repeatedly. The same holds after a time without drainers.
func TestManyDueQueues(t *testing.T) {
	const queues = 500
	s := redistest.New(t, redistest.Options{})
	client := s.Client()
	open := func() queue.Engine {
		e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	e := open()
	perMinute, err := leaky.ParseRate("1/m")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		rate           leaky.Rate
		jobs, drainers int
		// Maximum number of scripts per job: one settlement, and its part of a common grant.
		callsEach float64
	}{
		{"slow", perMinute, 1, 1, 1.5},
		{"outage", perMinute, 1, 2, 1.5}, // no drainer ran while they came
		{"fast", leaky.PerSecond(1), 2, 2, 2},
	} {
		fillMany(t, e, c.name, queues, c.jobs, c.rate)
		before, seen, count := calls(t, client), &tallies{}, int64(queues*c.jobs)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range c.drainers {
			own := open()
			all.Go(func() {
				err := drain.Run(ctx, own, drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil }),
					drain.Options{Observer: seen})
				if err != nil {
					t.Error(err)
				}
			})
		}
		await.Until(t, "all jobs have departed", func() bool { return seen.departed.Load() >= count })
		stop()
		all.Wait()
		if n := seen.departed.Load(); n != count {
			t.Errorf("%s: %d departures of %d jobs", c.name, n, count)
		}
		if n := seen.released.Load(); n > count/100 {
			t.Errorf("%s: %d of %d jobs were released", c.name, n, count)
		}
		if n := float64(calls(t, client) - before); n > c.callsEach*float64(count) {
			t.Errorf("%s: %.0f scripts for %d jobs, want %.1f each", c.name, n, count, c.callsEach)
		} else {
			t.Logf("%s: %d released, %.2f scripts a job", c.name, seen.released.Load(), n/float64(count))
		}
	}
}
