package redisq_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// A master of a cluster dies and stays dead. Appends and departures of its queues go on soon after the promotion of
// its replica, with a client that by itself reloads its list of masters once a minute.
func TestDeadMasterOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.ClusterOptions{Replicas: true, NodeTimeout: 2 * time.Second})
	const partitions = 16
	v := open(t, cluster.Client(), redisq.Options{
		Init: true, Partitions: partitions, Patience: redisq.DefaultPatience,
	})
	dead := cluster.Nodes[0]
	names, marker := map[int]string{}, "" // a queue in each partition of the master that dies, and a key there
	for i := range 8 * partitions {
		name := fmt.Sprintf("q%d", i)
		p := v.e.Partition(name)
		key := fmt.Sprintf("marker{%d}", p)
		node, err := cluster.NodeOf(v.ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if node == dead && names[p] == "" {
			v.put(name, leaky.Unlimited, nil)
			names[p], marker = name, key
		}
	}
	if len(names) == 0 {
		t.Fatal("no queue is on the first master")
	}
	// WAIT waits for the writes of its own connection and all before them.
	conn := dead.Client().Conn()
	if err := conn.Set(v.ctx, marker, 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(v.ctx, 1, redistest.Patience).Result(); n != 1 || err != nil {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	// Calls begin before the promotion: the client must meet the dead master.
	watch := watchQueues(v, names)
	if _, err := cluster.AwaitPromotion(v.ctx, dead); err != nil {
		t.Error(err)
	}
	watch(time.Now())
}

// watchQueues begins to append to queues and to take jobs out, each in its partition. What it returns takes the instant
// of the promotion, waits for every queue, and judges how long each was silent after the promotion.
func watchQueues(v *env, names map[int]string) (wait func(promoted time.Time)) {
	// 5 s are wanted. The client's own reload takes about 50 s.
	const bound = 20 * time.Second
	ctx, cancel := context.WithTimeout(v.ctx, 2*time.Minute)
	type success struct {
		queue, what string
		at          time.Time
	}
	successes := make(chan success, 2*len(names))
	var all sync.WaitGroup
	for p, name := range names {
		until := func(what string, do func(n uint64) bool) {
			for n := uint64(1); !do(n); n++ {
				if ctx.Err() != nil {
					v.t.Errorf("queue %s: no %s", name, what)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			successes <- success{name, what, time.Now()}
		}
		all.Go(func() {
			until("append", func(uint64) bool {
				a, err := v.e.Append(ctx, []queue.Job{job(name, 1)})
				return err == nil && (a[0].Outcome == queue.Accepted || a[0].Outcome == queue.Duplicate)
			})
			until("departure", func(n uint64) bool {
				r, err := v.e.Reserve(ctx, queue.ReserveRequest{
					Partition: p, Client: queue.Client{ID: "client-under-test"}, Number: n, Max: 1,
				})
				return err == nil && len(r.Jobs) == 1
			})
		})
	}
	return func(promoted time.Time) {
		defer cancel()
		all.Wait()
		close(successes)
		for s := range successes {
			silent := s.at.Sub(promoted).Round(time.Millisecond)
			v.t.Logf("queue %s: first %s %v after the promotion", s.queue, s.what, silent)
			if silent > bound {
				v.t.Errorf("queue %s: first %s %v after the promotion, want at most %v", s.queue, s.what, silent, bound)
			}
		}
	}
}
