package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/memtest"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// maximum is what docs/configuration.md states for a drainer with default settings.
const maximum = 768 << 20

// A drainer whose handlers all hold the largest jobs, for receivers that do not answer, stays below its stated maximum.
func TestMemoryMaximum(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var held atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		held.Add(1)
		defer held.Add(-1)
		<-r.Context().Done()
	}))
	defer target.Close()
	payload := bytes.Repeat([]byte("x"), queue.MaxPayloadBytes)
	for q := range 4 {
		name := fmt.Sprintf("q%d", q)
		spec, err := queue.ParseSpec(fmt.Appendf(
			nil, `{"name":%q,"rate":"unlimited","lease":"10m","slack":"10s","deliver":{"http":{"url":%q,"timeout":"5m"}}}`, name,
			target.URL,
		))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Put(t.Context(), spec, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if a, err := engine.Append(t.Context(), []queue.Job{{
				Queue: name, ID: fmt.Sprint(i), Payload: payload,
			}}); err != nil || a[0].Outcome != queue.Accepted {
				t.Fatal(a, err)
			}
		}
	}
	path, err := memtest.Build(t.Context(), "../..", t.TempDir(), "./cmd/drainer")
	if err != nil {
		t.Fatal(err)
	}
	p, err := memtest.Start(
		t.Context(), maximum, path, "--redis", redis.URL(), "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1",
	)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	t.Log(p.How())
	most := int64(0)
	begun := time.Now()
	grown := begun // on a busy machine, allow more time as long as more jobs come
	for time.Since(begun) < 6*time.Second || most < 100 && time.Since(grown) < time.Minute {
		if n := held.Load(); n > most {
			most, grown = n, time.Now()
		}
		if err := p.Exceeded(); err != nil {
			t.Fatalf("with %d jobs under way: %v", most, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d jobs of %d bytes under way at once, %d MiB at most", most, len(payload), p.Peak()>>20)
	if most < 100 {
		t.Errorf("%d jobs were under way, too few to tell", most)
	}
}
