package tracing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/otlptest"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a Tracer that sends to a URL and counts in the registry.
func open(t *testing.T, url string, more ...string) (*Tracer, *prometheus.Registry) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	for _, setting := range more {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	reg := prometheus.NewRegistry()
	tracer, err := Open(Options{Service: "tester", Registry: reg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, reg
}

// accepting is an engine that accepts all jobs.
type accepting struct {
	queue.Engine
	jobs  []queue.Job
	out   []queue.Appended
	asked atomic.Int64
}

func (e *accepting) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	e.jobs = jobs
	e.out = e.out[:0]
	for i := range jobs {
		e.out = append(e.out, queue.Appended{Outcome: queue.Accepted, ID: jobs[i].ID, State: queue.Waiting})
	}
	return e.out, nil
}

func (e *accepting) Job(context.Context, string, string) (queue.JobInfo, error) {
	e.asked.Add(1)
	return queue.JobInfo{}, queue.ErrUnknownJob
}

// Without the variables, nothing is wrapped and no goroutine runs.
func TestOff(t *testing.T) {
	for _, setting := range []string{
		"", "OTEL_SERVICE_NAME=x", "OTEL_TRACES_EXPORTER=none", "OTEL_SDK_DISABLED=true", "OTEL_TRACES_SAMPLER=nonsense",
	} {
		t.Run(setting, func(t *testing.T) {
			if name, value, ok := strings.Cut(setting, "="); ok {
				t.Setenv(name, value)
				if name != "OTEL_SERVICE_NAME" && name != "OTEL_TRACES_SAMPLER" {
					t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
				}
			}
			reg := prometheus.NewRegistry()
			tracer, err := Open(Options{Registry: reg, Logger: slog.New(slog.DiscardHandler)})
			if err != nil || tracer != nil {
				t.Fatalf("%v, %v", tracer, err)
			}
			inner := &accepting{}
			if e := tracer.Engine(inner); e != queue.Engine(inner) {
				t.Error("another engine")
			}
			mux := http.NewServeMux()
			if h := tracer.Serve(mux); h != http.Handler(mux) {
				t.Error("another handler")
			}
			if d := tracer.Drain(); d != nil {
				t.Error("a tracer of drains")
			}
			if err := tracer.Close(); err != nil {
				t.Error(err)
			}
			if list, _ := reg.Gather(); len(list) > 0 {
				t.Errorf("it counts %v", list)
			}
		})
	}
}

// Unsampled jobs cause no allocations.
func TestUnsampledAllocatesNothing(t *testing.T) {
	tracer, _ := open(t, "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0")
	defer func() { _ = tracer.Close() }()
	e, d := tracer.Engine(&accepting{}), tracer.Drain()
	jobs := []queue.Job{{Queue: "q", ID: "a"}}
	job := &drain.Job{Reservation: queue.Reservation{Job: queue.Job{Queue: "q", Headers: map[string]string{"X": "y"}}}}
	now, ctx := time.Now(), context.Background()
	for what, do := range map[string]func(){
		"append": func() { _, _ = e.Append(ctx, jobs) },
		"attempt": func() {
			if _, span := d.Begin(ctx, job, now); span != nil {
				t.Error("sampled")
			}
		},
	} {
		do()
		if n := testing.AllocsPerRun(1000, do); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// The engine is asked about some jobs per second, but few, however many are sampled.
func TestFewJobsAreAskedAbout(t *testing.T) {
	tracer, _ := open(t, "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_on")
	inner := &accepting{}
	e := tracer.Engine(inner)
	begun := time.Now()
	for i := range 2000 {
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: "q", ID: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Microsecond)
	}
	most := maxAskings + int64(20*time.Since(begun).Seconds())
	_ = tracer.Close()
	if n := inner.asked.Load(); n < maxAskings || n > most {
		t.Errorf("it was asked about %d jobs, want up to %d", n, most)
	}
}

func TestSampling(t *testing.T) {
	sampled, not := read(goodParent, ""), read(strings.TrimSuffix(goodParent, "1")+"0", "")
	for _, c := range []struct {
		name, arg           string
		least, most         int // of 1000 roots
		followed, unsampled bool
	}{
		{"", "", 1000, 1000, true, false},
		{"always_on", "", 1000, 1000, true, true},
		{"always_off", "", 0, 0, false, false},
		{"parentbased_always_off", "", 0, 0, true, false},
		{"parentbased_traceidratio", "0.25", 180, 330, true, false},
		{"traceidratio", "", 1000, 1000, true, true},
		{"parentbased_traceidratio", "0", 0, 0, true, false},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		s, err := samplingFromEnv()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range 1000 {
			if s.takes(digest(&queue.Job{Queue: "q", ID: fmt.Sprint("job-", i)}), trace.SpanContext{}) {
				n++
			}
		}
		if n < c.least || n > c.most || s.takes(1, sampled) != c.followed ||
			s.takes(1, not) != c.unsampled {
			t.Errorf("%s %s: %d roots, behind a sampled one %v, behind another %v", c.name, c.arg, n,
				s.takes(1, sampled), s.takes(1, not))
		}
	}
	for _, arg := range []string{"-0.1", "1.1", "NaN", "much"} {
		t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", arg)
		if _, err := samplingFromEnv(); err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER_ARG") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// The engine's copy of a job carries the context; the caller's job does not change.
func TestAppendGivesJobsTheContext(t *testing.T) {
	receiver := otlptest.New(t)
	tracer, reg := open(t, receiver.URL)
	inner := &accepting{}
	jobs := []queue.Job{{Queue: "q", ID: "a"}, {Queue: "q", ID: "b", Headers: map[string]string{"X": "y"}}}
	if _, err := tracer.Engine(inner).Append(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	span := receiver.One(t, "send q", "")
	for i, j := range inner.jobs {
		if sc := ofJob(j.Headers); sc.TraceID().String() != span.Trace || sc.SpanID().String() != span.ID || !sc.IsSampled() {
			t.Errorf("%s carries %v of %s", j.ID, j.Headers, span.Context())
		}
		if len(jobs[i].Headers) != i {
			t.Errorf("its caller's are %v", jobs[i].Headers)
		}
	}
	if span.Attributes["messaging.batch.message_count"] != int64(2) || span.Attributes["penstock.refused"] != int64(0) {
		t.Errorf("%+v", span)
	}
	if value(t, reg, "sent") != 1 || value(t, reg, "failed") != 0 || value(t, reg, "dropped") != 0 {
		t.Error("the span was not counted as sent")
	}
}

// A collector that is down, refuses or hangs delays no job. Lost spans are counted.
func TestCollectorDown(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refusing.Close()
	for name, url := range map[string]string{
		"not there": "http://127.0.0.1:1", "refuses": refusing.URL, "answers nothing": "http://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			tracer, reg := open(t, url, "OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_BSP_EXPORT_TIMEOUT=1500")
			e := tracer.Engine(&accepting{})
			jobs := []queue.Job{{Queue: "q", ID: "a"}, {Queue: "q", ID: "b"}}
			begin := time.Now()
			for range 1000 {
				if _, err := e.Append(t.Context(), jobs); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("1000 appends took %v", took)
			}
			begin = time.Now()
			if err := tracer.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > closeTimeout+time.Second {
				t.Errorf("closing took %v", took)
			}
			await.Until(t, "all spans are counted", func() bool {
				return value(t, reg, "failed")+value(t, reg, "dropped") == 1000 && value(t, reg, "sent") == 0
			})
			if name == "answers nothing" && value(t, reg, "dropped") < 800 {
				t.Errorf("%v were dropped", value(t, reg, "dropped"))
			}
		})
	}
}

// value returns a counter's value.
func value(t *testing.T, reg *prometheus.Registry, result string) float64 {
	t.Helper()
	list, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range list {
		for _, m := range family.Metric {
			if family.GetName() == "penstock_spans_total" && m.Label[0].GetValue() == result {
				return m.Counter.GetValue()
			}
		}
	}
	t.Fatalf("there is no %s", result)
	return 0
}

// The append and the delivery of a job are either both sampled or both not, although unsampled jobs carry no mark.
func TestAppendAndDeliverySampleAlike(t *testing.T) {
	tracer, _ := open(t, otlptest.New(t).URL, "OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=0.1")
	defer func() { _ = tracer.Close() }()
	inner := &accepting{}
	traced := 0
	for call := range 50 {
		var jobs []queue.Job
		for i := range call%20 + 1 {
			jobs = append(jobs, queue.Job{Queue: "q", ID: fmt.Sprintf("%d-%d", call, i)})
		}
		if _, err := tracer.Engine(inner).Append(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		for _, j := range inner.jobs {
			carries := ofJob(j.Headers).IsValid()
			plain := &drain.Job{Reservation: queue.Reservation{Job: queue.Job{Queue: j.Queue, ID: j.ID}}}
			_, span := tracer.Drain().Begin(t.Context(), plain, time.Now())
			if (span != nil) != carries {
				t.Errorf("%s carries %v, and without that %v is traced", j.ID, j.Headers, span)
			}
			if carries {
				traced++
			}
		}
	}
	if traced < 20 || traced > 100 {
		t.Errorf("%d of about 500 jobs are traced", traced)
	}
}
