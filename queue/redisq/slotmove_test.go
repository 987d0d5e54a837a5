package redisq_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// slotMove is a slot of a cluster on its way from one node to another.
type slotMove struct {
	t        *testing.T
	cluster  *redistest.Cluster
	slot     int64
	from, to *redistest.Server
}

func (m *slotMove) do(s *redistest.Server, args ...any) any {
	m.t.Helper()
	v, err := s.Client().Do(m.t.Context(), args...).Result()
	if err != nil {
		m.t.Fatalf("%v at %s: %v", args, s.Addr(), err)
	}
	return v
}

// begin lets the slot go, and returns its keys, which are all still there.
func (m *slotMove) begin() (keys []string) {
	m.t.Helper()
	m.do(m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.do(m.from, "CLUSTER", "MYID"))
	m.do(m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.do(m.to, "CLUSTER", "MYID"))
	for _, key := range m.do(m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, 1_000_000).([]any) {
		keys = append(keys, key.(string))
	}
	return keys
}

func (m *slotMove) move(keys []string) {
	m.t.Helper()
	host, port, err := net.SplitHostPort(m.to.Addr())
	if err != nil {
		m.t.Fatal(err)
	}
	c := m.from.Client()
	for _, key := range keys {
		if err := c.Migrate(m.t.Context(), host, port, key, 0, 10*time.Second).Err(); err != nil {
			m.t.Fatalf("migrate %s: %v", key, err)
		}
	}
}

