package app_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// misbehavior is what a receiver does, and what its caller must get.
type misbehavior struct {
	name   string
	method string // GET if empty
	// says is written as the answer, before the connection is closed.
	says string
	// does replaces says.
	does   func(in *bufio.Reader, conn net.Conn)
	status int
	reason string // of a refusal
	text   string // of the answer, if there is no reason
	broken bool   // the answer breaks off
	// has is what headers must be; an empty value means that the header is absent.
	has map[string]string
}

func said(parts ...string) string { return strings.Join(parts, "\r\n") }

func stall(in *bufio.Reader, _ net.Conn) { _, _ = in.ReadByte() } // until the other side ends it

func thenStall(text string) func(*bufio.Reader, net.Conn) {
	return func(in *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		stall(in, conn)
	}
}

func misbehaviors() []misbehavior {
	const ok = "HTTP/1.1 200 OK"
	failed := func(name, says string) misbehavior {
		return misbehavior{name: name, says: says, status: 502, reason: "receiver_failed"}
	}
	return []misbehavior{
		failed("closes", ""),
		{name: "resets", does: func(_ *bufio.Reader, conn net.Conn) {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, status: 502, reason: "receiver_failed"},
		{name: "never-starts", does: stall, status: 504, reason: "receiver_timeout"},
		{name: "half-a-head", does: thenStall(ok + "\r\nX: y"), status: 504, reason: "receiver_timeout"},
		failed("ends-in-its-head", ok+"\r\nX: y"),
		failed("garbage", "\x00\x01\x02\xff garbage\r\n\r\n"),
		failed("http2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		failed("http2-status", said("HTTP/2.0 200 OK", "Content-Length: 2", "", "ok")),
		failed("http09", "ok"),
		failed("another-protocol", "220 mail.example.com ESMTP\r\n"),
		failed("switches", said("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket", "", "")),
		failed("status-99", said("HTTP/1.1 099 Odd", "Content-Length: 0", "", "")),
		failed("status-0", said("HTTP/1.1 000 Odd", "Content-Length: 0", "", "")),
		failed("status-text", said("HTTP/1.1 OK", "", "")),
		{name: "status-999", says: said("HTTP/1.1 999 Odd", "Content-Length: 1", "", "x"), status: 999, text: "x"},
		{name: "endless-interim", does: func(_ *bufio.Reader, conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"); err != nil {
					return
				}
			}
		}, status: 502, reason: "receiver_failed"},
		{
			name: "interim", says: said("HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "Link: </a>", "", plainOK),
			status: 200, text: "ok", has: map[string]string{"Link": ""},
		},
		failed("70-KiB-head", said(ok, "X: "+strings.Repeat("x", 70<<10), "Content-Length: 2", "", "ok")),
		{
			name: "60-KiB-head", says: said(ok, "X: "+strings.Repeat("x", 60<<10), "Content-Length: 2", "", "ok"),
			status: 200, text: "ok", has: map[string]string{"X": strings.Repeat("x", 60<<10)},
		},
		{
			name: "space-in-a-name", says: said(ok, "X y: z", "Content-Length: 2", "", "ok"), status: 200, text: "ok",
			has: map[string]string{"X y": "", "X-Y": ""},
		},
		failed("two-lengths", said(ok, "Content-Length: 2", "Content-Length: 3", "", "ok!")),
		failed("negative-length", said(ok, "Content-Length: -2", "", "ok")),
		failed("gzip-chunked", said(ok, "Transfer-Encoding: gzip, chunked", "", "0", "", "")),
		{name: "too-short", says: said(ok, "Content-Length: 10", "", "12345"), status: 200, text: "12345", broken: true},
		{
			name: "too-long", says: said(ok, "Content-Length: 5", "", "12345HTTP/1.1 500 Injected", "", ""), status: 200,
			text: "12345",
		},
		{
			name: "length-and-chunks", says: said(ok, "Content-Length: 3", "Transfer-Encoding: chunked", "", "5", "12345", "0",
				"", ""),
			status: 200, text: "12345", has: map[string]string{"Content-Length": ""},
		},
		{
			name: "bad-chunk", says: said(ok, "Transfer-Encoding: chunked", "", "2", "ok", "zz", ""), status: 200, text: "ok",
			broken: true,
		},
		{
			name: "no-last-chunk", says: said(ok, "Transfer-Encoding: chunked", "", "2", "ok", ""), status: 200, text: "ok",
			broken: true,
		},
		{
			name: "chunks-stall", does: thenStall(said(ok, "Transfer-Encoding: chunked", "", "2", "ok", "")), status: 200,
			text: "ok", broken: true,
		},
		{
			name: "length-stalls", does: thenStall(said(ok, "Content-Length: 5", "", "ok")), status: 200, text: "ok",
			broken: true,
		},
		{name: "until-the-end", says: said("HTTP/1.0 200 OK", "", "ok"), status: 200, text: "ok"},
		{
			name: "head", method: "HEAD", says: said(ok, "Content-Length: 5000", "", ""), status: 200,
			has: map[string]string{"Content-Length": "5000"},
		},
		{name: "head-with-body", method: "HEAD", says: said(ok, "Content-Length: 2", "", "ok"), status: 200},
		{name: "no-content", says: said("HTTP/1.1 204 No Content", "Content-Length: 5", "", "12345"), status: 204},
		{
			name: "not-modified", says: said("HTTP/1.1 304 Not Modified", "Content-Length: 5", "Etag: \"a\"", "", ""),
			status: 304, has: map[string]string{"Etag": `"a"`},
		},
		{name: "server-error", says: said("HTTP/1.1 500 Oops", "Content-Length: 2", "", "no"), status: 500, text: "no"},
		{
			name: "hop-by-hop", says: said(
				ok, "Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic",
				"X-End: 2", "Content-Length: 2", "", "ok",
			), status: 200, text: "ok",
			has: map[string]string{"X-Hop": "", "Keep-Alive": "", "Proxy-Authenticate": "", "X-End": "2"},
		},
		{
			name: "of-the-origin", says: said(
				ok, "Set-Cookie: session=1", "Strict-Transport-Security: max-age=9", "Clear-Site-Data: \"*\"",
				"Alt-Svc: h3=\":1\"", "Service-Worker-Allowed: /", "Content-Length: 2", "", "ok",
			), status: 200, text: "ok", has: map[string]string{
				"Set-Cookie": "", "Strict-Transport-Security": "", "Clear-Site-Data": "", "Alt-Svc": "",
				"Service-Worker-Allowed": "", "Content-Security-Policy": "sandbox",
			},
		},
		{
			name: "forged-wait", says: said(ok, "Penstock-Waited: 12345678", "Content-Length: 2", "", "ok"),
			status: 200, text: "ok", has: map[string]string{"Penstock-Waited": "0"},
		},
		{
			name: "moved-below", says: said("HTTP/1.1 307 Moved", "Location: /base/v2?a=b", "Content-Length: 0", "", ""),
			status: 307, has: map[string]string{"Location": "/proxy/q/v2?a=b"},
		},
		{
			name: "moved-relative", says: said("HTTP/1.1 307 Moved", "Location: other", "Content-Length: 0", "", ""),
			status: 307, has: map[string]string{"Location": "/proxy/q/other"},
		},
		{
			name: "moved-elsewhere", says: said("HTTP/1.1 307 Moved", "Location: http://example.com/v1/queues/q",
				"Content-Length: 0", "", ""),
			status: 307, has: map[string]string{"Location": "http://example.com/v1/queues/q"},
		},
		{
			name: "moved-to-nowhere", says: said("HTTP/1.1 307 Moved", "Location: http://[::1", "Content-Length: 0", "", ""),
			status: 307, has: map[string]string{"Location": ""},
		},
	}
}

// Whatever a receiver does, its caller gets a valid answer or an end, the next call gets nothing of it, and no call,
// place or connection is left.
func TestHostileProxyReceivers(t *testing.T) {
	list := misbehaviors()
	by := map[string]*misbehavior{}
	for i := range list {
		by[list[i].name] = &list[i]
	}
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		_, path, _ := strings.Cut(head, " /base/")
		name, _, _ := strings.Cut(path, " ")
		m := by[name]
		switch {
		case m == nil:
			_, _ = io.WriteString(conn, plainOK)
		case m.does != nil:
			m.does(in, conn)
		default:
			_, _ = io.WriteString(conn, m.says)
		}
	})
	g := newGateway(t)
	g.put("q", p.url+"/base", `"circuit":{"off":true}`, `"timeout":"300ms"`)
	for i := range list {
		m := &list[i]
		t.Run(m.name, func(t *testing.T) {
			method := m.method
			if method == "" {
				method = http.MethodGet
			}
			a := g.raw(method + " /proxy/q/" + m.name + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if a.status != m.status || a.reason != m.reason || m.reason == "" && a.text != m.text || (a.err != nil) != m.broken {
				t.Errorf("answered %d %q %.200q, %v; want %d %q %q", a.status, a.reason, a.text, a.err, m.status, m.reason, m.text)
			}
			for name, want := range m.has {
				if got := a.header.Get(name); got != want && !(name == "Penstock-Waited" && got != "12345678") {
					t.Errorf("%s is %.100q, want %.100q", name, got, want)
				}
			}
			g.quiet("q")
			p.idle()
			if a := g.call("GET", "/proxy/q/", ""); a.status != 200 || a.text != "ok" {
				t.Errorf("the next call: %d %.200q, %v", a.status, a.text, a.err)
			}
		})
	}
	t.Logf("%d receivers", len(list))
}

