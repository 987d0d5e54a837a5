package api_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// leaving is an engine that cannot be reached for a while: first to change something,
// and then for nothing at all.
type leaving struct {
	queue.Engine
	away, gone atomic.Bool
}

func (l *leaving) err() error {
	if l.away.Load() || l.gone.Load() {
		return fmt.Errorf("redis 10.0.0.1: %w", queue.ErrUnavailable)
	}
	return nil
}

func (l *leaving) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Engine.Append(ctx, jobs)
}

func (l *leaving) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Engine.Offer(ctx, jobs)
}

func (l *leaving) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	if err := l.err(); err != nil {
		return queue.Readmitted{}, err
	}
	return l.Engine.Readmit(ctx, r)
}

func (l *leaving) Get(ctx context.Context, name string) (queue.Info, error) {
	if l.gone.Load() {
		return queue.Info{}, l.err()
	}
	return l.Engine.Get(ctx, name)
}

func (l *leaving) Check(ctx context.Context) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Engine.Check(ctx)
}

// overflowing is the API over a real engine and a real overflow, without a way back.
type overflowing struct {
	*fixture
	store *leaving
	nats  *natsserver.Server
}

func serveOverflowing(t *testing.T) *overflowing {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := s.Connect(nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	stream, err := deferred.NewStream(nc, deferred.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	bolt, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bolt.Close() })
	store := &leaving{Engine: bolt}
	appender := deferred.New(store, stream, nil)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- ops.RunOver(ctx, appender.Run, stream.Run) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	drainer := queue.ReserveRequest{Client: queue.Client{ID: "drainer"}, Number: 1} // it takes nothing, and is there
	if _, err := bolt.Reserve(t.Context(), drainer); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t}
	f.serveOver(takenBy{store, appender}, api.Options{Overflow: true, OverflowState: stream})
	return &overflowing{fixture: f, store: store, nats: s}
}

func (o *overflowing) post(id, more string) *answer {
	o.t.Helper()
	return o.do("POST", jobs, `{"payload":"`+id+`","id":"`+id+`"`+more+`}`)
}

