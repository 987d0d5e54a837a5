package faultproxy_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
)

var incr = redis.NewScript(`return redis.call('INCR', KEYS[1])`)

// through is a client that reaches the server through the proxy, and sends everything once.
func through(t *testing.T, p *faultproxy.Proxy, s *redistest.Server, protocol int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Dialer: p.Dial, Protocol: protocol, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// counter reads what the scripts of a test left, past the proxy.
func counter(t *testing.T, s *redistest.Server, key string) int {
	t.Helper()
	n, err := s.Client().Get(t.Context(), key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

// dial is a connection through the proxy without a client library's own ideas.
func dial(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	conn, err := p.Dial(t.Context(), "tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func await(t *testing.T, f *faultproxy.Injected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.Await(ctx); err != nil {
		t.Fatal(err)
	}
}

// waitFor polls a condition that Redis has no way to announce.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited 10 s in vain")
		}
	}
}

func timed(t *testing.T, do func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := do(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return time.Since(begin)
}
