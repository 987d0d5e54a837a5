package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Servers and stores that Open refuses, and what it says of them.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	made := func(t *testing.T) *redistest.Server {
		s := redistest.New(t, redistest.Options{})
		open(t, s.Client(), redisq.Options{Init: true})
		return s
	}
	for _, c := range []struct {
		name    string
		server  func(*testing.T) redis.UniversalClient
		options redisq.Options
		is      error
		says    []string
	}{
		{
			"empty, init not asked for", func(t *testing.T) redis.UniversalClient {
				return redistest.New(t,
					redistest.Options{}).Client()
			},
			redisq.Options{},
			queue.ErrNoStore,
			[]string{"--init"},
		},
		{"evicts keys", func(t *testing.T) redis.UniversalClient {
			return redistest.New(t, redistest.Options{MaxMemory: "64mb", MaxMemoryPolicy: "allkeys-lru"}).Client()
		}, redisq.Options{Init: true}, nil, []string{"allkeys-lru", "noeviction"}},
		{"password missing", func(t *testing.T) redis.UniversalClient {
			s := redistest.New(t, redistest.Options{RequirePass: "sesame"})
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}, redisq.Options{Init: true}, queue.ErrUnavailable, []string{"password"}},
		{
			"other partition count", func(t *testing.T) redis.UniversalClient { return made(t).Client() },
			redisq.Options{Partitions: 8, Init: true},
			queue.ErrNoStore,
			[]string{"16", "8", "--partitions 16"},
		},
		{"newer schema", func(t *testing.T) redis.UniversalClient {
			c := made(t).Client()
			c.HSet(ctx, "ps{3}", "schema", redisq.Schema+1)
			return c
		}, redisq.Options{Init: true}, queue.ErrNoStore, []string{
			fmt.Sprint("schema ", redisq.Schema+1),
			"newer penstock",
		}},
		{"older schema", func(t *testing.T) redis.UniversalClient {
			c := made(t).Client()
			c.HSet(ctx, "ps{3}", "schema", redisq.Schema-1)
			return c
		}, redisq.Options{Init: true}, queue.ErrNoStore, []string{
			fmt.Sprint("schema ", redisq.Schema-1),
			fmt.Sprint("needs ", redisq.Schema),
		}},
		{"one partition gone, init or not", func(t *testing.T) redis.UniversalClient {
			c := made(t).Client()
			c.Del(ctx, "ps{3}")
			return c
		}, redisq.Options{Init: true}, queue.ErrNoStore, []string{"ps{3}", "restore"}},
		{"partitions of two stores", func(t *testing.T) redis.UniversalClient {
			c := made(t).Client()
			c.HSet(ctx, "ps{3}", "store", "another")
			return c
		}, redisq.Options{Init: true}, queue.ErrNoStore, []string{"two stores"}},
		{
			"impossible partition count", func(t *testing.T) redis.UniversalClient { return made(t).Client() },
			redisq.Options{Partitions: -1},
			nil,
			[]string{"-1"},
		},
		{
			"impossible prefix", func(t *testing.T) redis.UniversalClient { return made(t).Client() },
			redisq.Options{Prefix: "a{b"},
			nil,
			[]string{"prefix"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := c.server(t)
			before, _ := client.Keys(ctx, "*").Result()
			e, err := redisq.OpenClient(ctx, client, c.options)
			if err == nil {
				_ = e.Close()
				t.Fatal("opened")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v: want it to wrap %v", err, c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if after, _ := client.Keys(ctx, "*").Result(); len(after) != len(before) {
				t.Errorf("a refused Open left %d keys, there were %d", len(after), len(before))
			}
		})
	}
}

func TestTwoStoresOnOneServer(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	a := open(t, s.Client(), redisq.Options{Init: true, Prefix: "a"})
	b := open(t, s.Client(), redisq.Options{Init: true, Prefix: "b", Partitions: 3})
	a.put("email", leaky.Unlimited, nil)
	a.append(job("email", 1))
	if _, err := b.e.Get(b.ctx, "email"); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("the other store: %v", err)
	}
}

// Several processes that are told to make the store at the same time make one.
func TestOpenMakesOneStore(t *testing.T) {
	for range 5 {
		s := redistest.New(t, redistest.Options{})
		var opening sync.WaitGroup
		for range 8 {
			c := s.Client()
			opening.Go(func() {
				e, err := redisq.OpenClient(t.Context(), c, redisq.Options{Init: true, Patience: redistest.Patience})
				if err != nil {
					t.Error(err)
					return
				}
				defer e.Close()
				if err := e.Check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
	}
}