// A job that may wait is deferred, and can be looked at and taken back like any other.
func TestDeferredJobs(t *testing.T) {
	o := serveOverflowing(t)
	o.do(
		"PUT", email, `{"rate":"1/h","capacity":2,"overflow":"defer","deferred":{"max_jobs":3}}`,
	).want(t, 201, "overflow", "defer")
	o.post("a", "").want(t, 202, "state", "waiting", "position", 1)
	o.post("b", "").want(t, 202, "state", "waiting", "position", 2)
	before := time.Now()
	for i, id := range []string{"c", "d"} {
		a := o.post(id, "")
		a.want(t, 202, "id", id, "state", "deferred", "position", 3+i)
		if eta, _ := a.body["eta"].(map[string]any); eta["exact"] != false || eta["at"] == nil {
			t.Errorf("eta %v", eta)
		}
	}
	a := o.post("c", "")
	a.want(t, 200, "state", "deferred", "position", nil)
	if a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("headers %v", a.header)
	}
	o.do("POST", jobs, `{"payload":"another","id":"c"}`).want(t, 409, "reason", "conflict")
	o.post("r", `,"overflow":"reject"`).want(t, 429, "reason", "full")
	feed, lines, _ := o.open(jobs)
	say(t, feed, `{"payload":"e","id":"e","overflow":"defer"}`+"\n")
	wantLine(t, line(t, lines), "line", 1, "status", 202, "state", "deferred", "position", 5)
	full := o.post("f", "")
	if full.want(t, 429, "reason", "overflow_full", "id", "f"); full.header.Get("Retry-After") == "" ||
		full.body["retry_after_ms"].(float64) < 1000 {
		t.Errorf("the promise is %s", full.text)
	}
	o.post("late", `,"expires_at":"2020-01-01T00:00:00Z"`).want(
		t, 422, "reason", "expired", "field", "expires_at", "id", "late",
	)

	c := o.do("GET", jobs+"/c", "")
	c.want(t, 200, "state", "deferred", "position", 3, "attempts", 0, "cost", 1)
	at, err := time.Parse(time.RFC3339, fmt.Sprint(c.body["appended_at"]))
	if err != nil || at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) || c.body["eta"] == nil {
		t.Errorf("deferred at %v, %v: %s", at, err, c.text)
	}
	stats := func(want map[string]any) {
		t.Helper()
		got := o.do("GET", email, "").body["stats"].(map[string]any)
		listed := o.do("GET", "/v1/queues", "").body["queues"].([]any)[0].(map[string]any)["stats"].(map[string]any)
		for name, n := range want {
			if fmt.Sprint(got[name]) != fmt.Sprint(n) || fmt.Sprint(listed[name]) != fmt.Sprint(n) {
				t.Errorf("%s is %v, listed as %v, want %v", name, got[name], listed[name], n)
			}
		}
	}
	stats(map[string]any{
		"waiting": 2, "deferred": 3, "appended": 2, "set_aside": 3, "returned": 0, "missing": 0, "cancelled": 0, "expired": 0,
		"refused": 2,
	})

	for range 2 {
		o.do("POST", jobs+"/d/cancel", "").want(t, 200, "id", "d", "state", "cancelled")
	}
	o.do("POST", jobs+"/b/cancel", "").want(t, 200, "id", "b", "state", "cancelled")
	o.do("GET", jobs+"/d", "").want(t, 200, "state", "cancelled", "position", nil, "eta", nil)
	o.do("GET", jobs+"/b", "").want(t, 200, "state", "cancelled", "position", nil)
	o.post("d", "").want(t, 200, "state", "cancelled")
	o.do("POST", jobs+"/none/cancel", "").want(t, 404, "reason", "unknown_job")
	stats(map[string]any{"waiting": 1, "deferred": 2, "cancelled": 2})
	o.do("DELETE", email, "").want(t, 409, "reason", "not_empty")

	// A leased job, and one that has ended.
	got, err := o.store.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "x"}, Number: 1, Max: 1})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	o.do("POST", jobs+"/a/cancel", "").want(t, 409, "reason", "not_cancellable", "state", "leased")
	if _, err := o.store.Settle(t.Context(), []queue.Settlement{{
		Lease: queue.Lease{Queue: "email", ID: "a", Fence: got.Jobs[0].Fence}, Verdict: queue.Deliver,
	}}); err != nil {
		t.Fatal(err)
	}
	o.do("POST", jobs+"/a/cancel", "").want(t, 409, "reason", "not_cancellable", "state", "delivered")
	_ = feed.Close()
}

// A job that expires while it waits ends so.
func TestExpiredJob(t *testing.T) {
	o := serveOverflowing(t)
	o.do("PUT", email, `{"rate":"1000/s"}`).want(t, 201)
	at := time.Now().Add(2 * time.Second)
	o.do("POST", email+"/pause", "").want(t, 200)
	o.post("a", `,"expires_at":"`+at.Format(time.RFC3339Nano)+`"`).want(t, 202, "state", "waiting")
	poll(t, func() bool { return time.Now().After(at) })
	o.do("POST", email+"/resume", "").want(t, 200)
	for number := uint64(1); o.do("GET", jobs+"/a", "").body["state"] == "waiting"; number++ {
		got, err := o.store.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "x"}, Number: number, Max: 1})
		if err != nil || len(got.Jobs) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	a := o.do("GET", jobs+"/a", "")
	if a.want(t, 200, "state", "expired", "position", nil); a.body["ended_at"] == nil {
		t.Error(a.text)
	}
	o.do("POST", jobs+"/a/cancel", "").want(t, 409, "state", "expired")
}