// end gives the slot to its new node.
func (m *slotMove) end() {
	m.t.Helper()
	if left := m.do(m.from, "CLUSTER", "COUNTKEYSINSLOT", m.slot); left != int64(0) {
		m.t.Errorf("%v keys were left behind", left)
	}
	id := m.do(m.to, "CLUSTER", "MYID")
	m.do(m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.do(m.from, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	for _, s := range m.cluster.Nodes {
		m.do(s, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	}
}

// askedMeanwhile is every operation that needs a whole partition.
func askedMeanwhile(v *env, name string, held queue.Reservation) map[string]func() error {
	lease := queue.Lease{Queue: name, ID: held.ID, Fence: held.Fence}
	request := v.request(name)
	return map[string]func() error{
		"append":  func() error { _, err := v.e.Append(v.ctx, []queue.Job{job(name, 7777)}); return err },
		"reserve": func() error { _, err := v.e.Reserve(v.ctx, request); return err },
		"settle": func() error {
			_, err := v.e.Settle(v.ctx, []queue.Settlement{{Lease: lease, Verdict: queue.Deliver}})
			return err
		},
		"extend": func() error { _, err := v.e.Extend(v.ctx, []queue.Lease{lease}); return err },
		"put": func() error {
			_, err := v.e.Put(v.ctx, queue.Spec{Name: name, Rate: leaky.PerSecond(1)}, queue.AnyRevision)
			return err
		},
		"offer": func() error { _, err := v.e.Offer(v.ctx, []queue.Job{job(name, 7777)}); return err },
		"readmit": func() error {
			_, err := v.e.Readmit(v.ctx,
				queue.ReadmitRequest{Queue: name, Holder: "h"})
			return err
		},
		"announce":   func() error { return v.e.Announce(v.ctx, name) },
		"backlogged": func() error { _, err := v.e.Backlogged(v.ctx, 10); return err },
		"withdraw": func() error {
			_, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{Queue: name, ID: held.ID, Ticket: "1.1"}})
			return err
		},
		"cancel": func() error { _, err := v.e.Cancel(v.ctx, name, held.ID); return err },
		"delete": func() error { return v.e.Delete(v.ctx, name, queue.AnyRevision, true) },
		"pause":  func() error { return v.e.Pause(v.ctx, name, queue.Pause{}) },
		"get":    func() error { _, err := v.e.Get(v.ctx, name); return err },
		"job":    func() error { _, err := v.e.Job(v.ctx, name, held.ID); return err },
		"totals": func() error { _, err := v.e.Totals(v.ctx); return err },
		"sweep":  func() error { _, err := v.e.Sweep(v.ctx, v.e.Partition(name)); return err },
	}
}

// leaveGarbage returns keys that are to be swept.
func leaveGarbage(v *env, c *redis.ClusterClient, hash, name string) (keys []string) {
	v.t.Helper()
	v.put(name, leaky.Unlimited, nil)
	if err := v.e.Pause(v.ctx, name, queue.Pause{Reason: "or somebody would take its jobs"}); err != nil {
		v.t.Fatal(err)
	}
	v.append(job(name, 1), job(name, 2))
	number, err := c.HGet(v.ctx, hash+"n", name).Result()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.e.Delete(v.ctx, name, queue.AnyRevision, true); err != nil {
		v.t.Fatal(err)
	}
	for _, id := range []string{"job-0001", "job-0002"} {
		keys = append(keys, hash+"j"+number+":"+id)
	}
	return keys
}

// A partition's slot moves from node to node of a real cluster, key by key, under load. While
// some of its keys are away nothing of it is answered or changed; then everything goes on.
func TestSlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.ClusterOptions{})
	client := cluster.Client()
	v := open(t, client, redisq.Options{Init: true, Partitions: 8})
	moving, other := "email", ""
	for i := 0; other == ""; i++ {
		if name := fmt.Sprint("sms", i); v.e.Partition(name) != v.e.Partition(moving) {
			other = name
		}
	}
	for _, name := range []string{moving, other} {
		v.put(name, leaky.Unlimited, func(s *queue.Spec) { s.Capacity, s.Lease = 200, unit.Duration(10*time.Minute) })
	}
	hash := fmt.Sprintf("ps{%d}", v.e.Partition(moving))
	source, err := cluster.NodeOf(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(cluster.Nodes, source)
	m := &slotMove{t: t, cluster: cluster, slot: source.Client().ClusterKeySlot(t.Context(), hash).Val(), to: source}
	own, others := newLoad(t, v.e, moving), newLoad(t, v.e, other)
	rnd := rand.New(rand.NewPCG(1, 2))
	for round, c := range []struct {
		name  string
		order func(keys []string)
	}{
		{"the partition's hash last", func([]string) {}},
		{"the partition's hash first", func(keys []string) { slices.Reverse(keys) }},
		{"in no order", func(keys []string) {
			rnd.Shuffle(len(keys),
				func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
		}},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			v.t, m.t = t, t
			own.goesOn(t, "before", 100)
			garbage := leaveGarbage(v, client, hash, moving+".gone")
			held := own.hold(v)
			m.from, m.to = m.to, cluster.Nodes[(at+round+1)%len(cluster.Nodes)]

			keys := m.begin()
			slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) }) // the shortest is the hash
			c.order(keys)
			half := len(keys) / 2
			m.move(keys[:half])
			var asked sync.WaitGroup
			for op, ask := range askedMeanwhile(v, moving, held) {
				asked.Go(func() {
					if err := ask(); !errors.Is(err, queue.ErrUnavailable) {
						t.Errorf("%s while %d of %d keys are away: %v, want unavailable", op, half, len(keys), err)
					}
				})
			}
			asked.Wait()
			others.goesOn(t, "meanwhile", 100)
			m.move(keys[half:])
			m.end()
			own.goesOn(t, "afterwards", 100)
			if out := v.settle(deliver(held)...); out[0].State != queue.Delivered {
				t.Errorf("a lease from before the move: %+v", out)
			}
			own.delivered.Add(1)
			for more := true; more; {
				if more, err = v.e.Sweep(v.ctx, v.e.Partition(moving)); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range garbage {
				if n, err := client.Exists(v.ctx, key).Result(); err != nil || n != 0 {
					t.Errorf("%s was not swept: %v", key, err)
				}
			}
		})
		if !ok { // the slot may be anywhere
			return
		}
	}
	own.account()
	others.account()
}
