package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// Releases are of the last 15 minutes where the server knows those, and else of the life of the queue. A queue that
// released nothing is not asked about.
func TestReleases(t *testing.T) {
	of := func(name string, released, delivered int64) wire.Queue {
		q := wire.Queue{Flow: &wire.Flow{}}
		q.Name, q.Stats.Counters = name, queue.Counters{Released: released, Delivered: delivered}
		return q
	}
	total := wire.Releases{Releases: queue.Releases{Released: 10, Departures: 100}}
	queues := []wire.Queue{of("none", 0, 100), of("seen", 10, 90), of("new", 10, 90)}
	asked := ""
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("queues")
		_, _ = io.WriteString(w, `{"step":5,"queues":{`+
			`"seen":{"values":{"released":[null,1,2,null],"outflow":[9,1,0,1]}},`+
			`"new":{"values":{"released":[null,null],"outflow":[1,2]}}}}`)
	})
	got := c.Releases(t.Context(), queues)
	seen := wire.Releases{Releases: queue.Releases{Released: 15, Departures: 20}, Window: "15m"}
	if asked != "seen,new" || len(got) != 2 || got["seen"] != seen || got["new"] != total {
		t.Errorf("asked for %s: %+v", asked, got)
	}
	if text := seen.Text(); text != "15 of 20 departures in the last 15m (75.0%)" {
		t.Error(text)
	}
	if text := total.Text(); text != "10 of 100 departures since it was created (10.0%)" {
		t.Error(text)
	}

	old := answer(t, http.StatusBadRequest, nil, `{"status":400,"reason":"invalid","field":"columns"}`)
	if got := old.Releases(t.Context(), queues); len(got) != 2 || got["seen"] != total {
		t.Errorf("%+v", got)
	}

	many, times := make([]wire.Queue, 450), 0
	for n := range many {
		many[n] = of("q", 1, 1)
	}
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := strings.Count(r.URL.Query().Get("queues"), ",") + 1; n > 200 {
			t.Errorf("asked about %d queues at once", n)
		}
		times++
		_, _ = io.WriteString(w, `{"queues":{}}`)
	})
	if c.Releases(t.Context(), many); times != 3 {
		t.Errorf("asked %d times, want 3", times)
	}
}