// While NATS is away, what needs it is told so, and what does not is untouched.
func TestOverflowAway(t *testing.T) {
	o := serveOverflowing(t)
	o.do("PUT", email, `{"rate":"1/h","capacity":1,"overflow":"defer"}`).want(t, 201)
	o.do("PUT", "/v1/queues/sms", `{"rate":"1/h"}`).want(t, 201)
	o.post("a", "").want(t, 202, "state", "waiting")
	o.do("GET", "/readyz", "").want(t, 200, "status", "ready")
	o.nats.Stop()
	poll(t, func() bool { return o.do("GET", "/readyz", "").body["status"] == "degraded" })
	o.do("GET", "/readyz", "").want(t, 200, "store", "ok", "overflow", "unavailable")
	a := o.post("b", "")
	if a.want(
		t, 503, "reason", "overflow_unavailable", "id", "b", "retry_after_ms", 1000,
	); a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	feed, lines, _ := o.open(jobs)
	say(t, feed, `{"payload":1,"id":"c"}`+"\n")
	wantLine(t, line(t, lines), "status", 503, "reason", "overflow_unavailable", "id", "c", "retry_after_ms", 1000)
	o.do("POST", "/v1/queues/sms/jobs", `{"payload":1,"overflow":"defer"}`).want(t, 202, "state", "waiting")
	o.do("GET", jobs+"/b", "").want(t, 404) // it is not thought to be deferred
	if err := o.nats.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { return o.do("GET", "/readyz", "").body["status"] == "ready" })
	poll(t, func() bool { return o.post("b", "").status != 503 })
	o.do("GET", jobs+"/b", "").want(t, 200, "state", "deferred")
	_ = feed.Close()
}

// While the store is away, what may wait is taken, alone and in streams.
func TestStoreAway(t *testing.T) {
	o := serveOverflowing(t)
	o.do("PUT", email, `{"rate":"1/h","overflow":"defer"}`).want(t, 201)
	o.do("PUT", "/v1/queues/sms", `{"rate":"1/h"}`).want(t, 201)
	o.store.away.Store(true)
	for _, path := range []string{jobs, "/v1/queues/sms/jobs"} {
		// Until the appender, which reads them behind everybody's back, knows both queues.
		poll(t, func() bool { return o.do("POST", path, `{"payload":1,"overflow":"defer"}`).status == 202 })
	}
	o.store.gone.Store(true)
	o.do("GET", "/readyz", "").want(t, 200, "status", "degraded", "store", "unavailable", "overflow", "ok")
	o.do("POST", "/v1/queues/sms/jobs", `{"payload":1}`).want(t, 503, "reason", "unavailable")
	o.post("r", `,"overflow":"reject"`).want(t, 503, "reason", "unavailable")
	o.post("b", "").want(t, 202, "state", "deferred", "position", nil, "eta", nil)
	o.do("POST", "/v1/queues/sms/jobs", `{"payload":1,"overflow":"defer"}`).want(t, 202, "state", "deferred")
	o.post("late", `,"expires_at":"2020-01-01T00:00:00Z"`).want(t, 422, "reason", "expired")
	feed, lines, head := o.open(jobs)
	if head.status != 200 {
		t.Fatalf("%+v", head)
	}
	say(t, feed, `{"payload":1,"id":"c"}`+"\n"+`{"payload":1,"id":"d","overflow":"reject"}`+"\n")
	wantLine(t, line(t, lines), "line", 1, "status", 202, "id", "c", "state", "deferred")
	wantLine(t, line(t, lines), "line", 2, "status", 503, "id", "d", "reason", "unavailable")
	o.nats.Stop()
	poll(t, func() bool { return o.do("GET", "/readyz", "").status == 503 })
	o.do("GET", "/readyz", "").want(t, 503, "reason", "not_ready")
	o.post("e", "").want(t, 503, "reason", "overflow_unavailable")
	_ = feed.Close()
}
