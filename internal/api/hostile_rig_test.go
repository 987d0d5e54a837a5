package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// leastHostile is how many requests the hostile suite has at least, each with the answer that it must get. The tests of
// apps, sessions and the audit log send others.
const leastHostile = 180

func TestHostileSuiteIsLarge(t *testing.T) {
	different := map[string]bool{}
	for _, list := range [][]hostile{smuggled(), ofPages(), ofTexts()} {
		for i := range list {
			different[list[i].raw] = true
		}
	}
	if len(different) < leastHostile {
		t.Errorf("the hostile suite has %d different requests, want %d", len(different), leastHostile)
	}
	t.Logf("%d different requests", len(different))
}

// hostile is one request as it goes over the wire, and what must come of it.
type hostile struct {
	name string
	raw  string
	// status is what is answered; 0 is that the connection is closed without an answer.
	status int
	reason string // of a refusal
	field  string // of a refusal, if it must be told
	// closes says that nothing more is answered on the connection. Otherwise the next request on it is.
	closes bool
}

// victim is an ingress as it is run, with the queue victim that holds one job, which no hostile request changes.
type victim struct {
	t      *testing.T
	addr   string
	engine queue.Engine
	job    string
	// revision is that of the queue, which no hostile request changes either.
	revision int64
}

// patient is a limit that no request here meets.
const patient = time.Minute

// attacked starts one that has patience.
func attacked(t *testing.T, hosts ...string) *victim {
	t.Helper()
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	x := &victim{t: t, engine: engine, job: "kept"}
	x.listen(patient, hosts...)
	for _, raw := range []string{
		putTo("/v1/queues/victim", `{"rate":"1/h"}`), putTo(
			"/v1/rules/victim.limit", `{"algorithm":"fixed_window","limit":5,"period":"1h"}`,
		),
		postTo("/v1/queues/victim/jobs", `{"id":"first","payload":1}`), postTo(
			"/v1/queues/victim/jobs", `{"id":"kept","payload":1}`,
		),
	} {
		if status, _, text := x.send(raw); status/100 != 2 {
			t.Fatalf("%d %s", status, text)
		}
	}
	info, err := engine.Get(t.Context(), "victim")
	if err != nil {
		t.Fatal(err)
	}
	x.revision = info.Revision
	return x
}

// listen puts an ingress before the engine, in the place of the one that was asked until now. It waits so long for a
// header, and for the next job of a stream.
func (x *victim) listen(wait time.Duration, hosts ...string) {
	x.t.Helper()
	in, err := app.NewIngress(x.engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0", Hosts: hosts},
		Server: ops.ServerOptions{
			HeaderTimeout: wait, ReadTimeout: 2 * wait, Grace: time.Second,
		},
		API: api.Options{BodyTimeout: wait},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := in.Run(ctx); err != nil {
			x.t.Error(err)
		}
	})
	x.t.Cleanup(func() { stop(); running.Wait() })
	x.addr = in.Addr().String()
}

func (x *victim) dial() (net.Conn, *bufio.Reader) {
	x.t.Helper()
	conn, err := net.Dial("tcp", x.addr)
	if err != nil {
		x.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn, bufio.NewReader(conn)
}

// send returns the answer to one request.
func (x *victim) send(raw string) (status int, head http.Header, text string) {
	x.t.Helper()
	conn, in := x.dial()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, raw) }() // it may be answered, and cut off, before it has all been sent
	return answerOf(raw, in)
}

func answerOf(raw string, in *bufio.Reader) (status int, head http.Header, text string) {
	method, _, _ := strings.Cut(raw, " ")
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return resp.StatusCode, resp.Header, string(b)
}

// attack sends each, holds the answers to what they must be, and looks that nothing was done.
func (x *victim) attack(list []hostile) {
	for _, h := range list {
		x.t.Run(h.name, func(t *testing.T) {
			conn, in := x.dial()
			defer conn.Close()
			sent := make(chan struct{})
			go func() { defer close(sent); _, _ = io.WriteString(conn, h.raw) }()
			status, head, text := answerOf(h.raw, in)
			if status != h.status {
				t.Fatalf("status %d, want %d: %.300s", status, h.status, text)
			}
			if h.reason != "" {
				h.judge(t, head, text)
			}
			if head.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a web page is let read it")
			}
			if h.closes || status == 0 {
				if rest, err := io.ReadAll(in); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("behind it there is %.200q, %v; want the end", rest, err)
				}
			} else {
				<-sent
				const next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
				_, _ = io.WriteString(conn, next)
				if status, _, text := answerOf(next, in); status != 200 || !strings.Contains(text, `"ok"`) {
					t.Errorf("the next request is answered %d %.200s", status, text)
				}
			}
			x.unharmed(t)
		})
	}
}

// judge looks at a refusal.
func (h *hostile) judge(t *testing.T, head http.Header, text string) {
	t.Helper()
	if got := head.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if strings.HasPrefix(h.raw, "HEAD ") {
		return
	}
	var p struct {
		Type, Title, Reason, Detail, Field string
		Status                             int
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	if p.Reason != h.reason || p.Status != h.status || p.Detail == "" || p.Title == "" ||
		!strings.HasSuffix(p.Type, "/"+p.Reason) || len(text) > 2000 {
		t.Errorf("%.500s, want reason %s", text, h.reason)
	}
	if h.field != "" && p.Field != h.field {
		t.Errorf("field %q, want %q: %.300s", p.Field, h.field, text)
	}
}

// unharmed looks at the queue and its job.
func (x *victim) unharmed(t *testing.T) {
	t.Helper()
	info, err := x.engine.Get(t.Context(), "victim")
	if err != nil || info.Pause.On() || info.Revision != x.revision || info.Appended != 2 {
		t.Fatalf("victim: revision %d, paused %v, appended %d, %v", info.Revision, info.Pause.On(), info.Appended, err)
	}
	if j, err := x.engine.Job(t.Context(), "victim", x.job); err != nil || j.State == queue.Cancelled {
		t.Fatalf("its job: %v, %v", j.State, err)
	}
}

// request writes one. Headers are given as they stand on the wire, without their ends; one without a Host gets
// localhost.
func request(method, path, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
	has := func(name string) bool {
		for _, h := range headers {
			if strings.HasPrefix(strings.ToLower(h), name+":") {
				return true
			}
		}
		return false
	}
	if !has("host") {
		b.WriteString("Host: localhost\r\n")
	}
	if body != "" && !has("content-length") && !has("transfer-encoding") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n" + body
}

const asJSON, asLines = "Content-Type: application/json", "Content-Type: application/x-ndjson"

func get(path string, headers ...string) string { return request("GET", path, "", headers...) }

// postTo and putTo say that it is JSON.
func postTo(path, body string, headers ...string) string {
	return request("POST", path, body, append(headers, asJSON)...)
}

func putTo(path, body string, headers ...string) string {
	return request("PUT", path, body, append(headers, asJSON)...)
}
