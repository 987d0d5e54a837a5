package faultproxy_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
)

func TestFaultsMeetTheCommandOnAnyNodeOfACluster(t *testing.T) {
	cluster := redistest.NewCluster(t, redistest.ClusterOptions{})
	p := faultproxy.New(t, cluster.Addrs()...)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), Dialer: p.Dial, MaxRetries: -1, MaxRedirects: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	ctx := t.Context()

	nodes := map[string]bool{}
	for i := range 16 {
		key := fmt.Sprintf("{p%d}:n", i)
		node, err := cluster.NodeOf(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		nodes[node.Addr()] = true
		f := p.SwallowNext(faultproxy.All(
			faultproxy.Script(key),
			func(cmd faultproxy.Command) bool { return cmd.Target == node.Addr() },
		))
		_ = incr.Eval(ctx, c, []string{key}).Err() // whether the client tries again is its own affair
		await(t, f)
		if n := counter(t, node, key); n < 1 {
			t.Errorf("%s: the script whose reply was swallowed did not run", key)
		}
	}
	if len(nodes) != 3 {
		t.Errorf("met on %v, want all 3 nodes", nodes)
	}

	gone := cluster.Nodes[0].Addr()
	p.Refuse(gone)
	p.Cut(gone)
	failed := 0
	for i := range 16 {
		if err := c.Get(ctx, fmt.Sprintf("{p%d}:n", i)).Err(); err != nil {
			failed++
		}
	}
	if failed == 0 || failed == 16 {
		t.Errorf("%d of 16 keys are out of reach, want those of one node", failed)
	}
}
