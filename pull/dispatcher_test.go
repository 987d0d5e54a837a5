package pull_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

func TestWorkersGetTheWholeJob(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	_, err := b.engine.Append(b.ctx, []queue.Job{
		{
			Queue: "q", ID: "a", Payload: []byte(`{"n": 12345678901234567890, "n": []}`),
			Headers: map[string]string{"X-A": "1", "X-B": "2"}, Cost: 3, Lane: "l<", Priority: 7,
		},
		{Queue: "q", ID: "b", Payload: []byte("\xff\n"), ContentType: "text/plain"},
		{Queue: "q", ID: "c", Payload: []byte("not JSON")},
		{Queue: "q", ID: "d", Payload: []byte(`"x"`), ContentType: "application/cloudevents+json; charset=utf-8"},
	})
	b.check(err)
	h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 9})
	b.check(err)
	h.End(true)
	byID := map[string]told{}
	for _, j := range b.read(h) {
		byID[j.ID] = j
		if fence, attempt, ok := pull.ParseToken(j.Lease); !ok || attempt != 1 || fence == "" {
			t.Errorf("the lease %q", j.Lease)
		}
		if j.ExpiresInMS <= 29_000 || j.ExpiresInMS > 30_000 || time.Until(j.ExpiresAt) > 30*time.Second ||
			j.AppendedAt.UnixMicro() != int64(b.clock()) || j.Attempt != 1 {
			t.Errorf("got %+v", j)
		}
	}
	a := byID["a"]
	if string(a.Payload) != `{"n": 12345678901234567890, "n": []}` || a.Headers["X-B"] != "2" || a.Cost != 3 ||
		a.Lane != "l<" || a.Priority != 7 || a.ContentType != "application/json" {
		t.Errorf("got %+v", a)
	}
	if v := byID["b"]; v.PayloadBase64 != "/wo=" || v.Payload != nil || v.ContentType != "text/plain" || v.Cost != 1 {
		t.Errorf("got %+v", v)
	}
	if v := byID["c"]; v.PayloadBase64 != "bm90IEpTT04=" {
		t.Errorf("got %+v", v)
	}
	if v := byID["d"]; string(v.Payload) != `"x"` {
		t.Errorf("got %+v", v)
	}
	for _, token := range []string{"", "1", "1-", "-x", "0-x", "x-x", "-1-x"} {
		if _, _, ok := pull.ParseToken(token); ok {
			t.Errorf("%q is accepted as a lease", token)
		}
	}
}

func TestNothingToTake(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "1/h")
	b.take("q", 9, 0)
	b.append("q", "a", "b")
	b.take("q", 9, 0, "a")
	b.take("q", 9, 20*time.Millisecond)
	if _, err := b.dispatcher.Lease(b.ctx, pull.Request{
		Queue: "nobody", Max: 1, Wait: time.Hour,
	}); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("an unknown queue: %v", err)
	}
	b.put("plain", "1/s", func(s *queue.Spec) { s.Pull = false })
	var field *invalid.Error
	if _, err := b.dispatcher.Lease(b.ctx, pull.Request{
		Queue: "plain", Max: 1, Wait: time.Hour,
	}); !errors.As(err, &field) || field.Field != "queue" {
		t.Errorf("not a pull queue: %v", err)
	}
	b.put("plain", "unlimited")
	b.append("plain", "x")
	b.take("plain", 1, time.Minute, "x") // the next request starts anew
}

// patient answers that nothing will be due for an hour, so only a wake-up helps.
type patient struct{ pull.Engine }

func (p patient) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := p.Engine.Reserve(ctx, r)
	if len(res.Jobs) == 0 {
		res.Next = time.Hour
	}
	return res, err
}

func TestAnAppendReachesAWaitingRequest(t *testing.T) {
	asked, listens := make(chan struct{}, 100), make(chan struct{})
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return noted{patient{e}, asked, listens} })
	b.put("q", "unlimited")
	got := make(chan []told, 1)
	go func() { got <- b.take("q", 1, time.Hour, "a") }()
	<-asked // and found nothing
	<-listens
	b.append("q", "a")
	<-got
}

// noted reports when the engine has answered, and when the dispatcher listens for wakeups.
type noted struct {
	pull.Engine
	asked, listens chan struct{}
}

func (e noted) Wake(ctx context.Context) <-chan queue.Wakeup {
	defer close(e.listens)
	return e.Engine.Wake(ctx)
}

func (e noted) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := e.Engine.Reserve(ctx, r)
	e.asked <- struct{}{}
	return res, err
}

func TestOneJobForTwo(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	got := make(chan int, 2)
	for range 2 {
		go func() {
			h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 5, Wait: time.Hour})
			if err != nil {
				t.Error(err)
			}
			h.End(true)
			got <- h.Jobs()
		}()
	}
	b.counts.await(func() bool { return b.counts.waiting == 2 })
	b.append("q", "a")
	if n := <-got; n != 1 {
		t.Errorf("the first got %d", n)
	}
	b.stop()
	if n := <-got; n != 0 {
		t.Errorf("the second got %d", n)
	}
}

