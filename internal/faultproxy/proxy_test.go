package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/penstock/penstock/internal/faultproxy"
	"github.com/penstock/penstock/internal/redistest"
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

func TestWithoutFaultsNothingChanges(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP %d", protocol), func(t *testing.T) {
			p := faultproxy.New(t, s.Addr())
			c := through(t, p, s, protocol)
			ctx := t.Context()

			big := bytes.Repeat([]byte("\x00\r\n\xff"), 1<<19)
			if err := c.Set(ctx, "big", big, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Get(ctx, "big").Bytes(); !bytes.Equal(got, big) || err != nil {
				t.Errorf("GET big: %d bytes, %v, want %d", len(got), err, len(big))
			}

			pipe := c.Pipeline()
			for i := range 2000 {
				pipe.Echo(ctx, i)
			}
			cmds, err := pipe.Exec(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i, cmd := range cmds {
				if got := cmd.(*redis.StringCmd).Val(); got != fmt.Sprint(i) {
					t.Fatalf("reply %d of a pipeline is %q", i, got)
				}
			}

			if err := c.HSet(ctx, "h", "f", "1", "g", "2").Err(); err != nil {
				t.Fatal(err)
			}
			cmds, err = c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
				tx.HGetAll(ctx, "h")
				tx.Get(ctx, "no such key")
				return nil
			})
			if got := cmds[0].(*redis.MapStringStringCmd).Val(); len(got) != 2 || !errors.Is(err, redis.Nil) {
				t.Errorf("HGETALL in MULTI = %v, %v", got, err)
			}
			if n, err := incr.Run(ctx, c, []string{fmt.Sprintf("n%d", protocol)}).Int(); n != 1 || err != nil {
				t.Errorf("script = %d, %v", n, err)
			}
		})
	}
}

func TestSubscriptionsDoNotShiftReplies(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP %d", protocol), func(t *testing.T) {
			p := faultproxy.New(t, s.Addr())
			c := through(t, p, s, protocol)
			ctx := t.Context()
			sub := c.Subscribe(ctx, "a", "b")
			defer func() { _ = sub.Close() }()
			for range 2 {
				if _, err := sub.Receive(ctx); err != nil {
					t.Fatal(err)
				}
			}
			pong := p.SwallowNext(faultproxy.Named("ping"))
			for i := range 3 {
				if err := s.Client().Publish(ctx, "b", i).Err(); err != nil {
					t.Fatal(err)
				}
				if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != fmt.Sprint(i) {
					t.Fatalf("message %d = %v, %v", i, m, err)
				}
			}
			if err := sub.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			await(t, pong)
		})
	}
}

func TestSwallowedReply(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()
	if err := incr.Load(ctx, c).Err(); err != nil {
		t.Fatal(err)
	}

	f := p.SwallowNext(faultproxy.Script(incr.Hash(), "jobs"))
	if err := incr.Run(ctx, c, []string{"others"}).Err(); err != nil {
		t.Errorf("a script that does not match: %v", err)
	}
	if err := incr.Run(ctx, c, []string{"jobs"}).Err(); err == nil {
		t.Error("no error though the reply was swallowed")
	}
	await(t, f)
	if n := counter(t, s, "jobs"); n != 1 {
		t.Errorf("the script ran %d times, want 1", n)
	}
	if n, err := incr.Run(ctx, c, []string{"jobs"}).Int(); n != 2 || err != nil {
		t.Errorf("the next run = %d, %v, want 2", n, err)
	}
	if f.Hits() != 1 {
		t.Errorf("Hits = %d, want 1", f.Hits())
	}
}

func TestAFaultThatCouldNotHappenHappensToTheNext(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()

	f := p.SwallowNext(faultproxy.Named("BLPOP"))
	blocked := make(chan error, 1)
	go func() { blocked <- c.BLPop(context.WithoutCancel(ctx), time.Minute, "list").Err() }()
	direct := s.Client()
	waitFor(t, func() bool {
		info, err := direct.Info(ctx, "clients").Result()
		return err == nil && strings.Contains(info, "blocked_clients:1")
	})
	p.Cut()
	if err := <-blocked; err == nil || f.Hits() != 0 {
		t.Errorf("cut before the reply: %v, %d hits, want an error and none", err, f.Hits())
	}
	if err := direct.LPush(ctx, "list", "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.BLPop(ctx, time.Minute, "list").Err(); err == nil {
		t.Error("the next reply was not swallowed")
	}
	await(t, f)
}

