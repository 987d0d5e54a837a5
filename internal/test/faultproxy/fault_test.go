package faultproxy_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
)

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

func TestAScriptThatRedisDoesNotKnowYetMeetsTheFaultWhenItRuns(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)

	f := p.SwallowNext(faultproxy.Script("jobs"))
	if err := incr.Run(t.Context(), c, []string{"jobs"}).Err(); err == nil {
		t.Error("no error though the reply was swallowed")
	}
	await(t, f)
	if n := counter(t, s, "jobs"); n != 1 {
		t.Errorf("the script ran %d times, want 1", n)
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
	const by = 300 * time.Millisecond // so that twice as much is time enough for a busy machine
	s := redistest.New(t, redistest.Options{})
	p := faultproxy.New(t, s.Addr())
	c := through(t, p, s, 3)
	ctx := t.Context()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	f := p.Delay(faultproxy.Named("INCR"), by)
	timed(t, func() error { return c.Get(ctx, "k").Err() })
	if f.Hits() != 0 {
		t.Error("GET, which does not match, was delayed")
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
	timed(t, func() error { return c.Incr(ctx, "k").Err() })
	if f.Hits() != 6 {
		t.Error("INCR after Remove was delayed")
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
