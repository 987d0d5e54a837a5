package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func open(t *testing.T, o store.Options) (queue.Engine, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	engine, err := store.Open(ctx, o)
	if err == nil {
		t.Cleanup(func() {
			if err := engine.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
	return engine, err
}

// use puts a job through the door, to see that there is a store behind it.
func use(t *testing.T, engine queue.Engine) {
	t.Helper()
	spec := queue.Spec{Name: "email", Rate: leaky.PerSecond(14)}
	spec.Normalize()
	if _, err := engine.Put(t.Context(), spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	a, err := engine.Append(t.Context(), []queue.Job{{Queue: "email", ID: queue.NewID(), Payload: []byte("1")}})
	if err != nil || a[0].Outcome != queue.Accepted {
		t.Fatalf("%+v, %v", a, err)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	engine, err := open(t, store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	use(t, engine)
	_, err = open(t, store.Options{DataPath: dir})
	wantError(t, err, "--data "+dir, "held by another process")
	_, err = open(t, store.Options{DataPath: "/dev/null/x"})
	wantError(t, err, "--data /dev/null/x")
}

func TestRedis(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	_, err := open(t, store.Options{RedisURL: server.URL()})
	wantError(t, err, "--redis "+server.Addr(), "--init")
	engine, err := open(t, store.Options{RedisURL: server.URL(), Init: true, Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	use(t, engine)
	again, err := open(t, store.Options{RedisURL: server.URL() + "/0", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	use(t, again)
	_, err = open(t, store.Options{RedisURL: server.URL(), Partitions: 3})
	wantError(t, err, "--partitions 2")
	_, err = open(t, store.Options{RedisURL: server.URL(), Partitions: 5000})
	wantError(t, err, "partitions 5000")
	_, err = open(t, store.Options{RedisURL: "redis+cluster://" + server.Addr()})
	wantError(t, err, "instead of redis+cluster://")
}

func TestRedisThatWillNotDo(t *testing.T) {
	evicting := redistest.New(t, redistest.Options{MaxMemory: "64mb", MaxMemoryPolicy: "allkeys-lru"})
	_, err := open(t, store.Options{RedisURL: evicting.URL(), Init: true})
	wantError(t, err, "allkeys-lru", "noeviction")

	locked := redistest.New(t, redistest.Options{RequirePass: "s:cr@t"})
	_, err = open(t, store.Options{RedisURL: "redis://" + locked.Addr(), Init: true})
	wantError(t, err, "needs a password", "redis://:PASSWORD@")
	_, err = open(t, store.Options{RedisURL: "redis://:hunter2@" + locked.Addr(), Init: true})
	wantError(t, err, "password in --redis is wrong")
	if strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("the error shows the password: %v", err)
	}
	engine, err := open(t, store.Options{RedisURL: locked.URL(), Init: true})
	if err != nil {
		t.Fatal(err)
	}
	use(t, engine)

	gone := redistest.New(t, redistest.Options{})
	if err := gone.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, store.Options{RedisURL: gone.URL(), Init: true})
	wantError(t, err, "--redis "+gone.Addr(), queue.ErrUnavailable.Error())
}

func TestSentinelAndCluster(t *testing.T) {
	sentinel := redistest.NewSentinel(t, redistest.SentinelOptions{})
	url := "redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName
	engine, err := open(t, store.Options{RedisURL: url, Init: true})
	if err != nil {
		t.Fatal(err)
	}
	use(t, engine)

	cluster := redistest.NewCluster(t, redistest.ClusterOptions{})
	_, err = open(t, store.Options{RedisURL: "redis://" + cluster.Addrs()[0], Init: true})
	wantError(t, err, "redis+cluster://")
	engine, err = open(t, store.Options{RedisURL: "redis+cluster://" + strings.Join(cluster.Addrs(), ","), Init: true})
	if err != nil {
		t.Fatal(err)
	}
	use(t, engine)
	if err := engine.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNeitherOrBoth(t *testing.T) {
	_, err := open(t, store.Options{})
	wantError(t, err, "--redis is missing")
	_, err = open(t, store.Options{RedisURL: "redis://localhost", DataPath: t.TempDir()})
	wantError(t, err, "give only one")
}