// A Location that is not below the target's URL leads to the receiver, not to the API beside the proxy.
func TestHostileProxyRedirectToTheAPI(t *testing.T) {
	p := newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, said("HTTP/1.1 307 Moved", "Location: /v1/queues/victim/jobs", "Content-Length: 0", "",
			""))
	})
	g := newGateway(t)
	g.put("q", p.url+"/base", "", "")
	if a := g.call("POST", "/proxy/q/x", "{}"); a.status != 307 ||
		a.header.Get("Location") != p.url+"/v1/queues/victim/jobs" {
		t.Errorf("%d, Location %q", a.status, a.header.Get("Location"))
	}
}

// Answers are not changed: a compressed body stays as it is, with its length.
func TestHostileProxyCompressedAnswer(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, "hello")
	_ = z.Close()
	p := newRawReceiver(t, func(head string, _ *bufio.Reader, conn net.Conn) {
		if fields(t, head).Get("Accept-Encoding") != "gzip, br" {
			t.Errorf("the receiver got %q", head)
		}
		_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "Content-Encoding: gzip", "Content-Length: "+
			strconv.Itoa(packed.Len()), "", packed.String()))
	})
	g := newGateway(t)
	g.put("q", p.url, "", "")
	a := g.call("GET", "/proxy/q", "", "Accept-Encoding", "gzip, br")
	if a.text != packed.String() || a.header.Get("Content-Encoding") != "gzip" ||
		a.header.Get("Content-Length") != strconv.Itoa(packed.Len()) {
		t.Errorf("%d %q %v", a.status, a.text, a.header)
	}
}

