package drain_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A job that its handler may have sent is held, and leaves again when a person releases it.
func TestUnknownIsHeld(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		put(t, e, queue.Spec{Name: "q", Rate: leaky.Unlimited, OnUnknown: queue.UnknownHold})
		ctx, cancel := context.WithCancel(t.Context())
		ended, attempts := make(chan error, 1), make(chan int, 9)
		var said bytes.Buffer
		go func() {
			ended <- drain.Run(ctx, e, drain.HandlerFunc(func(_ context.Context, job *drain.Job) error {
				attempts <- job.Attempt
				if job.Attempt == 1 {
					return drain.Unknown(errors.New("the connection was lost"))
				}
				return nil
			}), drain.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		}()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if text := said.String(); !strings.Contains(text, "job held") ||
				!strings.Contains(text, `queue=q id=000000 reason="the connection was lost"`) {
				t.Errorf("the held job was not logged: %s", text)
			}
		}()
		push(t, e, "q", 0, 1)
		until := func(want queue.State) {
			t.Helper()
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				j, err := e.Job(t.Context(), "q", "000000")
				if err == nil && j.State == want {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%+v, %v; want %v", j, err, want)
				}
			}
		}
		until(queue.Held)
		if s, err := e.Decide(t.Context(), "q", []string{"000000"}, queue.Release, ""); err != nil || s[0] != queue.Waiting {
			t.Fatal(s, err)
		}
		until(queue.Delivered)
		if n := len(attempts); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A job whose drainer died is held by its engine, and the drainer that finds it logs that a lease ran out.
func TestExpiredLeasesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embedded(t)
		defer e.Close()
		put(t, e, queue.Spec{
			Name: "q", Rate: leaky.Unlimited, OnUnknown: queue.UnknownHold, Lease: unit.Duration(time.Second),
		})
		push(t, e, "q", 0, 1)
		r, err := e.Reserve(t.Context(), queue.ReserveRequest{Client: queue.Client{ID: "dead"}, Number: 1, Max: 1})
		if err != nil || len(r.Jobs) != 1 {
			t.Fatal(r, err)
		}
		var said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- drain.Run(ctx, e, drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil }), drain.Options{
				PlainTimers: true, Logger: slog.New(slog.NewTextHandler(&said, nil)),
			})
		}()
		time.Sleep(5 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if i := info(t, e, "q"); i.Held != 1 || !strings.Contains(said.String(), "a lease ran out") ||
			!strings.Contains(said.String(), "queue=q") {
			t.Errorf("%d held; the log is %s", i.Held, said.String())
		}
	})
}
