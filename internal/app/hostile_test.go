package app_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// onBothEngines runs a test with the options of a store of each kind.
func onBothEngines(t *testing.T, test func(*testing.T, store.Options)) {
	redis := redistest.New(t, redistest.Options{})
	for name, o := range map[string]store.Options{
		"embedded": {DataPath: t.TempDir()},
		"redis":    {RedisURL: redis.URL(), Init: true, Partitions: 4, Patience: redistest.Patience},
	} {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

// A receiver that changes what it echoes, and cuts it in two, makes no secret readable.
func TestHostileReceivers(t *testing.T) { onBothEngines(t, hostileReceivers) }

func hostileReceivers(t *testing.T, o store.Options) {
	const secret = "Hunter2-Abcdefgh-Ijklmnop"
	echo := map[string]func(sent http.Header) string{
		"spaces": func(h http.Header) string { return h.Get("X-Spaces") },
		"cookie": func(h http.Header) string { return strings.Split(h.Get("Cookie"), "; ")[1] },
		"plain":  func(h http.Header) string { return strings.Fields(h.Get("X-Plain"))[1] },
		"scheme": func(h http.Header) string { return strings.Fields(h.Get("Authorization"))[1] },
		"upper":  func(h http.Header) string { return strings.ToUpper(h.Get("X-Plain")) },
		"hex":    func(h http.Header) string { return hex.EncodeToString([]byte(h.Get("X-Plain"))) },
		"HEX":    func(h http.Header) string { return strings.ToUpper(hex.EncodeToString([]byte(h.Get("X-Spaces")))) },
		"first":  func(h http.Header) string { return h.Get("X-Spaces")[:13] },
		"second": func(h http.Header) string { return h.Get("X-Spaces")[12:] },
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, "you said "+echo[r.Header.Get("Penstock-Id")](r.Header)+".")
	}))
	defer receiver.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"A": secret + "\n", "B": " \t" + secret + "  \n", "A.allow": strings.TrimPrefix(receiver.URL, "http://"),
		"B.allow": strings.TrimPrefix(receiver.URL, "http://"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := secrets.Source{Dir: dir}
	engine, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(loopback(t), source),
	})
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: loopback(t), Secrets: source})
	defer router.Close()
	out, err := app.NewDrainer(engine, app.DrainerOptions{Handler: router})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ops.RunAll(ctx, in.Run, out.Run) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	status, text := call(t, "PUT", in.URL()+"/v1/queues/q", fmt.Sprintf(
		`{"rate":"100/s","slack":"10s","retry":{"max_attempts":1},"deliver":{"http":{"url":%q,"headers":{
		"X-Spaces":"${secret:B}","Cookie":"session=1; key=${secret:A}; v=2","X-Plain":"name ${secret:A}",
		"Authorization":"Token  ${secret:A}"}}}}`, receiver.URL,
	), "application/json")
	if status != 201 {
		t.Fatal(status, text)
	}
	for id := range echo {
		if status, text = call(
			t, "POST", in.URL()+"/v1/queues/q/jobs", fmt.Sprintf(`{"id":%q,"payload":1}`, id), "application/json",
		); status != 202 {
			t.Fatal(status, text)
		}
		await.Until(t, id+" is dead", func() bool {
			_, text = call(t, "GET", in.URL()+"/v1/queues/q/jobs/"+id, "", "")
			return strings.Contains(text, `"state":"dead"`)
		})
		shown := strings.ToLower(text)
		for i := range len(secret) - 8 {
			part := strings.ToLower(secret[i : i+8])
			if strings.Contains(shown, part) || strings.Contains(shown, hex.EncodeToString([]byte(secret[i:i+8]))) {
				t.Errorf("%s: a part of the secret is shown: %s", id, text)
				break
			}
		}
		if !strings.Contains(text, "you said ") || !strings.Contains(text, "***") {
			t.Errorf("%s: what is shown does not say what the receiver answered: %s", id, text)
		}
	}
}