// Events arrive one by one: each is sent only when the caller has the one before, and the headers before the first.
func TestHostileProxyEvents(t *testing.T) {
	next := make(chan string)
	p := newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n")
		for event := range next {
			_, _ = io.WriteString(conn, event)
		}
	})
	g := newGateway(t)
	g.put("q", p.url, "", `"timeout":"30s"`)
	conn := g.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /proxy/q/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil) // no event was sent yet
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" || g.metric("penstock_proxy_active", "") != 1 {
		t.Errorf("%v", resp.Header)
	}
	for range 5 {
		next <- "9\r\ndata: 1\n\n\r\n"
		got := make([]byte, 9)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "data: 1\n\n" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	next <- "0\r\n\r\n"
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	g.quiet("q")
	if g.outcome("answered") != 1 {
		t.Error("it is not counted as answered")
	}
}

// Trailers pass in both directions, unless they concern the connection, the origin or Penstock.
func TestHostileProxyTrailers(t *testing.T) {
	got := make(chan string, 1)
	p := newRawReceiver(t, func(_ string, in *bufio.Reader, conn net.Conn) {
		var body strings.Builder
		for !strings.HasSuffix(body.String(), "\r\n\r\n") || !strings.Contains(body.String(), "\r\n0\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			body.WriteString(line)
		}
		got <- body.String()
		_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "Transfer-Encoding: chunked",
			"Trailer: X-Sum, Set-Cookie, Penstock-Waited",
			"", "2", "ok", "0", "X-Sum: 42", "Set-Cookie: a=b", "Penstock-Waited: 9", "", ""))
	})
	g := newGateway(t)
	g.put("q", p.url, "", "")
	a := g.raw(said("POST /proxy/q HTTP/1.1", "Host: localhost", "Connection: close", "Transfer-Encoding: chunked",
		"Trailer: X-Mine, Penstock-Lane",
		"", "4", "body", "0", "X-Mine: 7", "Penstock-Lane: x", "", ""))
	if a.status != 200 || a.text != "ok" || a.trailer.Get("X-Sum") != "42" || len(a.trailer) != 1 {
		t.Errorf("%d %q, trailers %v, %v", a.status, a.text, a.trailer, a.err)
	}
	if body := <-got; !strings.Contains(body, "4\r\nbody\r\n0\r\n") || !strings.Contains(body, "X-Mine: 7\r\n") ||
		strings.Contains(body, "Penstock") {
		t.Errorf("the receiver got %q", body)
	}
}

