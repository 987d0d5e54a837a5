package deferred

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// ruledRig is a queue on Redis whose rule lets 40 jobs in, with the rule check in front while Redis is away.
type ruledRig struct {
	t     *testing.T
	redis *redistest.Server
	nats  *natsserver.Server
	e     *redisq.Engine
	s     *Stream
	a     queue.Appender
	acked []string // in the order in which they were
}

const ruleLimit = 40

// attended is an engine that reports when a process knows the number of processes.
type attended struct {
	*redisq.Engine
	once  sync.Once
	known chan struct{}
}

func (a *attended) Attend(ctx context.Context, process string) (int, error) {
	n, err := a.Engine.Attend(ctx, process)
	if err == nil {
		a.once.Do(func() { close(a.known) })
	}
	return n, err
}

func newRuledRig(t *testing.T) *ruledRig {
	t.Helper()
	g := &ruledRig{t: t, redis: redistest.New(t, redistest.Options{AppendFsync: "always"}), nats: startNATS(t)}
	var err error
	if g.e, err = redisq.OpenClient(t.Context(), g.redis.Client(), redisq.Options{
		Init: true, Partitions: 1, Patience: redistest.Patience,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.e.Close() })
	r := rules.Rule{
		Name: "a.rule", Algorithm: leaky.AlgorithmSlidingLog, Bound: rules.Bound{
			Limit: ruleLimit, Period: unit.Duration(time.Hour),
		}, Away: rules.AwayShare,
	}
	r.Normalize()
	if _, err := g.e.PutRule(t.Context(), r, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	spec := specFor("a", 1000)
	spec.Rules = []string{"a.rule"}
	putSpec(t, g.e, spec)
	g.s = openStream(t, connect(t, g.nats.URL()), Options{})
	seen := &attended{Engine: g.e, known: make(chan struct{})}
	by := admission.New(seen, admission.Options{Patience: redistest.Patience})
	start(t, by.Run)
	<-seen.known
	past := New(g.e, g.s, by.Pass)
	start(t, past.Run)
	known(t, past, "a")
	g.a = admission.NewAppender(by, past) // as in an ingress
	return g
}

func (g *ruledRig) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// next appends the next job once.
func (g *ruledRig) next() queue.Appended {
	g.t.Helper()
	x := one(g.t, g.a, job("a", fmt.Sprintf("0-%d", len(g.acked))))
	if x.Outcome == queue.Accepted || x.Outcome == queue.Duplicate {
		g.acked = append(g.acked, x.ID)
	}
	return x
}

// fill appends one job after the other, each until it is in, until the rule refuses and spent agrees, and returns how
// many came in.
func (g *ruledRig) fill(spent func() bool) (n int) {
	g.t.Helper()
	await.Until(g.t, "the rule refuses", func() bool {
		x := g.next()
		switch x.Outcome {
		case queue.Accepted, queue.Duplicate:
			n++
		case queue.LimitReached:
			return x.RetryAfter > 2*time.Second && spent() // and not because nothing is known yet
		case queue.Failed:
		default:
			g.t.Fatalf("%+v", x)
		}
		return n > 3*ruleLimit
	})
	return n
}

// left is what Redis says that the rule has left, -1 if it says nothing.
func (g *ruledRig) left() int64 {
	said, err := g.e.Take(g.t.Context(), "a.rule", []rules.Take{{Op: rules.TakePeek}})
	switch {
	case err != nil || said[0].Err != nil:
		return -1
	case !said[0].Allowed:
		return 0
	}
	return said[0].Remaining + 1
}

// Redis and NATS are away together and come back in either order: acknowledged jobs leave once and in order, jobs that
// could not be stored cost no share, and no more come in than the rule allows plus its share once more.
func TestRuleCheckWithBothAway(t *testing.T) {
	t.Parallel()
	for name, natsFirst := range map[string]bool{"NATS is back first": true, "Redis is back first": false} {
		t.Run(name, func(t *testing.T) {
			g := newRuledRig(t)
			for range 10 {
				if x := g.next(); x.Outcome != queue.Accepted {
					t.Fatalf("%+v", x)
				}
			}
			g.must(g.redis.Kill())
			in := len(g.acked)
			await.Until(t, "jobs go past Redis", func() bool {
				if x := g.next(); x.Outcome != queue.Accepted && x.Outcome != queue.Failed {
					t.Fatalf("%+v", x)
				}
				return len(g.acked) == in+15
			})
			g.nats.Stop()
			await.Until(t, "NATS is away", func() bool { return g.s.Connected() != nil })
			for range 2 * ruleLimit {
				if x := g.next(); x.Outcome != queue.Failed {
					t.Fatalf("with both away: %+v", x)
				}
			}
			past := 15
			if natsFirst {
				g.must(g.nats.Restart(t.Context()))
				if past += g.fill(func() bool { return true }); past > ruleLimit || past == 15 {
					t.Errorf("%d came in past Redis, of a share of %d", past, ruleLimit)
				}
				g.must(g.redis.Restart(t.Context()))
			} else {
				g.must(g.redis.Restart(t.Context()))
				await.Until(t, "Redis is back", func() bool { return g.e.Check(t.Context()) == nil })
				g.must(g.nats.Restart(t.Context()))
			}
			await.Until(t, "Redis is back", func() bool { return g.e.Check(t.Context()) == nil })
			runReadmitter(t, NewReadmitter(g.e, g.s))
			rest := g.fill(func() bool { return g.left() == 0 })
			t.Logf("%d came in past Redis, %d when it was back", past, rest)
			// Before it is known that Redis is back, the share may be used up.
			if most := ruleLimit - 10 + ruleLimit - past; rest > most {
				t.Errorf("%d came in when Redis was back, of at most %d", rest, most)
			}
			left := leave(t, g.e, len(g.acked))
			inOrder(t, left, 1, len(g.acked))
			await.Until(t, "nothing is left", func() bool {
				info, err := g.e.Get(t.Context(), "a")
				return err == nil && info.Deferred == 0 && info.Size() == 0 && onStream(t, g.s, g.s.subjects.of("a")) == 0
			})
			if n := len(deadLetters(t, g.s)); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}