// What an app may name no longer gets no more jobs, of queues that were there before too, and those wait unspent.
func TestHostileOldTargets(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		var heard atomic.Int64
		receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
		defer receiver.Close()
		t.Setenv("PENSTOCK_SECRET_key", "hunter2-key")
		allow, err := secrets.ParseAllow("key=" + strings.TrimPrefix(receiver.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		may := func(lists string) {
			if _, err := e.PutDocument(t.Context(), document.Document{
				Kind: "app", Name: "acme", Text: []byte(`{"name":"acme","prefixes":["acme-*"],` + lists + `}`),
			}, queue.AnyRevision); err != nil {
				t.Fatal(err)
			}
		}
		const all = `"hosts":["127.0.0.1"],"secrets":["key"]`
		may(all)
		owners := outflow(t, e, deliver.Options{Egress: loopback(t), Secrets: secrets.Source{Allow: []secrets.Allow{allow}}})
		deliver := fmt.Appendf(nil, `{"http":{"url":%q,"headers":{"X-Key":"${secret:key}"}}}`, receiver.URL)
		for _, name := range []string{"acme-web", "beta-web"} {
			if _, err := e.Put(t.Context(), queue.Spec{
				Name: name, Rate: leaky.Unlimited, Retry: queue.Retry{MaxAttempts: 1}, Deliver: deliver,
				Circuit: queue.Circuit{MinProbe: unit.Duration(100 * time.Millisecond), MaxProbe: unit.Duration(time.Second)},
			}, 0); err != nil {
				t.Fatal(err)
			}
		}
		send := func(id string) {
			t.Helper()
			for _, name := range []string{"acme-web", "beta-web"} {
				if _, err := e.Append(t.Context(), []queue.Job{{Queue: name, ID: id, Payload: []byte("{}")}}); err != nil {
					t.Fatal(err)
				}
			}
			delivered(t, e, "beta-web", id) // which nothing was said of
		}
		send("before")
		delivered(t, e, "acme-web", "before")
		for id, lists := range map[string]string{
			"no-secret": `"hosts":["127.0.0.1"]`, "no-host": `"hosts":["api.example.com"],"secrets":["key"]`,
		} {
			may(lists)
			await.Until(t, "the drainer has heard", func() bool {
				a, err := owners.Permitted("acme-web")
				return err == nil && !(a.Hosts.Match("127.0.0.1") && a.Secrets.Match("key"))
			})
			before := heard.Load()
			send(id)
			await.Until(t, "the queue says why its job waits", func() bool {
				q, err := e.Get(t.Context(), "acme-web")
				return err == nil && strings.Contains(q.Circuit.Reason, "that the app acme may use")
			})
			if j, err := e.Job(t.Context(), "acme-web", id); err != nil || j.Attempts != 0 || heard.Load() != before+1 {
				t.Errorf("%s: %+v, %v, the receiver heard %d more", id, j, err, heard.Load()-before)
			}
			may(all)
			delivered(t, e, "acme-web", id)
		}
	})
}

// An app learns nothing of the operator's network from what becomes of its jobs.
func TestHostileProbes(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_ = l.Close()
		if _, err := e.PutDocument(t.Context(), document.Document{
			Kind: "app", Name: "acme", Text: []byte(`{"name":"acme","prefixes":["acme-*"],"hosts":["*"]}`),
		}, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		closed, err := egress.New()
		if err != nil {
			t.Fatal(err)
		}
		for kind, guard := range map[string]*egress.Guard{"refused": closed, "unreachable": loopback(t)} {
			t.Run(kind, func(t *testing.T) {
				outflow(t, e, deliver.Options{Egress: guard})
				name := "acme-" + kind
				if _, err := e.Put(t.Context(), queue.Spec{
					Name: name, Rate: leaky.Unlimited, Deliver: fmt.Appendf(nil, `{"http":{"url":"http://localhost:%s/"}}`, port),
				}, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Append(t.Context(), []queue.Job{{Queue: name, ID: "1", Payload: []byte("{}")}}); err != nil {
					t.Fatal(err)
				}
				var q *queue.Info
				await.Until(t, "the circuit opens", func() bool {
					info, err := e.Get(t.Context(), name)
					q = &info
					return err == nil && q.Circuit.Open()
				})
				j, err := e.Job(t.Context(), name, "1")
				shown := fmt.Sprintf("%+v %+v %s", q.Circuit, q.Errors, j.Reason)
				if err != nil || strings.Contains(shown, "127.0.0.1") || strings.Contains(shown, "::1") {
					t.Errorf("%v %s", err, shown)
				}
			})
		}
	})
}

// outflow runs a drainer with such a router.
func outflow(t *testing.T, e queue.Engine, o deliver.Options) *auth.Owners {
	t.Helper()
	owners := auth.NewOwners(e, nil)
	o.Permitted = app.Permitted(owners)
	router := deliver.New(o)
	d, err := app.NewDrainer(e, app.DrainerOptions{Handler: router, Owners: owners})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-end, router.Close()); err != nil {
			t.Error(err)
		}
	})
	return owners
}

func delivered(t *testing.T, e queue.Engine, name, id string) {
	t.Helper()
	await.Until(t, id+" of "+name+" is delivered", func() bool {
		j, err := e.Job(t.Context(), name, id)
		return err == nil && j.State == queue.Delivered
	})
}
