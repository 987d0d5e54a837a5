package asynqtarget_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

const limit = time.Minute // for anything to happen on a busy machine

// delta is wide: workers are a hop behind the departure, and the machine may be busy.
const delta = 150 * time.Millisecond

func redis(t *testing.T) (*redistest.Server, asynq.RedisConnOpt) {
	t.Helper()
	s := redistest.New(t, redistest.Options{})
	o, err := asynq.ParseRedisURI(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

func engine(t *testing.T, specs ...queue.Spec) queue.Engine {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for _, s := range specs {
		if _, err := e.Put(t.Context(), s, 0); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// workers are an asynq server that notes what it processed, and when.
type workers struct {
	begin time.Time
	mu    sync.Mutex
	at    []time.Duration
	ids   map[string]int
	seen  chan struct{}
}

func (w *workers) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	now := time.Since(w.begin)
	id, _ := asynq.GetTaskID(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = append(w.at, now)
	w.ids[id]++
	w.seen <- struct{}{}
	return nil
}

func work(t *testing.T, o asynq.RedisConnOpt, c asynq.Config, with ...asynq.MiddlewareFunc) *workers {
	t.Helper()
	w := &workers{begin: time.Now(), ids: map[string]int{}, seen: make(chan struct{}, 10_000)}
	c.LogLevel = asynq.FatalLevel
	s := asynq.NewServer(o, c)
	mux := asynq.NewServeMux()
	mux.Use(with...)
	mux.Handle("email:send", w)
	if err := s.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return w
}

// wait waits until so many were processed.
func (w *workers) wait(t *testing.T, n int) {
	t.Helper()
	over := time.After(limit)
	for i := range n {
		select {
		case <-w.seen:
		case <-over:
			t.Fatalf("%d of %d were processed", i, n)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, times := range w.ids {
		if times != 1 {
			t.Errorf("%s was processed %d times", id, times)
		}
	}
}

func (w *workers) judge(t *testing.T, rate leaky.Rate) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := (law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}).Judge(law.At(w.at)); !v.Held {
		t.Errorf("%d in %v, allowed %d", v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
	}
}

type gate struct{}

func (gate) Wait(context.Context) error { return nil }
func (gate) Closes() time.Time          { return time.Now().Add(limit) }

func job(payload string) *drain.Job {
	return &drain.Job{Spec: &queue.Spec{}, Reservation: queue.Reservation{Attempt: 1, Job: queue.Job{
		Queue: "mail", ID: "j1", Payload: []byte(payload),
	}}}
}

func target() *asynqtask.Target {
	t := asynqtask.Default()
	t.Task = "email:send"
	return t
}
