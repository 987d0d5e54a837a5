package faultproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
)

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
