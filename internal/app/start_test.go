package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

// program runs one until the test ends, and returns where it listens and what it says.
func program(t *testing.T, run app.Program, args ...string) (url string, log *transcript.Buffer) {
	t.Helper()
	log = &transcript.Buffer{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append(args, "--listen", "127.0.0.1:0"), io.Discard, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
	listens := regexp.MustCompile(`url"?[=:]"?([^\s"]+)`)
	await.Until(t, "it listens", func() bool {
		if m := listens.FindStringSubmatch(log.String()); m != nil {
			url = m[1]
		}
		return url != "" || len(ended) > 0
	})
	return url, log
}

func startNATS(t *testing.T) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// A drainer delivers to this machine if it may, and never to itself.
func TestDrainerNeverCallsItself(t *testing.T) {
	redis, target := redistest.New(t, redistest.Options{}), newReceiver(t)
	store := []string{"--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1"}
	in, _ := program(t, app.RunIngress, store...)
	out, _ := program(t, app.RunDrainer(nil), store...)
	for name, url := range map[string]string{"self": out + "/healthz", "other": target.URL} {
		call(
			t, "PUT", in+"/v1/queues/"+name, fmt.Sprintf(`{"rate":"100/s","slack":"10s","deliver":{"http":{"url":%q}}}`, url),
			"application/json",
		)
		call(t, "POST", in+"/v1/queues/"+name+"/jobs", `{"id":"1","payload":1}`, "application/json")
	}
	for name, want := range map[string]string{"self": "this process listens", "other": `"state":"delivered"`} {
		await.Until(t, name+" is done", func() bool {
			_, text := call(t, "GET", in+"/v1/queues/"+name+"/jobs/1", "", "")
			return strings.Contains(text, want)
		})
	}
	if status, text := call(
		t, "PUT", in+"/v1/queues/ingress",
		fmt.Sprintf(`{"rate":"1/s","deliver":{"http":{"url":%q}}}`, in+"/v1/queues/self/purge"), "application/json",
	); status != 400 || !strings.Contains(text, "this process listens") {
		t.Errorf("%d %s", status, text)
	}
}

// Ingress and drainer start while NATS is away, and do what can be done without; when it
// comes they go on by themselves.
func TestStartWithoutNATS(t *testing.T) {
	redis, nats, target := redistest.New(t, redistest.Options{}), startNATS(t), newReceiver(t)
	store := []string{"--redis", redis.URL(), "--init", "--nats", nats.URL(), "--egress-allow", "127.0.0.1"}
	nats.Stop()
	in, log := program(t, app.RunIngress, store...)
	out, _ := program(t, app.RunDrainer(nil), store...)
	p := &plant{target: target, base: in + "/v1/queues/email"}
	if status, text := call(
		t, "PUT", p.base,
		fmt.Sprintf(
			`{"rate":"500/s","slack":"10s","capacity":3,"overflow":"defer","deliver":{"http":{"url":%q}}}`, target.URL,
		),
		"application/json",
	); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	accepted := map[string]bool{"first": true}
	if status, word, _ := p.post(t, "first", ""); status != 202 || word != "waiting" {
		t.Errorf("%d %s", status, word)
	}
	p.arrived(t, accepted) // so the drainer works
	// Its place is free only when that is reported.
	await.Until(t, "the first job is delivered", func() bool {
		_, text := call(t, "GET", p.base, "", "")
		return strings.Contains(text, `"delivered":1`)
	})
	call(t, "POST", p.base+"/pause", "", "")
	for i := range 3 {
		id := fmt.Sprintf("j%d", i)
		if status, word, _ := p.post(t, id, ""); status != 202 || word != "waiting" {
			t.Errorf("%d %s", status, word)
		}
		accepted[id] = true
	}
	if status, word, retry := p.post(t, "k0", ""); status != 503 || word != "overflow_unavailable" || retry == "" {
		t.Errorf("%d %s, Retry-After %q", status, word, retry)
	}
	for _, url := range []string{in, out} {
		await.Until(t, "it is ready for what can be done", func() bool { // Redis may be late, where the machine is busy
			status, text := call(t, "GET", url+"/readyz", "", "")
			return status == 200 && strings.Contains(text, `"degraded"`) && strings.Contains(text, "not connected to NATS")
		})
	}
	for _, once := range []string{"nats is unreachable", "the overflow cannot be opened yet"} {
		if n := strings.Count(log.String(), once); n != 1 {
			t.Errorf("%q is logged %d times", once, n)
		}
	}

	if err := nats.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		id := fmt.Sprintf("k%d", i)
		await.Until(t, "it is deferred", func() bool {
			status, word, _ := p.post(t, id, "")
			return status == 202 && word == "deferred"
		})
		accepted[id] = true
	}
	for _, url := range []string{in, out} {
		await.Until(t, "it is ready", func() bool {
			_, text := call(t, "GET", url+"/readyz", "", "")
			return strings.Contains(text, `"ready"`)
		})
	}
	call(t, "POST", p.base+"/resume", "", "")
	p.arrived(t, accepted)
}