func TestSwallowedReplyInAPipeline(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())

	f := p.SwallowNext(faultproxy.Containing("middle"))
	conn := dial(t, p) // because go-redis passes off replies as lost that it did receive
	if _, err := io.WriteString(conn, "INCR first\r\nINCR middle\r\nINCR last\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != ":1\r\n" || err != nil {
		t.Errorf("got %q, %v, want the first reply and the end of the connection", got, err)
	}
	await(t, f)
	if n := counter(t, s, "middle"); n != 1 {
		t.Errorf("INCR middle happened %d times, want 1", n)
	}
}

func TestLostCommand(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()

	f := p.Inject(faultproxy.Fault{On: faultproxy.Named("INCR"), Do: faultproxy.LoseCommand, Times: 2})
	for range 2 {
		if err := c.Incr(ctx, "k").Err(); err == nil {
			t.Error("no error though the command was lost")
		}
	}
	await(t, f)
	if n, err := c.Incr(ctx, "k").Result(); n != 1 || err != nil {
		t.Errorf("the third INCR = %d, %v, want 1", n, err)
	}
}

func TestDelayedReplies(t *testing.T) {
	const by = 150 * time.Millisecond
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	f := p.Delay(faultproxy.Named("INCR"), by)
	if took := timed(t, func() error { return c.Get(ctx, "k").Err() }); took >= by {
		t.Errorf("GET, which does not match, took %v", took)
	}
	if took := timed(t, func() error { return c.Incr(ctx, "k").Err() }); took < by {
		t.Errorf("INCR took %v, want %v or more", took, by)
	}
	took := timed(t, func() error {
		_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 5 {
				pipe.Incr(ctx, "k")
			}
			return nil
		})
		return err
	})
	if took < by || took >= 3*by {
		t.Errorf("5 INCR in a pipeline took %v, want one delay of %v", took, by)
	}
	if f.Hits() != 6 {
		t.Errorf("Hits = %d, want 6", f.Hits())
	}
	f.Remove()
	f.Remove()
	if took := timed(t, func() error { return c.Incr(ctx, "k").Err() }); took >= by {
		t.Errorf("INCR after Remove took %v", took)
	}
}

func TestRemoveReleasesWhatIsHeldBack(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)

	f := p.Inject(faultproxy.Fault{On: faultproxy.Named("INCR"), Do: faultproxy.DelayReply, By: time.Hour, Times: 1})
	result := make(chan error, 1)
	go func() { result <- c.Incr(context.WithoutCancel(t.Context()), "k").Err() }()
	await(t, f)
	p.Clear()
	if err := <-result; err != nil {
		t.Errorf("INCR: %v", err)
	}
}

func TestCutAndRefuse(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()

	blocked := make(chan error, 1)
	began := p.Inject(faultproxy.Fault{On: faultproxy.Named("INCR"), Do: faultproxy.DelayReply, By: time.Hour, Times: 1})
	go func() { blocked <- c.Incr(context.WithoutCancel(ctx), "k").Err() }()
	await(t, began)

	p.Refuse()
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	if err := <-blocked; err == nil {
		t.Error("no error from the call whose connection was cut")
	}
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("PING succeeded though connections are refused")
	}
	p.Admit()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("PING after Admit: %v", err)
	}
}

func TestRedisRestartsBehindTheProxy(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("PING succeeded though Redis is dead")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("PING after the restart: %v", err)
	}
}

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

func TestCloseReportsWhatItDidNotUnderstand(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p, err := faultproxy.Start(t.Context(), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, p)
	if _, err := io.WriteString(conn, "*1\r\n+PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
	if err := p.Close(); err == nil {
		t.Error("Close reports nothing")
	}
	if _, err := faultproxy.Start(t.Context()); err == nil {
		t.Error("a proxy without target started")
	}
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
