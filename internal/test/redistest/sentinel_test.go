package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
)

func TestSentinelFailsOverOnRequest(t *testing.T) {
	s := redistest.NewSentinel(t, redistest.SentinelOptions{})
	client := s.Client()
	setAndWait(t, client, "before", 1)

	master, err := s.Failover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if master != s.Nodes[1] {
		t.Fatalf("master is %s, want the former replica %s", master.Addr(), s.Nodes[1].Addr())
	}
	if n, err := client.Exists(t.Context(), "before").Result(); n != 1 || err != nil {
		t.Errorf("EXISTS = %d, %v, want 1: the replica had it", n, err)
	}
	// The former master refuses writes, as a replica does, so this one went to the new master.
	setAndWait(t, client, "after", 0)
}

func TestSentinelFailsOverWhenTheMasterDies(t *testing.T) {
	s := redistest.NewSentinel(t, redistest.SentinelOptions{
		MasterName: "jobs",
		Node:       redistest.Options{RequirePass: "secret"},
	})
	client := s.Client()
	setAndWait(t, client, "before", 1)

	old := s.Nodes[0]
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	master, err := s.AwaitFailover(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := master.Client().Exists(t.Context(), "before").Result(); n != 1 || err != nil {
		t.Errorf("EXISTS = %d, %v, want 1", n, err)
	}
}

// setAndWait sets key and waits until replicas of them have it. Around a failover a client that sends everything
// once gets errors, so the setting is tried until it succeeds.
func setAndWait(t *testing.T, client *redis.Client, key string, replicas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for client.Set(ctx, key, "v", 0).Err() != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("SET %s: %v", key, client.Set(t.Context(), key, "v", 0).Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if n, err := client.Wait(ctx, replicas, 5*time.Second).Result(); n < int64(replicas) || err != nil {
		t.Fatalf("WAIT = %d, %v, want %d", n, err, replicas)
	}
}
