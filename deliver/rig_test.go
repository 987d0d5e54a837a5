package deliver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a drain.Gate that is open, and counts.
type gate struct{ calls int }

func (g *gate) Wait(context.Context) error { g.calls++; return nil }

func (g *gate) Closes() time.Time { return time.Now().Add(time.Hour) }

func jobFor(url string) *drain.Job {
	j := &drain.Job{Reservation: queue.Reservation{
		Job:     queue.Job{Queue: "q", ID: "job-1", Payload: []byte("{}"), ContentType: "application/json"},
		Attempt: 3, Revision: 1,
	}}
	raw, err := json.Marshal(map[string]any{"http": map[string]any{"url": url}})
	if err != nil {
		panic(err)
	}
	j.Spec = &queue.Spec{Deliver: raw}
	return j
}

// router returns a Router that may reach this machine.
func router(t *testing.T, o Options) *Router {
	t.Helper()
	if o.Egress == nil {
		g, err := egress.New(egress.Loopback...)
		if err != nil {
			t.Fatal(err)
		}
		o.Egress = g
	}
	r := New(o)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