// The timeline of a job shows which worker had it.
func TestWorkersName(t *testing.T) {
	b := start(t, pull.Options{Name: "ingress"}, nil)
	b.put("q", "unlimited")
	b.append("q", "a", "b", "c")
	for _, worker := range []string{"one", "two", ""} {
		h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 1, Worker: worker})
		b.check(err)
		h.End(true)
		j := b.read(h)[0]
		fence, _, _ := pull.ParseToken(j.Lease)
		_, err = b.engine.Settle(b.ctx, []queue.Settlement{{
			Lease: queue.Lease{Queue: "q", ID: j.ID, Fence: fence}, Verdict: queue.Bury,
		}})
		b.check(err)
		if worker == "" {
			worker = "ingress"
		}
		if i := b.state(queue.Dead, "q", j.ID); len(i.Timeline) != 1 || i.Timeline[0].Drainer != worker {
			t.Errorf("%s was with %s: %+v", j.ID, worker, i.Timeline)
		}
	}
}

func TestServedInOrder(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	const n = 5
	var order [n]chan string
	for i := range n {
		order[i] = make(chan string, 1)
		go func() {
			h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 1, Wait: time.Hour})
			if err != nil {
				t.Error(err)
				return
			}
			h.End(true)
			order[i] <- b.read(h)[0].ID
		}()
		b.counts.await(func() bool { return b.counts.waiting == i+1 })
	}
	b.append("q", "0", "1", "2", "3", "4")
	for i := range n {
		if id := <-order[i]; id != fmt.Sprint(i) {
			t.Errorf("request %d got %s", i, id)
		}
	}
}

// If an answer cannot be written, its jobs are released: they keep their turns and spend no attempt.
func TestGone(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	b.append("q", "a")
	h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 1})
	b.check(err)
	b.state(queue.Leased, "q", "a")
	h.End(false)
	if i := b.state(queue.Waiting, "q", "a"); i.Attempts != 0 {
		t.Errorf("got %+v", i)
	}
	gone, leave := context.WithCancel(b.ctx)
	leave()
	if _, err := b.dispatcher.Lease(gone, pull.Request{
		Queue: "q", Max: 1, Wait: time.Hour,
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.take("q", 1, time.Hour, "a")
}

// A client that leaves while it waits leaves its job to the next.
func TestGoneWhileWaiting(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	ctx, leave := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := b.dispatcher.Lease(ctx, pull.Request{Queue: "q", Max: 1, Wait: time.Hour})
		ended <- err
	}()
	b.counts.await(func() bool { return b.counts.waiting == 1 })
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.append("q", "a")
	b.take("q", 1, time.Hour, "a")
}

// A waiting request is answered when the dispatcher stops, and its granted jobs are released.
func TestStop(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return slow{e, held, hold} })
	b.put("q", "unlimited")
	b.append("q", "a")
	got := make(chan int, 1)
	go func() {
		h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 1, Wait: time.Hour})
		if err != nil {
			t.Error(err)
		}
		got <- h.Jobs()
	}()
	<-held // granted, and the answer is on its way
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.stop() }()
	if n := <-got; n != 0 {
		t.Errorf("%d jobs", n)
	}
	close(hold)
	<-stopped
	if i := b.state(queue.Waiting, "q", "a"); i.Attempts != 0 {
		t.Errorf("got %+v", i)
	}
	h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: "q", Max: 1, Wait: time.Hour})
	if err != nil || h.Jobs() != 0 {
		t.Errorf("after the stop: %v", err)
	}
}

func TestBounds(t *testing.T) {
	b := start(t, pull.Options{MaxWaiting: 3, MaxQueue: 2}, nil)
	b.put("q", "unlimited")
	b.put("r", "unlimited")
	var all sync.WaitGroup
	wait := func(name string) {
		all.Go(func() { b.take(name, 1, time.Hour) })
	}
	refused := func(want error, name string) {
		t.Helper()
		if _, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: name, Max: 1, Wait: time.Hour}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	wait("q")
	wait("q")
	b.counts.await(func() bool { return b.counts.waiting == 2 })
	refused(pull.ErrCrowded, "q")
	wait("r")
	b.counts.await(func() bool { return b.counts.waiting == 3 })
	refused(pull.ErrOverloaded, "r")
	b.stop()
	all.Wait()
	if b.counts.waiting != 0 {
		t.Errorf("%d wait", b.counts.waiting)
	}
}

// If a worker never settles, its leases run out, and the last attempt ends the job.
func TestNeverSettled(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 3 })
	b.append("q", "a")
	for attempt := 1; attempt <= 3; attempt++ {
		if j := b.take("q", 1, 0, "a"); j[0].Attempt != attempt {
			t.Errorf("attempt %d, want %d", j[0].Attempt, attempt)
		}
		b.take("q", 1, 0)
		b.advance(queue.DefaultLease + time.Second)
	}
	b.take("q", 1, 0)
	b.state(queue.Dead, "q", "a")
}