// What waiting does not mend is an error at the start, where there is a NATS to tell it;
// and no error has the password.
func TestStartUnfitNATS(t *testing.T) {
	redis, mine := redistest.New(t, redistest.Options{}), startNATS(t)
	conn, err := mine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "AGED_DEFERRED", Subjects: []string{"aged.deferred.>"}, MaxAge: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	serve := func(o *server.Options) (host string) {
		o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		await.Until(t, "NATS serves", func() bool { return s.ReadyForConnections(50 * time.Millisecond) })
		return s.Addr().String()
	}
	guarded, plain := serve(&server.Options{Username: "penstock", Password: "secret"}), serve(&server.Options{})
	none := filepath.Join(t.TempDir(), "none.creds")
	bad := filepath.Join(t.TempDir(), "bad.creds")
	if err := os.WriteFile(bad, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--nats", mine.URL(), "--nats-prefix", "aged"}, "max_age is 1h0m0s, needs none"},
		{[]string{"--nats", mine.URL(), "--nats-replicas", "3"}, "num_replicas 3"},
		{[]string{"--nats", "nats://penstock:hunter2@" + guarded}, "Authorization Violation"},
		{[]string{"--nats", "nats://" + plain}, "no JetStream"},
		{[]string{"--nats", "nats://" + plain, "--nats-creds", none}, "none.creds"},
		{[]string{"--nats", "nats://" + guarded, "--nats-creds", bad}, "--nats: "},
		{[]string{"--nats", "tls://" + plain}, "--nats: "},
		{[]string{"--nats", "nats://user:hunter2@host:port"}, "--nats: "},
	} {
		for name, run := range map[string]app.Program{"ingress": app.RunIngress, "drainer": app.RunDrainer(nil)} {
			err := run(
				t.Context(), append(c.args, "--redis", redis.URL(), "--init", "--listen", "127.0.0.1:0"), io.Discard, io.Discard,
			)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s %v: %v, want %q", name, c.args, err, c.want)
			}
		}
	}
}

// A drainer on whose overflow a queue is stuck says so, and what to do; when that was done
// it is ready again.
func TestStuckDrainer(t *testing.T) {
	redis, nats := redistest.New(t, redistest.Options{}), startNATS(t)
	out, _ := program(t, app.RunDrainer(nil), "--redis", redis.URL(), "--init", "--nats", nats.URL())
	conn, err := nats.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := js.Stream(t.Context(), "PENSTOCK_DEAD")
	if err != nil {
		t.Fatal(err)
	}
	full := dead.CachedInfo().Config
	full.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the subject is no queue's
		if _, err := js.Publish(t.Context(), "penstock.deferred.Stranger", []byte("not ours")); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "it is stuck", func() bool {
		_, text := call(t, "GET", out+"/readyz", "", "")
		return strings.Contains(text, `"degraded"`)
	})
	await.Until(t, "it is ready, and says what to do", func() bool {
		status, text := call(t, "GET", out+"/readyz", "", "")
		return status == 200 && strings.Contains(text, "nats stream purge PENSTOCK_DEAD")
	})
	if _, page := call(t, "GET", out+"/metrics", "", ""); !regexp.MustCompile(
		`penstock_dead_letter_failures_total\{reason="full"\} [1-9]`,
	).MatchString(page) {
		t.Error("the metrics do not tell of it")
	}
	if err := dead.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is ready", func() bool {
		_, text := call(t, "GET", out+"/readyz", "", "")
		return strings.Contains(text, `"ready"`)
	})
}

// A server that hangs up is no reason to give up, nor is a name that nobody knows.
func TestStartWithoutAnswer(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = ln.Close(); accepting.Wait() })
	for _, host := range []string{ln.Addr().String(), "nats.invalid:4222"} {
		url, _ := program(t, app.RunIngress, "--redis", redis.URL(), "--init", "--nats", "nats://"+host)
		await.Until(t, "it is ready for what can be done without "+host, func() bool {
			status, text := call(t, "GET", url+"/readyz", "", "")
			return status == 200 && strings.Contains(text, `"degraded"`)
		})
	}
}
