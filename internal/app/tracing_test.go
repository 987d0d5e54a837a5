package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/otlptest"
	"github.com/penstock/penstock/internal/test/redistest"
)

const clientTrace, clientSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// traced has the programs of a test send their traces somewhere.
func traced(t *testing.T) *otlptest.Receiver {
	r := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	return r
}

// parents is a target that keeps with which traceparent each delivery came, by job and attempt, and fails those of
// which the payload says so.
type parents struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string]string
}

func newParents(t *testing.T) *parents {
	p := &parents{came: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.came[r.Header.Get("Penstock-Id")+"/"+r.Header.Get("Penstock-Attempt")] = r.Header.Get("Traceparent")
		if string(body) == `"fail"` && r.Header.Get("Penstock-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *parents) of(delivery string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.came[delivery]
}

func postTraced(t *testing.T, url, body, traceparent string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// A job is followed from its producer's trace over Redis, and over NATS if there is no room, to the receiver.
func TestTraceOfAJob(t *testing.T) {
	spans := traced(t)
	redis, nats, target := redistest.New(t, redistest.Options{}), startNATS(t), newParents(t)
	shared := []string{"--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1", "--nats", nats.URL()}
	in, _ := program(t, app.RunIngress, shared...)
	out, _ := program(t, app.RunDrainer(nil), append(shared, "--trace-lanes")...)
	base := in + "/v1/queues/email"
	if status, text := call(t, "PUT", base, fmt.Sprintf(`{"rate":"100/s","slack":"10s","capacity":2,"overflow":"defer",`+
		`"retry":{"min_backoff":"10ms","max_backoff":"20ms"},"deliver":{"http":{"url":%q}}}`, target.URL),
		"application/json"); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	call(t, "POST", base+"/pause", "", "")
	for id, body := range map[string]string{"plain": `"x","lane":"tenant-7"`, "failing": `"fail"`} {
		if status, text := postTraced(t, base+"/jobs", fmt.Sprintf(`{"id":%q,"payload":%s}`, id, body),
			"00-"+clientTrace+"-"+clientSpan+"-01"); status != 202 {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, text := postTraced(t, base+"/jobs", `{"id":"late","payload":1}`, "not a traceparent"); status != 202 ||
		!strings.Contains(text, `"deferred"`) {
		t.Fatalf("%d %s", status, text)
	}
	sent := spans.One(t, "send email", "plain")
	if sent.Trace != clientTrace || sent.Parent != clientSpan || sent.Kind != "producer" || sent.Error != "" ||
		sent.Service != "penstock-ingress" {
		t.Errorf("the append: %+v", sent)
	}
	for name, want := range map[string]any{
		"messaging.system": "penstock", "messaging.destination.name": "email", "messaging.operation.type": "send",
		"messaging.operation.name": "append", "penstock.outcome": "accepted", "penstock.job.state": "waiting",
		"penstock.wait.cause": "paused", "messaging.message.body.size": int64(3), "penstock.lane": nil,
	} {
		if sent.Attributes[name] != want {
			t.Errorf("the append: %s is %v, want %v", name, sent.Attributes[name], want)
		}
	}
	call(t, "POST", base+"/resume", "", "")

	process := spans.One(t, "process email", "plain")
	if process.Trace == clientTrace || process.Parent != "" || process.Kind != "consumer" || process.Error != "" ||
		len(process.Links) != 1 || process.Links[0] != sent.Context() || process.Service != "penstock-drainer" {
		t.Errorf("the delivery: %+v", process)
	}
	for name, want := range map[string]any{
		"messaging.system": "penstock", "messaging.destination.name": "email", "messaging.operation.type": "process",
		"messaging.operation.name": "deliver", "penstock.attempt": int64(1), "penstock.job.state": "delivered",
		"penstock.lane": "tenant-7",
	} {
		if process.Attributes[name] != want {
			t.Errorf("the delivery: %s is %v, want %v", name, process.Attributes[name], want)
		}
	}
	if wait, ok := process.Attributes["penstock.wait.seconds"].(float64); !ok || wait <= 0 {
		t.Errorf("it waited for %v", process.Attributes["penstock.wait.seconds"])
	}
	receives := spans.Below(t, process, "target")
	spans.Below(t, receives, "gate")
	spans.Below(t, process, "settle")
	if came, want := target.of("plain/1"), "00-"+receives.Context()+"-01"; came != want || receives.Kind != "client" {
		t.Errorf("the receiver got %q, want %q of %+v", came, want, receives)
	}

	await.Until(t, "both attempts are traced", func() bool { return len(spans.Find("process email", "failing")) == 2 })
	failing := spans.One(t, "send email", "failing")
	for _, attempt := range spans.Find("process email", "failing") {
		bad := ""
		if attempt.Attributes["penstock.attempt"] == int64(1) {
			bad = "retry"
		}
		if attempt.Error != bad || len(attempt.Links) != 1 || attempt.Links[0] != failing.Context() {
			t.Errorf("attempt %+v, of %s", attempt, failing.Context())
		}
	}

	late, deferred := spans.One(t, "process email", "late"), spans.One(t, "send email", "late")
	if deferred.Trace == clientTrace || deferred.Parent != "" || deferred.Attributes["penstock.job.state"] != "deferred" ||
		deferred.Attributes["penstock.wait.cause"] != "deferred" || len(late.Links) != 1 ||
		late.Links[0] != deferred.Context() {
		t.Errorf("a job of the overflow: %+v, and delivered %+v", deferred, late)
	}
	if status, _ := postTraced(t, in+"/v1/queues/none/jobs", `{"id":"lost","payload":1}`, ""); status != 404 {
		t.Errorf("a queue that there is not: %d", status)
	}
	if lost := spans.One(t, "send none", "lost"); lost.Error != "unknown_queue" {
		t.Errorf("what was refused: %+v", lost)
	}
	exemplars(t, in+"/metrics", "penstock_append_seconds")
	exemplars(t, out+"/metrics", "penstock_start_lateness_seconds", "penstock_handler_seconds")
}

// exemplars wants some in each histogram of a page, and none on a page that is no OpenMetrics.
func exemplars(t *testing.T, page string, histograms ...string) {
	t.Helper()
	for _, accept := range []string{"application/openmetrics-text; version=1.0.0", "text/plain"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		for _, name := range histograms {
			found := false
			for line := range strings.Lines(string(text)) {
				found = found || strings.HasPrefix(line, name+"_bucket") && strings.Contains(line, `trace_id="`)
			}
			if found != strings.Contains(accept, "openmetrics") {
				t.Errorf("%s of %s as %s: exemplars %v", name, page, accept, found)
			}
		}
	}
}

// A job whose producer decided that its trace is not recorded is delivered so too, and its context goes on to the
// receiver; so does one that the job brought itself.
func TestUntracedJobPassesItsContextOn(t *testing.T) {
	spans := traced(t)
	redis, target := redistest.New(t, redistest.Options{}), newParents(t)
	shared := []string{"--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1"}
	in, _ := program(t, app.RunIngress, shared...)
	program(t, app.RunDrainer(nil), shared...)
	base := in + "/v1/queues/email"
	call(t, "PUT", base, fmt.Sprintf(`{"rate":"100/s","slack":"10s","deliver":{"http":{"url":%q}}}`, target.URL),
		"application/json")
	not, own := "00-"+clientTrace+"-"+clientSpan+"-00", "00-"+clientTrace+"-00000000000000aa-00"
	postTraced(t, base+"/jobs", `{"id":"not","payload":1}`, not)
	postTraced(t, base+"/jobs", `{"id":"own","payload":1,"headers":{"Traceparent":"`+own+`"}}`, "")
	await.Until(t, "both are delivered", func() bool { return target.of("not/1") != "" && target.of("own/1") != "" })
	if target.of("not/1") != not || target.of("own/1") != own {
		t.Errorf("the receiver got %v", target.came)
	}
	if s := spans.One(t, "send email", "own"); len(s.Links) != 1 || s.Links[0] != clientTrace+"-00000000000000aa" {
		t.Errorf("the append of a job with a context: %+v", s)
	}
	postTraced(t, base+"/jobs", `{"id":"last","payload":1}`, "")
	spans.One(t, "process email", "last")
	for _, id := range []string{"not", "own"} {
		if found := spans.Find("process email", id); len(found) > 0 {
			t.Errorf("traced all the same: %+v", found)
		}
	}
}

// What the environment says and cannot be is told, and nothing starts.
func TestBadTraceSettings(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "sometimes",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318", "OTEL_BSP_MAX_QUEUE_SIZE": "-1",
		"OTEL_RESOURCE_ATTRIBUTES": "no equals sign",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
			t.Setenv(name, value)
			err := app.RunIngress(t.Context(), []string{"--redis", "redis://127.0.0.1:1"}, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A job that a worker pulls is followed to where it is handed over, and shows the worker from where to go on.
func TestTraceOfAPulledJob(t *testing.T) {
	spans, redis := traced(t), redistest.New(t, redistest.Options{})
	in, _ := program(t, app.RunIngress, "--redis", redis.URL(), "--init")
	base := in + "/v1/queues/work"
	call(t, "PUT", base, `{"rate":"100/s","slack":"10s","pull":true}`, "application/json")
	if status, text := postTraced(t, base+"/jobs", `{"id":"a","payload":1}`, ""); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	status, text := call(t, "POST", base+"/leases", `{"max":1,"wait":"5s"}`, "application/json")
	sent, received := spans.One(t, "send work", "a"), spans.One(t, "receive work", "a")
	if want := "00-" + sent.Context() + "-01"; status != 200 || !strings.Contains(text, want) {
		t.Errorf("%d %s, want %s in it", status, text, want)
	}
	if len(received.Links) != 1 || received.Links[0] != sent.Context() || received.Trace == sent.Trace ||
		received.Kind != "consumer" || received.Attributes["messaging.operation.type"] != "receive" {
		t.Errorf("what was handed over: %+v", received)
	}
}

// The wait of a call is a span of its caller's trace. The receiver gets the caller's context.
func TestTraceOfACall(t *testing.T) {
	spans, redis, target := traced(t), redistest.New(t, redistest.Options{}), newParents(t)
	in, _ := program(t, app.RunIngress, "--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1", "--trace-lanes")
	call(t, "PUT", in+"/v1/queues/api", fmt.Sprintf(
		`{"rate":"2/m","slack":"10s","pull":true,"deliver":{"http":{"url":%q}}}`, target.URL,
	), "application/json")
	parent := "00-" + clientTrace + "-" + clientSpan + "-01"
	through := func(lane, wait string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in+"/proxy/api/v1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Traceparent": parent, "Penstock-Lane": lane, "Penstock-Wait": wait} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if status := through("tenant-7", "10s"); status != 200 || target.of("/") != parent {
		t.Errorf("%d, and the receiver got %q", status, target.of("/"))
	}
	if status := through("tenant-8", "1s"); status != 429 {
		t.Errorf("%d", status)
	}
	for lane, failed := range map[string]any{"tenant-7": nil, "tenant-8": "no_turn"} {
		var span otlptest.Span
		await.Until(t, "the wait of "+lane+" is a span", func() bool {
			for _, span = range spans.Spans() {
				if span.Name == "wait api" && span.Attributes["penstock.lane"] == lane {
					return true
				}
			}
			return false
		})
		waited, _ := span.Attributes["penstock.wait.seconds"].(float64)
		if span.Trace != clientTrace || span.Parent != clientSpan || span.Attributes["error.type"] != failed ||
			span.Attributes["messaging.destination.name"] != "api" || waited <= 0 || waited > 60 {
			t.Errorf("%s: %+v", lane, span)
		}
	}
	for _, span := range spans.Spans() {
		if span.Name == "send api" || span.Name == "receive api" { // turns are no messages
			t.Errorf("%+v", span)
		}
	}
}
