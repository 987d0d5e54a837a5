package httptarget

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// The table has corner cases of HTTP/1.1 (RFC 9112), many from net/http's tests of its transport. It states the
// outcome of each delivery, and whether its connection is used again.
func TestAnswersOfHTTP1(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	large := strings.Repeat("x", drainBytes+4*excerptBytes+1)
	for _, c := range []struct {
		name, answer string
		want         string // empty: delivered
		kept         bool   // the next job uses the connection
		closes       bool   // the receiver then ends the connection
	}{
		{"with a length", ok + "Content-Length: 2\r\n\r\nok", "", true, false},
		{"with length 0", ok + "Content-Length: 0\r\n\r\n", "", true, false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", "", true, false},
		{"304 with a length but no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "304", true, false},
		{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "", true, false},
		{
			"chunked with extensions and trailers",
			ok + "Transfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2;x=1\r\nok\r\n0\r\nA: 1\r\n\r\n", "", true, false,
		},
		{"chunked, in capital letters", ok + "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "", true, false},
		{"a long body", ok + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(large)) + large, "", false, true},
		{"no length, up to the end", ok + "\r\nok", "", false, true},
		{"Connection: close", ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", "", false, true},
		{"Connection: close among others", ok + "Connection: foo, close\r\nContent-Length: 2\r\n\r\nok", "", false, true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "", false, true},
		{
			"HTTP/1.0 that keeps the connection",
			"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "", true, false,
		},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", true, false},
		{"lines that end with LF only", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "", true, false},
		{"100 Continue before it", "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", "", true, false},
		{
			"103 Early Hints twice before it",
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 2) + ok + "Content-Length: 0\r\n\r\n", "", true,
			false,
		},
		{"a body after 204", "HTTP/1.1 204 No Content\r\n\r\nbody", "", false, false},
		{"more than its length", ok + "Content-Length: 2\r\n\r\nokmore", "", false, false},
		{"less than its length", ok + "Content-Length: 10\r\n\r\nshort", "", false, true},
		{"the same length twice", ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", "", true, false},
		{"an unreadable chunk", ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n", "", false, false},
		{"a chunked body that breaks off", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nok", "", false, true},
		{"two lengths", ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nokx", "may have", false, false},
		{"a negative length", ok + "Content-Length: -1\r\n\r\n", "may have", false, false},
		{"a length that is no number", ok + "Content-Length: +2\r\n\r\nok", "may have", false, false},
		{"an unknown encoding", ok + "Transfer-Encoding: gzip\r\n\r\nok", "may have", false, false},
		{"a status that is no number", "HTTP/1.1 OK\r\n\r\n", "may have", false, false},
		{"another version", "HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n", "may have", false, false},
		{"a header without a colon", ok + "Content-Length\r\n\r\n", "may have", false, false},
		{"a header that begins with a space", ok + " a: b\r\nContent-Length: 0\r\n\r\n", "may have", false, false},
		{"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "101", false, false},
		{"a part of the headers", ok + "Content-Length: 2\r\n", "may have", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conns atomic.Int64
			addr := raw(t, nil, func(_ int, conn net.Conn) {
				conns.Add(1)
				r := bufio.NewReader(conn)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if conns.Load() > 1 || n > 0 {
						_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
						continue
					}
					_, _ = io.WriteString(conn, c.answer)
					if c.closes {
						_ = conn.Close()
						return
					}
				}
			})
			r := sender(t, Options{})
			err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "may have":
				if said := drain.What(err); said.Verdict != queue.Hold {
					t.Errorf("%v says %+v, want that nobody knows", err, said)
				}
			case c.want != "":
				wantErr(t, err, nil, "answered "+c.want)
			}
			if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err != nil {
				t.Errorf("the next job: %v", err)
			}
			if kept := conns.Load() == 1; kept != c.kept {
				t.Errorf("kept: %v, want %v", kept, c.kept)
			}
		})
	}
}

// A receiver that answers before it has read a large body is heard, and its connection is not used again.
func TestAnswerBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int64
		r := piped(t, func(conn net.Conn) { // a pipe has no buffer that the body could fit into
			conns.Add(1)
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
				time.Sleep(time.Second)
			}
		})
		for range 2 {
			err := r.Handle(t.Context(), jobFor("http://"+nowhere, strings.Repeat("x", 1<<20)), opened())
			wantErr(t, err, nil, "answered 413: big")
		}
		if conns.Load() != 2 {
			t.Errorf("%d connections", conns.Load())
		}
	})
}

