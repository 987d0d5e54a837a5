package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// produce appends n jobs, one after the other, each again and again until it is accepted.
func produce(t *testing.T, a queue.Appender, name string, producer, n int) {
	for i := range n {
		j := job(name, fmt.Sprintf("%d-%d", producer, i))
		for begun := time.Now(); ; await.Pause(begun) {
			answers, err := a.Append(context.Background(), []queue.Job{j})
			if len(answers) == 1 && (answers[0].Outcome == queue.Accepted || answers[0].Outcome == queue.Duplicate) {
				break
			}
			if time.Since(begun) > deadline {
				t.Errorf("%s is not accepted: %+v, %v", j.ID, answers, err)
				return
			}
		}
	}
}

// inOrder checks that each producer's jobs left in the order in which it sent them, none
// twice and none missing.
func inOrder(t *testing.T, left []string, producers, n int) {
	t.Helper()
	next := make([]int, producers)
	for _, id := range left {
		var producer, i int
		if _, err := fmt.Sscanf(id, "%d-%d", &producer, &i); err != nil {
			t.Fatal(err)
		}
		if i != next[producer] {
			t.Fatalf("%s left where %d-%d should have", id, producer, next[producer])
		}
		next[producer]++
	}
	for producer, got := range next {
		if got != n {
			t.Errorf("%d of producer %d left, of %d", got, producer, n)
		}
	}
}

// Each producer's jobs leave in order, no matter which of them were deferred.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	putSpec(t, r, specFor("a", 20))
	a := newAppender(t, r, r.stream)
	runReadmitter(t, r.readmitter())
	var all sync.WaitGroup
	for producer := range 8 {
		all.Go(func() { produce(t, a, "a", producer, 200) })
	}
	await.Until(t, "jobs are deferred", func() bool { return r.info(t, "a").Deferred > 0 })
	left := leave(t, r, 8*200)
	all.Wait()
	inOrder(t, left, 8, 200)
	r.idle(t, "a")
	if info := r.info(t, "a"); info.Returned == 0 || info.Missing != 0 {
		t.Errorf("%+v", info)
	}
}

// The same while Redis is killed, and while it hangs: every job is accepted in time, in order, and is delivered once.
func TestOrderThroughRedisOutage(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct{ begin, end func(*redistest.Server) error }{
		"killed": {(*redistest.Server).Kill, func(s *redistest.Server) error { return s.Restart(context.Background()) }},
		"hangs":  {(*redistest.Server).Pause, (*redistest.Server).Continue},
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.New(t, redistest.Options{AppendFsync: "always"})
			open := func(patience time.Duration) *redisq.Engine {
				e, err := redisq.OpenClient(t.Context(), redis.Client(), redisq.Options{Init: true, Patience: patience})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = e.Close() })
				return e
			}
			e, patient := open(redisq.DefaultPatience), open(redistest.Patience) // for what has to be answered
			seen := newSeen()
			stream := openStream(t, connect(t, startNATS(t).URL()), Options{Observer: seen})
			const producers, n = 4, 400
			putSpec(t, patient, specFor("a", 3*producers*n))
			a := newAppender(t, e, stream)
			known(t, a, "a")
			runReadmitter(t, NewReadmitter(e, stream))
			var all sync.WaitGroup
			for producer := range producers {
				all.Go(func() { produce(t, a, "a", producer, n) })
			}
			await.Until(t, "jobs are in", func() bool {
				info, err := e.Get(t.Context(), "a")
				return err == nil && info.Waiting > producers
			})
			if err := trouble.begin(redis); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "jobs went past it", func() bool {
				seen.mu.Lock()
				defer seen.mu.Unlock()
				return seen.stored > 5*producers
			})
			if err := trouble.end(redis); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			var left []string
			await.Until(t, "all left", func() bool {
				info, err := e.Get(t.Context(), "a")
				if err != nil {
					return false
				}
				left = append(left, leave(t, patient, int(info.Waiting))...)
				return len(left) >= producers*n
			})
			inOrder(t, left, producers, n)
			await.Until(t, "nothing is left", func() bool {
				info, err := e.Get(t.Context(), "a")
				return err == nil && info.Deferred == 0 && onStream(t, stream, "penstock.deferred.>") == 0
			})
			if n := len(deadLetters(t, stream)); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// newClusterRig returns a rig whose stream has a replica on each of three NATS servers.
func newClusterRig(t *testing.T) (*natsserver.Cluster, *rig) {
	t.Helper()
	c, err := natsserver.StartCluster(t.Context(), 3, natsserver.Options{
		Dir: t.TempDir(), LazySync: true, MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	r := &rig{seen: newSeen()}
	r.Engine, r.clock = newBolt(t)
	r.stream = openStream(t, connect(t, c.URL()), Options{Replicas: 3, Observer: r.seen})
	return c, r
}

// NATS loses its leader while jobs are put and come back: no accepted job is lost, and none leaves twice.
func TestBackThroughLeaders(t *testing.T) {
	t.Parallel()
	c, r := newClusterRig(t)
	putSpec(t, r, specFor("a", 20))
	a := newAppender(t, r, r.stream)
	runReadmitter(t, r.readmitter())
	runReadmitter(t, NewReadmitter(r, openStream(t, connect(t, c.URL()), Options{Replicas: 3})))
	const producers, n = 4, 150
	var all sync.WaitGroup
	for producer := range producers {
		all.Go(func() { produce(t, a, "a", producer, n) })
	}
	left := leave(t, r, 100)
	for range 2 {
		var leader *natsserver.Server
		await.Until(t, "a leader", func() bool { leader = c.Leader(r.stream.name); return leader != nil })
		leader.Stop()
		left = append(left, leave(t, r, 100)...)
		if err := leader.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left = append(left, leave(t, r, producers*n-300)...)
	all.Wait()
	there := map[string]bool{}
	for _, id := range left {
		if there[id] {
			t.Errorf("%s left twice", id)
		}
		there[id] = true
	}
	if len(there) != producers*n {
		t.Errorf("%d left", len(there))
	}
	r.idle(t, "a")
	if info := r.info(t, "a"); info.Missing != 0 || info.Dead != 0 || len(deadLetters(t, r.stream)) != 0 {
		t.Errorf("%+v", info)
	}
}

// NATS is stopped and started while jobs come back and the engine works.
func TestBackThroughRestarts(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	r := &rig{seen: newSeen()}
	r.Engine, r.clock = newBolt(t)
	r.stream = openStream(t, connect(t, server.URL()), Options{Observer: r.seen})
	putSpec(t, r, specFor("a", 20))
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", numbered(1000))
	runReadmitter(t, r.readmitter())
	left := leave(t, r, 100)
	for range 5 {
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		left = append(left, leave(t, r, 100)...)
	}
	left = append(left, leave(t, r, 400)...)
	for i, id := range numbered(1000) {
		if left[i] != id {
			t.Fatalf("%s left where %s should have", left[i], id)
		}
	}
	r.idle(t, "a")
	if err := r.stream.Connected(); err != nil {
		t.Error(errors.Join(err, r.stream.Status().Err))
	}
}
