package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// plant is an ingress and two drainers, on a Redis and a NATS of their own that a test
// can stop and start.
type plant struct {
	redis  *redistest.Server
	nats   *natsserver.Server
	target *receiver
	base   string // of the queue
}

// newPlant's ingress has patience with Redis, or a busy machine makes it defer what has room.
func newPlant(t *testing.T, spec string) *plant {
	t.Helper()
	return newPlantSeen(t, spec, redistest.Patience, unseen)
}

func unseen(h drain.Handler) drain.Handler { return h }

// newPlantSeen has what its drainers hand over go through a test's own handler.
func newPlantSeen(t *testing.T, spec string, patience time.Duration, through func(drain.Handler) drain.Handler) *plant {
	t.Helper()
	p := &plant{redis: redistest.New(t, redistest.Options{AppendFsync: "always"}), target: newReceiver(t)}
	var err error
	if p.nats, err = natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0",
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.nats.Stop)

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	process := func() (queue.Engine, *deferred.Stream, *prometheus.Registry) {
		engine, err := store.Open(t.Context(), store.Options{
			RedisURL: p.redis.URL(), Init: true, Partitions: 4, Patience: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := nats.Connect(
			p.nats.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1),
		)
		if err != nil {
			t.Fatal(err)
		}
		reg := app.NewRegistry()
		stream, err := app.NewOverflow(conn, deferred.Options{Patience: patience}, reg, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			stop()
			running.Wait()
			conn.Close()
			_ = engine.Close()
		})
		return engine, stream, reg
	}
	run := func(f func(context.Context) error, stream *deferred.Stream) {
		running.Go(func() {
			if err := ops.RunOver(ctx, f, stream.Run); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
	for range 2 {
		engine, stream, reg := process()
		router := deliver.New(deliver.Options{Egress: loopback(t)})
		t.Cleanup(func() { _ = router.Close() })
		d, err := app.NewDrainer(engine, app.DrainerOptions{
			Handler: through(router), Overflow: stream, Registry: reg, Drain: drain.Options{Name: "drainer"},
		})
		if err != nil {
			t.Fatal(err)
		}
		run(d.Run, stream)
	}
	engine, stream, reg := process()
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, Overflow: stream,
		ValidateTarget: app.ValidTarget(loopback(t), secrets.Source{}), Registry: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	run(in.Run, stream)
	p.base = in.URL() + "/v1/queues/email"
	if status, text := call(
		t, "PUT", p.base, strings.Replace(spec, "TARGET", p.target.URL, 1), "application/json",
	); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	return p
}

// post sends a job and returns the status, and the state or reason.
func (p *plant) post(t *testing.T, id, more string) (status int, word string, retry string) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"payload":{"id":%q}%s}`, id, id, more)
	resp, err := http.Post(p.base+"/jobs", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ State, Reason string }
	text, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return resp.StatusCode, answer.State + answer.Reason, resp.Header.Get("Retry-After")
}

// arrived waits until all have arrived, once each.
func (p *plant) arrived(t *testing.T, ids map[string]bool) {
	t.Helper()
	for n := 0; n < len(ids); { // as long as some do, all may take the time that they take
		await.Until(t, fmt.Sprintf("another arrives after %d of %d jobs", n, len(ids)), func() bool {
			before := n
			n, _ = p.target.count()
			return n > before
		})
	}
	p.target.mu.Lock()
	defer p.target.mu.Unlock()
	for id := range ids {
		if n := p.target.seen[fmt.Sprintf(`{"id":%q}`, id)]; n != 1 {
			t.Errorf("job %s arrived %d times", id, n)
		}
	}
	if len(p.target.seen) != len(ids) {
		t.Errorf("%d jobs arrived, %d were accepted", len(p.target.seen), len(ids))
	}
}

// A queue of 10 takes 500 jobs that may wait; none is refused, each arrives once.
func TestOverflowComesBack(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `{"rate":"500/s","slack":"10s","capacity":10,"overflow":"defer","deliver":{"http":{"url":"TARGET"}}}`)
	accepted, states := map[string]bool{}, map[string]int{}
	call(t, "POST", p.base+"/pause", "", "")
	for i := range 500 {
		id := fmt.Sprintf("j%d", i)
		status, state, _ := p.post(t, id, "")
		if status != 202 {
			t.Fatalf("job %d: %d %s", i, status, state)
		}
		accepted[id] = true
		states[state]++
	}
	if states["waiting"] != 10 || states["deferred"] != 490 {
		t.Errorf("states: %v", states)
	}
	call(t, "POST", p.base+"/resume", "", "")
	p.arrived(t, accepted)
	await.Until(t, "nothing is left", func() bool {
		_, text := call(t, "GET", p.base, "", "")
		return strings.Contains(text, `"deferred":0`) && strings.Contains(text, `"delivered":500`)
	})
}

// While Redis is away, jobs that may wait are accepted and others told to come back;
// afterwards all that was accepted arrives.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	p := newPlantSeen(
		t, `{"rate":"500/s","slack":"10s","capacity":1000,"overflow":"defer","deliver":{"http":{"url":"TARGET"}}}`, 0, unseen,
	)
	accepted := map[string]bool{}
	send := func(id string) {
		t.Helper()
		if status, word, _ := p.post(t, id, ""); status != 202 {
			t.Fatalf("job %s: %d %s", id, status, word)
		}
		accepted[id] = true
	}
	send("before")
	p.arrived(t, accepted)
	await.Until(t, "the ingress knows the queue", func() bool { // it reads the spec behind the first job
		_, text := call(t, "GET", p.base, "", "")
		return strings.Contains(text, `"delivered":1`)
	})
	if err := p.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		send(fmt.Sprintf("away%d", i))
	}
	status, word, retry := p.post(t, "refused", `,"overflow":"reject"`)
	if status != 503 || retry == "" {
		t.Errorf("a job that may not wait: %d %s, Retry-After %q", status, word, retry)
	}
	await.Until(t, "one is told so within a second", func() bool { // not each is, where the machine is busy
		begin := time.Now()
		if status, _, _ := p.post(t, "refused", `,"overflow":"reject"`); status != 503 {
			t.Fatalf("a job that may not wait: %d", status)
		}
		return time.Since(begin) <= time.Second
	})
	if status, text := call(t, "GET", strings.Replace(p.base, "/v1/queues/email", "/readyz", 1), "", ""); status != 200 ||
		!strings.Contains(text, `"store":"unavailable"`) {
		t.Errorf("readiness: %d %s", status, text)
	}
	if err := p.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "Redis is noticed", func() bool {
		status, _, _ := p.post(t, "again", `,"overflow":"reject"`)
		return status == 202 || status == 200
	})
	accepted["again"] = true
	send("after")
	p.arrived(t, accepted)
}

// While NATS is away the queue works, and what finds no room is told so.
func TestNATSAway(t *testing.T) {
	p := newPlant(t, `{"rate":"500/s","slack":"10s","capacity":3,"overflow":"defer","deliver":{"http":{"url":"TARGET"}}}`)
	accepted := map[string]bool{}
	call(t, "POST", p.base+"/pause", "", "")
	for i := range 3 {
		id := fmt.Sprintf("j%d", i)
		if status, word, _ := p.post(t, id, ""); status != 202 || word != "waiting" {
			t.Fatalf("%d %s", status, word)
		}
		accepted[id] = true
	}
	p.nats.Stop()
	ready := strings.Replace(p.base, "/v1/queues/email", "/readyz", 1)
	await.Until(t, "the ingress notices", func() bool {
		_, text := call(t, "GET", ready, "", "")
		return strings.Contains(text, `"overflow":"unavailable"`)
	})
	if status, word, retry := p.post(t, "late", ""); status != 503 || word != "overflow_unavailable" || retry == "" {
		t.Errorf("%d %s, Retry-After %q", status, word, retry)
	}
	if status, word, _ := p.post(t, "late2", `,"overflow":"reject"`); status != 429 || word != "full" {
		t.Errorf("%d %s", status, word)
	}
	call(t, "POST", p.base+"/resume", "", "")
	p.arrived(t, accepted)
	if err := p.nats.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	call(t, "POST", p.base+"/pause", "", "")
	for i := range 6 {
		id := fmt.Sprintf("k%d", i)
		await.Until(t, "NATS is noticed", func() bool {
			status, _, _ := p.post(t, id, "")
			return status == 202 || status == 200
		})
		accepted[id] = true
	}
	call(t, "POST", p.base+"/resume", "", "")
	p.arrived(t, accepted)
}

// A process that has no overflow does not start where a queue needs one.
func TestStartWithoutNeededOverflow(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	engine, err := store.Open(t.Context(), store.Options{RedisURL: redis.URL(), Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	spec := queue.Spec{Name: "campaign", Rate: leaky.PerSecond(1), Overflow: queue.Defer}
	spec.Normalize()
	if _, err := engine.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]app.Program{"ingress": app.RunIngress, "drainer": app.RunDrainer(nil)} {
		err := run(t.Context(), []string{"--redis", redis.URL(), "--listen", "127.0.0.1:0"}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "--nats is missing: queue campaign") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
