package tracing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// BenchmarkDrain appends and drains 20,000 jobs, alternately without traces and with one trace per hundred jobs. It
// reports medians of the rate and of the CPU time per job, of this process (including the collector) and of Redis.
func BenchmarkDrain(b *testing.B) {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what a receiver does with it is not our cost
	}))
	defer receiver.Close()
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	b.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	b.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.01")
	traced, err := Open(Options{
		Service: "bench", Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = traced.Close() }()
	s := redistest.New(b, redistest.Options{})
	e, err := redisq.OpenClient(b.Context(), s.Client(), redisq.Options{Init: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Put(b.Context(), queue.Spec{Name: "q", Rate: leaky.Unlimited, Capacity: 100_000}, 0); err != nil {
		b.Fatal(err)
	}
	var rates, costs [2][]float64 // without, with
	for i := range b.N {
		for with, tracer := range []*Tracer{nil, traced} {
			rate, cost := drainOnce(b, s, e, tracer, fmt.Sprintf("%d-%d", i, with))
			rates[with], costs[with] = append(rates[with], rate), append(costs[with], cost)
		}
	}
	for with, name := range []string{"off", "on"} {
		b.ReportMetric(median(rates[with]), name+"-jobs/s")
		b.ReportMetric(median(costs[with]), name+"-cpu-us/job")
	}
	b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// cpu returns the CPU time used by the process and Redis.
func cpu(b *testing.B, s *redistest.Server) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	for line := range strings.Lines(s.Client().Info(b.Context(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := time.ParseDuration(value + "s")
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}

// drainOnce returns the rate in jobs per second, and the CPU time per job in microseconds.
func drainOnce(b *testing.B, s *redistest.Server, e queue.Engine, t *Tracer, name string) (rate, cost float64) {
	b.Helper()
	const jobs = 20_000
	in := t.Engine(e)
	payload := make([]byte, 256)
	for i := 0; i < jobs; i += 100 {
		list := make([]queue.Job, 100)
		for k := range list {
			list[k] = queue.Job{Queue: "q", ID: fmt.Sprintf("%s-%d", name, i+k), Payload: payload}
		}
		if a, err := in.Append(b.Context(), list); err != nil || a[0].Outcome != queue.Accepted {
			b.Fatal(a, err)
		}
	}
	observer, err := metrics.NewObserver(prometheus.NewRegistry(), 0)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	count := &untilDone{Observer: observer, left: jobs, stop: stop}
	begin, used := time.Now(), cpu(b, s)
	if err := drain.Run(ctx, e, drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil }),
		drain.Options{Observer: count, Tracer: t.Drain()}); err != nil {
		b.Fatal(err)
	}
	return jobs / time.Since(begin).Seconds(), float64((cpu(b, s) - used).Microseconds()) / jobs
}

// untilDone stops the drainer when all jobs are delivered.
type untilDone struct {
	drain.Observer
	left int64
	stop func()
}

// Settled implements drain.Observer.
func (u *untilDone) Settled(name string, v queue.Verdict, s queue.State) {
	u.Observer.Settled(name, v, s)
	if v == queue.Deliver && atomic.AddInt64(&u.left, -1) == 0 {
		u.stop()
	}
}