// A receiver that answers before it has read the body is heard, and the rest of the body goes nowhere.
func TestHostileProxyEarlyAnswer(t *testing.T) {
	p := newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
	})
	g := newGateway(t)
	g.put("q", p.url, "", `"timeout":"30s"`)
	conn := g.dial()
	defer conn.Close()
	head := "POST /proxy/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n"
	_, _ = io.WriteString(conn, head+strings.Repeat("x", 100_000)) // and never more
	if a := readReply(conn, head); a.status != 413 || a.text != "no" {
		t.Errorf("%d %q, %v", a.status, a.text, a.err)
	}
	g.quiet("q")
}

// A receiver that reads nothing of a large body holds its caller no longer than the timeout.
func TestHostileProxyReceiverReadsNothing(t *testing.T) {
	held := make(chan struct{})
	p := newRawReceiver(t, func(string, *bufio.Reader, net.Conn) { <-held })
	t.Cleanup(func() { close(held) })
	g := newGateway(t)
	g.put("q", p.url, `"circuit":{"off":true}`, `"timeout":"300ms"`)
	a := g.callWith(t.Context(), "POST", "/proxy/q", io.LimitReader(zeros{}, 64<<20))
	if a.err == nil && (a.status != 504 || a.reason != "receiver_timeout") { // the caller may still write when it ends
		t.Errorf("%d %s %v", a.status, a.text, a.err)
	}
	g.quiet("q")
	if g.outcome("broken") != 1 {
		t.Error("it is not counted as broken")
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// A caller that does not read its answer is cut off, and the receiver is not read on for it.
func TestHostileProxyEndlessAnswer(t *testing.T) {
	ended := make(chan struct{})
	p := newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) {
		defer close(ended)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			if _, err := io.WriteString(conn, "4000\r\n"+strings.Repeat("x", 0x4000)+"\r\n"); err != nil {
				return
			}
		}
	})
	g := newGateway(t)
	g.put("q", p.url, "", `"timeout":"60s"`)
	conn := g.dial()
	_, _ = io.WriteString(conn, "GET /proxy/q HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the receiver is still read")
	}
	g.quiet("q")
	if g.outcome("gone") != 1 {
		t.Errorf("gone %d, broken %d", g.outcome("gone"), g.outcome("broken"))
	}
}
