package metrics_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// Handlers in use are exported by queue, the greatest first, and the rest as a sum.
func TestHandlersInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for i, n := range []int{5, 20, 3, 1} {
			name := fmt.Sprint("q", i)
			spec := queue.Spec{Name: name, Rate: leaky.Unlimited, Circuit: queue.Circuit{Off: true}}
			if _, err := e.Put(t.Context(), spec, 0); err != nil {
				t.Fatal(err)
			}
			for k := range n {
				if _, err := e.Append(t.Context(), []queue.Job{{
					Queue: name, ID: fmt.Sprint(k), Payload: []byte("{}"),
				}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		bounded := map[string]string{"q0": "acme", "q2": "acme", "q3": "beta"}
		var usage drain.Usage
		reg := prometheus.NewRegistry()
		if err := metrics.NewHandlers(reg, &usage, 2); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() {
			end <- drain.Run(ctx, e, drain.HandlerFunc(func(ctx context.Context, _ *drain.Job) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}), drain.Options{
				Concurrency: 16, Usage: &usage, PlainTimers: true, Grace: time.Millisecond,
				AppOf: func(name string) (string, float64) { return bounded[name], 1 },
			})
		}()
		time.Sleep(15 * time.Second)
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP penstock_app_handlers_in_use Handlers of this drainer held by all queues of an app with a share of the `+
			`handlers.
# TYPE penstock_app_handlers_in_use gauge
penstock_app_handlers_in_use{app="acme"} 8
penstock_app_handlers_in_use{app="beta"} 1
# HELP penstock_handler_longest_seconds Time that the longest-running handler has been working on its job.
# TYPE penstock_handler_longest_seconds gauge
penstock_handler_longest_seconds 15
# HELP penstock_handlers_in_use Handlers of this drainer held by a queue.
# TYPE penstock_handlers_in_use gauge
penstock_handlers_in_use{queue="_other"} 4
penstock_handlers_in_use{queue="q0"} 5
penstock_handlers_in_use{queue="q1"} 14
# HELP penstock_hanging_queues Queues that hold their maximum of this drainer's handlers, need more, and had no `+
			`answer for 10 s.
# TYPE penstock_hanging_queues gauge
penstock_hanging_queues 1
`)); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}
