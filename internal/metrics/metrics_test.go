package metrics_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
)

func embedded(t *testing.T) queue.Engine {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func put(t *testing.T, e queue.Specs, name string, capacity int64) {
	t.Helper()
	s := queue.Spec{Name: name, Rate: leaky.PerSecond(14), Capacity: capacity}
	s.Normalize()
	if _, err := e.Put(t.Context(), s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func job(name, id, payload string) queue.Job {
	return queue.Job{Queue: name, ID: id, Payload: []byte(payload)}
}

func compare(t *testing.T, reg prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEngine(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e, err := metrics.NewEngine(embedded(t), reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, e, name, 2)
	}
	// Queues that do not exist take no slot.
	var stray []queue.Job
	for i := range 10 {
		stray = append(stray, job(fmt.Sprintf("none%d", i), "1", "1"), job("Not A Name", "1", "1"))
	}
	if _, err := e.Append(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	answers, err := e.Append(t.Context(), []queue.Job{
		job("a", "1", "1"), job("a", "1", "1"), job("a", "1", "2"), job("a", "2", "1"), job("a", "3", "1"),
		job("b", "1", "1"), job("c", "1", "1"), job("d", "1", "1"), job("b", "", "1"),
	})
	if err != nil || len(answers) != 9 {
		t.Fatalf("%v, %v", answers, err)
	}
	compare(t, reg, `
# HELP penstock_appended_total Jobs accepted, or already present (outcome duplicate).
# TYPE penstock_appended_total counter
penstock_appended_total{outcome="accepted",queue="_other"} 2
penstock_appended_total{outcome="accepted",queue="a"} 2
penstock_appended_total{outcome="accepted",queue="b"} 1
penstock_appended_total{outcome="duplicate",queue="_other"} 0
penstock_appended_total{outcome="duplicate",queue="a"} 1
penstock_appended_total{outcome="duplicate",queue="b"} 0
# HELP penstock_refused_total Jobs refused, by reason.
# TYPE penstock_refused_total counter
penstock_refused_total{queue="_other",reason="conflict"} 0
penstock_refused_total{queue="_other",reason="failed"} 0
penstock_refused_total{queue="_other",reason="full"} 0
penstock_refused_total{queue="_other",reason="invalid"} 10
penstock_refused_total{queue="_other",reason="unknown_queue"} 10
penstock_refused_total{queue="a",reason="conflict"} 1
penstock_refused_total{queue="a",reason="failed"} 0
penstock_refused_total{queue="a",reason="full"} 1
penstock_refused_total{queue="a",reason="invalid"} 0
penstock_refused_total{queue="b",reason="conflict"} 0
penstock_refused_total{queue="b",reason="failed"} 0
penstock_refused_total{queue="b",reason="full"} 0
penstock_refused_total{queue="b",reason="invalid"} 1
`, "penstock_appended_total", "penstock_refused_total")
	if n := testutil.CollectAndCount(reg, "penstock_append_seconds"); n != 1 {
		t.Errorf("%d append histograms", n)
	}

	// The series of a deleted queue end, and its slot is free again.
	if err := e.Delete(t.Context(), "a", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{job("d", "2", "1")}); err != nil {
		t.Fatal(err)
	}
	compare(t, reg, `
# HELP penstock_appended_total Jobs accepted, or already present (outcome duplicate).
# TYPE penstock_appended_total counter
penstock_appended_total{outcome="accepted",queue="_other"} 2
penstock_appended_total{outcome="accepted",queue="b"} 1
penstock_appended_total{outcome="accepted",queue="d"} 1
penstock_appended_total{outcome="duplicate",queue="_other"} 0
penstock_appended_total{outcome="duplicate",queue="b"} 0
penstock_appended_total{outcome="duplicate",queue="d"} 0
`, "penstock_appended_total")
}

func TestEngineThatFails(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	inner := embedded(t)
	e, err := metrics.NewEngine(inner, reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{job("a", "1", "1"), job("a", "2", "1")}); err == nil {
		t.Fatal("a closed engine took jobs")
	}
	compare(t, reg, `
# HELP penstock_refused_total Jobs refused, by reason.
# TYPE penstock_refused_total counter
penstock_refused_total{queue="_other",reason="failed"} 2
`, "penstock_refused_total")
	if _, err := metrics.NewEngine(inner, reg, 0); err == nil {
		t.Error("registered twice")
	}
}

// refresh refreshes gauges from a store whose queues were just read.
func refresh(t *testing.T, g *metrics.Gauges, e queue.Engine) error {
	t.Helper()
	s := survey.New(e, survey.Options{})
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g.Refresh(t.Context(), e, s.Latest().Rows())
}

func TestGauges(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e := embedded(t)
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, e, name, 10)
		for i := range 3 {
			if _, err := e.Append(t.Context(), []queue.Job{job(name, fmt.Sprint(i), "1")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.Pause(t.Context(), "b", queue.Pause{Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, g, e); err != nil {
		t.Fatal(err)
	}
	const jobs = `
# HELP penstock_jobs Jobs by state.
# TYPE penstock_jobs gauge
`
	states := func(name string, waiting int) string {
		return fmt.Sprintf(
			"penstock_jobs{queue=%[1]q,state=\"dead\"} 0\npenstock_jobs{queue=%[1]q,state=\"deferred\"} "+
				"0\npenstock_jobs{queue=%[1]q,state=\"held\"} 0\npenstock_jobs{queue=%[1]q,state=\"leased\"} "+
				"0\npenstock_jobs{queue=%[1]q,state=\"scheduled\"} 0\npenstock_jobs{queue=%[1]q,state=\"waiting\"} %[2]d\n",
			name, waiting,
		)
	}
	compare(t, reg, jobs+states("_other", 6)+states("a", 3)+states("b", 3)+`
# HELP penstock_queues Number of queues.
# TYPE penstock_queues gauge
penstock_queues 4
# HELP penstock_paused 1 while the queue is paused.
# TYPE penstock_paused gauge
penstock_paused{queue="a"} 0
penstock_paused{queue="b"} 1
# HELP penstock_rate_per_second Configured rate; +Inf if unlimited.
# TYPE penstock_rate_per_second gauge
penstock_rate_per_second{queue="a"} 14
penstock_rate_per_second{queue="b"} 14
`, "penstock_jobs", "penstock_queues", "penstock_paused", "penstock_rate_per_second")

	for _, name := range []string{"a", "c"} {
		if err := e.Delete(t.Context(), name, queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := refresh(t, g, e); err != nil {
		t.Fatal(err)
	}
	compare(t, reg, jobs+states("b", 3)+states("d", 3), "penstock_jobs")
}

func TestForecastGauges(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	e := embedded(t)
	g, err := metrics.NewGauges(reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "paused"} {
		put(t, e, name, 10)
	}
	if _, err := e.Append(t.Context(), []queue.Job{job("paused", "1", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Pause(t.Context(), "paused", queue.Pause{Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	attend.Queues(t, e)
	if err := refresh(t, g, e); err != nil {
		t.Fatal(err)
	}
	compare(t, reg, `
# HELP penstock_queue_drain_seconds Time until the last job has left if no more are added; +Inf if some never leave.
# TYPE penstock_queue_drain_seconds gauge
penstock_queue_drain_seconds{queue="empty"} 0
penstock_queue_drain_seconds{queue="paused"} +Inf
# HELP penstock_queue_delay_seconds Time that a job without a lane would wait if it were added now; +Inf is forever.
# TYPE penstock_queue_delay_seconds gauge
penstock_queue_delay_seconds{queue="empty"} 0
penstock_queue_delay_seconds{queue="paused"} +Inf
`, "penstock_queue_drain_seconds", "penstock_queue_delay_seconds")
}

// failing is an unavailable store.
type failing struct{ queue.Engine }

func (failing) Readings(context.Context) ([]queue.Reading, error) { return nil, queue.ErrUnavailable }

func (failing) Totals(context.Context) (queue.Totals, error) {
	return queue.Totals{}, queue.ErrUnavailable
}

func TestGaugesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := metrics.NewGauges(prometheus.NewPedanticRegistry(), 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var out strings.Builder
		if err := g.Run(ctx, failing{}, survey.New(failing{}, survey.Options{}), time.Second,
			slog.New(slog.NewTextHandler(&out, nil))); err != nil {
			t.Errorf("stopped with %v", err)
		}
		if n := strings.Count(out.String(), "cannot be refreshed"); n != 1 {
			t.Errorf("complained %d times in a minute", n)
		}
	})
}

func TestHook(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h, err := metrics.NewHook(reg)
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.New(t, redistest.Options{})
	e, err := store.Open(t.Context(), store.Options{
		RedisURL: server.URL(), Init: true, Partitions: 1, Hook: h, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	put(t, e, "a", 1)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	trips := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "penstock_redis_seconds" {
				trips[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if trips["script"] == 0 || trips["pipeline"] == 0 || trips["other"] == 0 {
		t.Errorf("round trips counted: %v", trips)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_ = e.Check(t.Context())
	if failed := testutil.CollectAndCount(reg, "penstock_redis_errors_total"); failed != 2 {
		t.Errorf("%d error series", failed)
	}
}

// Audit entries dropped early are counted once, by budget, and logged.
func TestAuditDropsAreCounted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &fullAudit{Engine: embedded(t)}
	s := survey.New(e, survey.Options{})
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, e, s, time.Millisecond, slog.New(slog.NewTextHandler(&out, nil))) }()
	for _, dropped := range []int64{3, 5} {
		e.dropped.Store(dropped)
		await.Until(t, "they are counted", func() bool {
			all, err := reg.Gather()
			for _, f := range all {
				if f.GetName() == "penstock_audit_dropped_total" && f.GetMetric()[0].GetCounter().GetValue() == float64(dropped) {
					return true
				}
			}
			return err != nil
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	compare(t, reg, `
# HELP penstock_audit_dropped_total Audit entries dropped before their time because their budget was used up.
# TYPE penstock_audit_dropped_total counter
penstock_audit_dropped_total{budget="app:acme"} 5
penstock_audit_dropped_total{budget="operators"} 0
`, "penstock_audit_dropped_total")
	if n := strings.Count(out.String(), "budget=app:acme"); n != 2 {
		t.Errorf("logged %d times: %s", n, out.String())
	}
}

// fullAudit is an engine whose audit log has dropped entries of an app.
type fullAudit struct {
	queue.Engine
	dropped atomic.Int64
}

func (f *fullAudit) Audit(context.Context, audit.Request) (audit.Page, error) {
	return audit.Page{Chains: []audit.Chain{
		{Budget: audit.OfApp("acme"), Dropped: f.dropped.Load()}, {Budget: audit.Operators},
	}}, nil
}
