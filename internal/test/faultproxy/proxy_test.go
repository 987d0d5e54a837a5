package faultproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
)

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
