package drain_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// every matches one script in n.
func every(n int) faultproxy.Match {
	seen := 0
	script := faultproxy.Script()
	return func(c faultproxy.Command) bool {
		if !script(c) {
			return false
		}
		seen++
		return seen%n == 0
	}
}

// On a line that loses commands and replies, and delays others by far more than the slack, no job is lost, none starts
// twice, and the rate holds.
func TestBadLine(t *testing.T) {
	for name, faults := range map[string][]faultproxy.Fault{
		"replies swallowed": {{On: every(7), Do: faultproxy.SwallowReply}},
		"commands lost":     {{On: every(7), Do: faultproxy.LoseCommand}},
		"replies late":      {{On: every(5), Do: faultproxy.DelayReply, By: 150 * time.Millisecond}},
		"all of it": {
			{On: every(11), Do: faultproxy.SwallowReply},
			{On: every(13), Do: faultproxy.LoseCommand},
			{On: every(17), Do: faultproxy.DelayReply, By: 150 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, delta = 200, 100 * time.Millisecond
			rate := leaky.PerSecond(200)
			s := redistest.New(t, redistest.Options{})
			proxy := faultproxy.New(t, s.Addr())
			clean, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
			if err != nil {
				t.Fatal(err)
			}
			defer clean.Close()
			put(t, clean, queue.Spec{Name: "q", Rate: rate})
			push(t, clean, "q", 0, n)

			client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
			defer client.Close()
			bad, err := redisq.OpenClient(t.Context(), client, redisq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer bad.Close()
			for _, f := range faults {
				proxy.Inject(f)
			}
			r := newRecord(0)
			d := start(bad, drain.HandlerFunc(r.handle), drain.Options{})
			await.Until(t, "all delivered", func() bool { return info(t, clean, "q").Delivered == n })
			proxy.Clear()
			d.finish(t)
			r.once(t, n)
			verdict := law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}.Judge(law.At(r.starts()))
			if !verdict.Held {
				t.Errorf("%d starts in %v, allowed %d", verdict.Worst.Starts, verdict.Worst.Width, verdict.Worst.Allowed)
			}
			i := info(t, clean, "q")
			t.Logf("%d released, %d slots lost", i.Released, i.Lost)
			if i.Expired != 0 || i.Size() != 0 {
				t.Errorf("%d leases ran out, %d jobs left", i.Expired, i.Size())
			}
		})
	}
}
