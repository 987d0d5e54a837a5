package httptarget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// What a receiver may have, nobody knows whether it has; what it cannot have, it has not.
func TestLost(t *testing.T) {
	whole := func(c net.Conn) {
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}
	for _, c := range []struct {
		name  string
		serve func(c net.Conn, end <-chan struct{})
	}{
		{"closed after the body", func(c net.Conn, _ <-chan struct{}) { whole(c) }},
		{"reset after the body", func(c net.Conn, _ <-chan struct{}) { whole(c); _ = c.(*net.TCPConn).SetLinger(0) }},
		{"closed in the body", func(c net.Conn, _ <-chan struct{}) { _, _ = io.CopyN(io.Discard, c, 1000) }},
		{"half an answer", func(c net.Conn, _ <-chan struct{}) {
			whole(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
		}},
		{"no answer of HTTP", func(c net.Conn, _ <-chan struct{}) { whole(c); _, _ = io.WriteString(c, "hello\r\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := make(chan struct{})
			addr := raw(t, nil, func(_ int, conn net.Conn) { defer conn.Close(); c.serve(conn, end) })
			job := jobFor("http://"+addr, strings.Repeat("x", 1<<20))
			job.Spec.Deliver = config("http://"+addr, time.Minute)
			said := drain.What(sender(t, Options{}).Handle(t.Context(), job, opened()))
			close(end)
			if said.Verdict != queue.Hold || !said.Trouble {
				t.Errorf("says %+v, want that nobody knows, and trouble", said)
			}
		})
	}

	for name, serve := range map[string]func(c net.Conn, end <-chan struct{}){
		"silent after the body":  func(c net.Conn, end <-chan struct{}) { whole(c); <-end },
		"silent before the body": func(_ net.Conn, end <-chan struct{}) { <-end },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				job := jobFor("http://"+nowhere, strings.Repeat("x", 1<<20))
				job.Spec.Deliver = config("http://"+nowhere, 300*time.Millisecond)
				r := piped(t, func(conn net.Conn) { serve(conn, end) })
				said := drain.What(r.Handle(t.Context(), job, opened()))
				close(end)
				if said.Verdict != queue.Hold || !said.Trouble {
					t.Errorf("says %+v, want that nobody knows, and trouble", said)
				}
			})
		})
	}

	// Interrupted here: nobody knows either, and it is not the receiver's fault.
	ctx, cancel := context.WithCancelCause(t.Context())
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(drain.ErrLeaseLost)
		<-r.Context().Done()
	})
	if said := drain.What(sender(t, Options{}).Handle(ctx, jobFor(s.URL, "{}"), opened())); said.Verdict != queue.Hold ||
		said.Trouble {
		t.Errorf("interrupted: says %+v", said)
	}
}

// A target that cannot be reached, or not be used, is down: no attempt is spent.
func TestDown(t *testing.T) {
	stranger, _, _ := secure(t, func(http.ResponseWriter, *http.Request) { t.Error("delivered to a stranger") })
	stranger.Config.ErrorLog = discard()
	plain, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	for name, setting := range map[string]string{
		"refused":          `"url": "http://` + nowhere + `"`,
		"no such host":     `"url": "http://nowhere.invalid/"`,
		"a stranger":       `"url": "` + stranger.URL + `"`,
		"no TLS":           `"url": "https` + strings.TrimPrefix(plain.URL, "http") + `"`,
		"no secret":        `"url": "` + plain.URL + `", "headers": {"Authorization": "Bearer ${secret:NONE}"}`,
		"no secret in URL": `"url": "` + plain.URL + `/${secret:NONE}"`,
		"no such CA":       `"url": "` + stranger.URL + `", "tls": {"ca": "${secret:NONE}"}`,
		"a private target": `"url": "http://10.0.0.1/"`,
	} {
		job := jobFor("", "{}")
		job.Spec.Deliver = []byte(`{"http": {` + setting + `}}`)
		g := opened()
		err := sender(t, Options{}).Handle(t.Context(), job, g)
		if said := drain.What(err); said.Verdict != queue.Down || g.count() != 0 {
			t.Errorf("%s: %v says %+v", name, err, said)
		}
		var missing *secrets.Error
		if errors.As(err, &missing) != strings.Contains(setting, "NONE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing inside is reached, however it is written, without being allowed: by those who
// take the setting, or else by those who connect.
func TestEgress(t *testing.T) {
	hits := 0
	inside, _ := server(t, func(http.ResponseWriter, *http.Request) { hits++ })
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	strict, err := egress.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"http://127.0.0.1", "http://127.0.0.1:" + port, "http://localhost:" + port, "http://[::1]:" + port,
		"http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://[::]:" + port,
		"http://[::ffff:169.254.169.254]/", "http://169.254.169.254/latest/meta-data/", "http://2130706433/",
		"http://2130706433:" + port, "http://0x7f.1:" + port, "http://127.1:" + port,
		"http://a@10.0.0.1/", "http://10.0.0.1/", "http://[fd00:ec2::254]/", "http://[64:ff9b::7f00:1]:" + port,
		"https://[2002:7f00:1::]:" + port,
		"gopher://127.0.0.1/", "file:///etc/passwd",
	} {
		for name, guard := range map[string]*egress.Guard{"none": nil, "strict": strict} {
			r := router{New(Options{Egress: guard})}
			g := opened()
			err := r.Handle(t.Context(), jobFor(url, "{}"), g)
			if err == nil || g.count() != 0 {
				t.Errorf("%s, %s guard: %v, at the gate %d times", url, name, err, g.count())
			}
			_ = r.Close()
		}
	}
	if hits != 0 {
		t.Errorf("%d requests came inside", hits)
	}
	// A receiver that is allowed sends on to one that is not, and nobody follows.
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL, http.StatusPermanentRedirect)
	})
	wantErr(t, sender(t, Options{}).Handle(t.Context(), jobFor(s.URL, "{}"), opened()), nil, "redirects are not followed")
	if hits != 0 {
		t.Error("followed")
	}
}

// Whatever receivers answer with, memory does not follow.
func TestMemory(t *testing.T) {
	const answers, at = 16, 100 << 20
	addr := raw(t, nil, func(n int, conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			return
		}
		head := map[int]string{
			0: "HTTP/1.1 200 OK\r\nX: ", 1: "HTTP/1.1 500 No\r\n\r\n",
			2: "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n", 3: "",
		}[n%4]
		_, _ = io.WriteString(conn, head)
		chunk := []byte(strings.Repeat("x", 64<<10))
		for sent := 0; sent < at; sent += len(chunk) {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	})
	r := sender(t, Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range answers {
		if r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()) == nil {
			t.Error("delivered")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / answers; got > 1<<20 {
		t.Errorf("%d bytes an answer", got)
	}
}

// An answer that is longer than it says does not become that of the next job.
func TestLongerThanItSays(t *testing.T) {
	requests := 0
	addr := raw(t, nil, func(n int, conn net.Conn) {
		defer conn.Close()
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			requests++
			_, _ = fmt.Fprintf(
				conn, "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno%s",
				strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 3),
			)
		}
	})
	r := sender(t, Options{})
	for range 50 {
		if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err == nil {
			t.Fatalf("delivered by what came behind the answer before; %d requests", requests)
		}
	}
}
