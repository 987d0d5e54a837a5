package httptarget_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/unit"
)

// A receiver that takes a job and says that nothing is left is spared before it has to refuse one.
func TestSparedBeforeItRefuses(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		var mu sync.Mutex
		var came []time.Time
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if came = append(came, time.Now()); len(came)%2 == 0 {
				w.Header().Set("RateLimit", `"default";r=0;t=1`)
			} else {
				w.Header().Set("RateLimit", `"default";r=1;t=1`)
			}
		}))
		defer s.Close()
		spec := queue.Spec{
			Name: "q", Rate: leaky.PerSecond(100), Slack: unit.Duration(5 * time.Second), MaxInFlight: 1,
			Retry:   queue.Retry{MaxAttempts: 1},
			Deliver: fmt.Appendf(nil, `{"http": {"url": %q}}`, s.URL),
		}
		if _, err := e.Put(t.Context(), spec, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Append(t.Context(), []queue.Job{
			{Queue: "q", ID: "1", Payload: []byte("1")},
			{Queue: "q", ID: "2", Payload: []byte("2")},
			{Queue: "q", ID: "3", Payload: []byte("3")},
		}); err != nil {
			t.Fatal(err)
		}
		stop := drainLoopback(t, e, drain.Options{})
		await.Until(t, "all are delivered", func() bool {
			i, err := e.Get(t.Context(), "q")
			return err == nil && i.Delivered == 3
		})
		stop()
		mu.Lock()
		defer mu.Unlock()
		if gap := came[2].Sub(came[1]); len(came) != 3 || gap < time.Second-50*time.Millisecond {
			t.Errorf("%d came, the third %v after the second", len(came), gap)
		}
		if i, err := e.Get(t.Context(), "q"); err != nil || i.Throttled != 0 {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

// A secret that is missing, and a receiver that asks to be spared, cost a job that has one attempt nothing; and
// nothing leaves before the instant that was asked for.
func TestSpared(t *testing.T) {
	var mu sync.Mutex
	var came []time.Time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if came = append(came, time.Now()); len(came) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer s.Close()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec := queue.Spec{
		Name: "q", Rate: leaky.PerSecond(100), Slack: unit.Duration(5 * time.Second), Retry: queue.Retry{MaxAttempts: 1},
		Circuit: queue.Circuit{
			MinProbe: unit.Duration(10 * time.Millisecond), MaxProbe: unit.Duration(50 * time.Millisecond),
		},
		Deliver: fmt.Appendf(nil, `{"http": {"url": %q, "headers": {"X-Key": "${secret:LATE}"}}}`, s.URL),
	}
	if _, err := e.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{
		{Queue: "q", ID: "1", Payload: []byte("1")}, {Queue: "q", ID: "2", Payload: []byte("2")},
	}); err != nil {
		t.Fatal(err)
	}
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	late, err := secrets.ParseAllow("LATE=" + strings.TrimPrefix(s.URL, "http://") + ";q")
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: guard, Secrets: secrets.Source{Dir: dir, Allow: []secrets.Allow{late}}})
	defer router.Close()
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- drain.Run(ctx, e, router, drain.Options{Concurrency: 1}) }()
	wait := func(what string, done func(queue.Info) bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			i, err := e.Get(t.Context(), "q")
			if err != nil {
				t.Fatal(err)
			}
			if done(i) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("never %s: %+v", what, i)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	wait("down", func(i queue.Info) bool { return i.Circuit.Open() })
	if err := os.WriteFile(filepath.Join(dir, "LATE"), []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait("delivered", func(i queue.Info) bool { return i.Delivered == 2 })
	stop()
	if err := <-end; err != nil {
		t.Error(err)
	}
	// The other job may have been granted before the engine knew of the answer.
	if len(came) != 3 || came[2].Sub(came[0]) < time.Second {
		t.Errorf("requests came at %v", came)
	}
}