// Large bodies arrive whole, also when they are repeated on one connection.
func TestLargeBodies(t *testing.T) {
	s, conns := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if want := r.ContentLength; int64(len(b)) != want || len(bytes.Trim(b, "x")) != 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	r := sender(t, Options{})
	for _, n := range []int{0, 1, inline - 1, inline, inline + 1, 1 << 20, 3} {
		if err := r.Handle(t.Context(), jobFor(s.URL, strings.Repeat("x", n)), opened()); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if conns() != 1 {
		t.Errorf("%d connections", conns())
	}
}

// What a receiver sends without being asked ends an idle connection: it is not the answer to the next job.
func TestUnsolicited(t *testing.T) {
	for _, sends := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 408 Request Timeout\r\n\r\n", "x",
	} {
		var conns atomic.Int64
		sent := make(chan struct{})
		addr := raw(t, nil, func(_ int, conn net.Conn) {
			first := conns.Add(1) == 1
			r := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				if first {
					time.Sleep(10 * time.Millisecond) // the connection is idle
					_, _ = io.WriteString(conn, sends)
					close(sent)
				}
			}
		})
		r := sender(t, Options{})
		for range 2 {
			if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err != nil {
				t.Errorf("%q: %v", sends, err)
			}
			<-sent
			time.Sleep(10 * time.Millisecond)
		}
		if conns.Load() != 2 {
			t.Errorf("%q: %d connections", sends, conns.Load())
		}
	}
}

// TLS 1.3 receivers send session tickets after the handshake. They do not end the connection.
func TestSessionTickets(t *testing.T) {
	s, conns, config := secure(t, func(http.ResponseWriter, *http.Request) {})
	r := sender(t, Options{TLS: config})
	for range 3 {
		g := opened()
		g.wait = func(int) error { time.Sleep(20 * time.Millisecond); return nil } // the tickets arrive meanwhile
		if err := r.Handle(t.Context(), jobFor(s.URL, "{}"), g); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if conns() != 1 {
		t.Errorf("%d connections", conns())
	}
}

// A receiver that ends half of the connection, so that it only reads, has ended it for us.
func TestHalfClosed(t *testing.T) {
	var conns atomic.Int64
	half := make(chan struct{}, 1)
	addr := raw(t, nil, func(_ int, conn net.Conn) {
		first := conns.Add(1) == 1
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			if first {
				_ = conn.(*net.TCPConn).CloseWrite()
				half <- struct{}{}
			}
		}
	})
	r := sender(t, Options{})
	if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err != nil {
		t.Fatal(err)
	}
	<-half
	await.Until(t, "the end has arrived", func() bool {
		p, _ := r.pools.of(Default())
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, at := range p.receivers {
			for _, c := range at.idle {
				return !c.alive()
			}
		}
		return false
	})
	if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err != nil || conns.Load() != 2 {
		t.Errorf("%v, on %d connections", err, conns.Load())
	}
}

// joined is a connection that can join several writes.
type joined struct {
	net.Conn
	hold bool
	held []byte
}

func (c *joined) Write(b []byte) (int, error) {
	c.held = append(c.held, b...)
	if c.hold {
		return len(b), nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = nil
	return len(b), err
}

// TLS reads ahead: a second record that arrives with an answer is not the answer to the next job.
func TestLongerThanItSaysOverTLS(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	var conns atomic.Int64
	addr := raw(t, nil, func(_ int, plain net.Conn) {
		conns.Add(1)
		under := &joined{Conn: plain}
		c := tls.Server(under, serverTLS)
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			under.hold = true
			_, _ = io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno")
			under.hold = false
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r := sender(t, Options{TLS: clientTLS})
	for range 3 {
		wantErr(t, r.Handle(t.Context(), jobFor("https://"+addr, "{}"), opened()), nil, "answered 500: no")
	}
	if conns.Load() != 3 {
		t.Errorf("%d connections", conns.Load())
	}
}

// A receiver that ends new connections is down: it has not seen the job, however it treats unknown outcomes.
func TestEndsNewConnections(t *testing.T) {
	addr := raw(t, nil, func(_ int, conn net.Conn) { _ = conn.Close() })
	g := opened()
	g.wait = func(int) error { time.Sleep(50 * time.Millisecond); return nil }
	err := sender(t, Options{}).Handle(t.Context(), jobFor("http://"+addr, "{}"), g)
	if said := drain.What(err); said.Verdict != queue.Down {
		t.Errorf("%v says %+v, want that it is down", err, said)
	}
}
