package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// The floor: read, decode, answer the same.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	var job struct {
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &job)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(
		w,
		`{"id":%q,"state":"waiting","position":1,"eta":{"at":"2026-05-04T03:02:01.123456Z","exact":false}}`+"\n",
		job.ID,
	)
})

// BenchmarkPost compares what a request costs here with the floor, over 64
// connections, an engine that costs nothing behind both; and what it costs with a token.
func BenchmarkPost(b *testing.B) {
	authority, secret := onlyToken(b)
	for _, c := range []struct {
		name    string
		handler http.Handler
		header  string
	}{
		{"bare", bare, ""},
		{"ours", api.New(forgetful{newEngine()}, api.Options{}), ""},
		{"token", api.New(forgetful{newEngine()}, api.Options{Auth: authority}), "Authorization: Bearer " + secret + "\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := ops.NewServer(ops.Listen{Addr: "127.0.0.1:0"}, ops.ServerOptions{})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Run(b.Context(), c.handler) }()
			flood(b, s.Addr().String(), c.header)
		})
	}
}

// onlyToken is an Authority that knows one token, of an app that may append to the queue email.
func onlyToken(b *testing.B) (authority *auth.Authority, secret string) {
	store, err := boltq.Open(b.Context(), filepath.Join(b.TempDir(), "store"), boltq.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	authority, err = auth.New(store, auth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	run(b, authority.Run)
	await.Until(b, "the authority is ready", func() bool { return authority.Ready() == nil })
	operator := auth.Operator("bench")
	_, err = authority.PutApp(b.Context(), operator, auth.App{Name: "acme", Prefixes: []string{"email"}}, 0)
	if err == nil {
		secret, _, err = authority.CreateToken(
			b.Context(), operator, auth.Token{App: "acme", Grants: []auth.Grant{{Role: auth.Produce}}},
		)
	}
	if err != nil {
		b.Fatal(err)
	}
	return authority, secret
}

func flood(b *testing.B, addr, header string) {
	body := `{"id":"01h2xcejqtf2nbrexx3vqjhp41","payload":{"text":"` + strings.Repeat("x", 244) + `"}}`
	request := fmt.Sprintf(
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		jobs, header, len(body), body,
	)
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for left.Add(-1) >= 0 {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// skipAnswer reads one answer at little cost, so that what is measured is the server.
func skipAnswer(r *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		text, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.Contains(string(text), " 202 ") {
			return fmt.Errorf("answered %s", text)
		}
		if len(text) <= 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(text), "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	_, err := r.Discard(length)
	return err
}

// A job that finds no bytes is told what is held, what may be, and what it needs; one that never fits is refused for
// good.
func TestFullByBytes(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	f := serve(t, api.Options{})
	f.serveOver(e, api.Options{})
	letters := func(n int) string { return strings.Repeat("x", n) }
	f.do(
		"PUT", "/v1/queues/email", `{"rate":"1/h","max_bytes":"2KiB","lanes":{"max_bytes":1200}}`,
	).want(t, 201, "max_bytes", "2KiB")
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(500)+`"}`).want(t, 202)
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(100)+`","lane":"x"}`).want(t, 202)
	a := f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(100)+`","lane":"x"}`)
	a.want(t, 429, "reason", "lane_full", "field", "lane")
	if b, _ := a.body["bytes"].(map[string]any); b["max"] != 1200.0 || b["held"] == nil || b["needs"] == nil {
		t.Errorf("%s", a.text)
	}
	a = f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(500)+`"}`)
	a.want(t, 429, "reason", "full")
	if b, _ := a.body["bytes"].(map[string]any); b["max"] != 2048.0 || a.body["retry_after_ms"] == nil ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a.text)
	}
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(2000)+`"}`).want(
		t, 400, "reason", "invalid_field", "field", "payload", "retry_after_ms", nil,
	)
	f.do("POST", "/v1/queues/email/jobs", `{"payload":"`+letters(1000)+`","lane":"x"}`).want(
		t, 400, "reason", "invalid_field", "field", "payload",
	)
	stats, _ := f.do("GET", "/v1/queues/email", "").body["stats"].(map[string]any)
	if held, _ := stats["bytes"].(float64); held < 1600 || held > 2048 || stats["max_bytes"] != 2048.0 {
		t.Errorf("%v", stats)
	}
}

// A store that fills is told of by /readyz, which stays 200: what makes room comes through this server too.
func TestReadinessOfAStoreThatFills(t *testing.T) {
	f := serve(t, api.Options{})
	for _, c := range []struct {
		space queue.Space
		want  []any
	}{
		{queue.Space{}, []any{"status", "ready"}},
		{queue.Space{Used: 80, Stop: 100, Limit: 110}, []any{"status", "ready"}},
		{queue.Space{Used: 81, Stop: 100, Limit: 110}, []any{
			"status", "degraded", "store", "filling", "detail",
			"the store is nearly full: 81 of 110 bytes are in use, and the limit for new jobs is 100",
		}},
		{queue.Space{Used: 100, Stop: 100, Limit: 110}, []any{"status", "degraded", "store", "full"}},
	} {
		f.engine.space = c.space
		f.do("GET", "/readyz", "").want(t, 200, c.want...)
	}
}
