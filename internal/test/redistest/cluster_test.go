package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
)

func TestCluster(t *testing.T) {
	c := redistest.NewCluster(t, redistest.ClusterOptions{NodeTimeout: 2 * time.Second})
	client := c.Client()

	held := map[string]int{}
	for i := range 64 {
		key := fmt.Sprintf("{p%d}:k", i)
		if err := client.Set(t.Context(), key, i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		node, err := c.NodeOf(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		// Asked directly, a node answers only for slots of its own.
		if got, err := node.Client().Get(t.Context(), key).Int(); got != i || err != nil {
			t.Errorf("GET %s at %s = %d, %v", key, node.Addr(), got, err)
		}
		held[node.Addr()]++
	}
	if len(held) != 3 {
		t.Errorf("keys lie on %v, want on 3 nodes", held)
	}
}

func TestClusterComesBackAfterANodeRestarts(t *testing.T) {
	c := redistest.NewCluster(t, redistest.ClusterOptions{
		NodeTimeout: time.Second,
		Node:        redistest.Options{AppendFsync: "always", RequirePass: "secret"},
	})
	client := c.Client()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	node, err := c.NodeOf(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("GET = %q, %v, want v", got, err)
	}
}

func TestClusterPromotesTheReplicaOfADeadMaster(t *testing.T) {
	c := redistest.NewCluster(t, redistest.ClusterOptions{
		Replicas: true, NodeTimeout: 2 * time.Second, Node: redistest.Options{RequirePass: "secret"},
	})
	if n := len(c.Nodes); n != 6 {
		t.Fatalf("%d nodes, want 3 masters and 3 replicas", n)
	}
	master, err := c.NodeOf(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	conn := master.Client().Conn() // WAIT waits for the writes of its own connection
	if err := conn.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, redistest.Patience).Result(); n != 1 || err != nil {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	promoted, err := c.AwaitPromotion(t.Context(), master)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := promoted.Client().Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("GET = %q, %v, want v", got, err)
	}
	if _, err := c.AwaitPromotion(t.Context(), promoted); err == nil {
		t.Error("a replica has a replica")
	}
}

func TestClusterOfTwoIsNone(t *testing.T) {
	if _, err := redistest.StartCluster(t.Context(), redistest.ClusterOptions{Masters: 2}); err == nil {
		t.Error("a cluster of 2 masters started")
	}
}
