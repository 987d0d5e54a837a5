package httptarget

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// certificate returns a server's and a client's TLS configuration.
func certificate(t *testing.T) (server, client *tls.Config) {
	s, _, client := secure(t, func(http.ResponseWriter, *http.Request) {})
	server = s.TLS.Clone()
	server.NextProtos = nil
	return server, client
}

// A gate that refuses makes it impossible that a byte of the request leaves, and so does a window
// that is over when it comes to be written: on a new connection, on a kept one, with
// TLS, with and without a body.
func TestLateSendsNothing(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	for _, scheme := range []string{"http", "https"} {
		for _, payload := range []string{`{"to": "a"}`, "", strings.Repeat("x", 1<<20)} {
			for _, kept := range []bool{false, true} {
				name := scheme + " with " + map[int]string{0: "no body", 11: "a body"}[len(payload)]
				if kept {
					name += ", kept connection"
				}
				for _, passes := range []bool{false, true} {
					if passes {
						name += ", after the gate"
					}
					t.Run(name, func(t *testing.T) {
						for i := 0; i < 20 && !t.Failed(); i++ { // what races would not show each time
							testLate(t, scheme, payload, kept, passes, serverTLS, clientTLS)
						}
					})
				}
			}
		}
	}
}

func testLate(t *testing.T, scheme, payload string, kept, passes bool, serverTLS, clientTLS *tls.Config) {
	got := make(chan string, 8)
	addr := raw(t, func(c net.Conn) net.Conn {
		if scheme == "https" {
			return tls.Server(c, serverTLS)
		}
		return c
	}, func(_ int, c net.Conn) {
		if kept {
			r := bufio.NewReader(c)
			req, err := http.ReadRequest(r)
			if err != nil {
				got <- "no first request: " + err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			if n := r.Buffered(); n > 0 {
				b, _ := r.Peek(n)
				got <- string(b)
				return
			}
		}
		s, err := readAll(c)
		if err != nil && s == "" {
			s = "" // a reset is as good as an end
		}
		got <- s
	})
	r := router{New(Options{TLS: clientTLS, Egress: local()})}
	defer r.Close()
	url := scheme + "://" + addr
	if kept {
		if err := r.Handle(t.Context(), jobFor(url, "first"), opened()); err != nil {
			t.Fatal(err)
		}
	}
	g := late(1)
	if passes {
		g.wait = func(int) error {
			g.closes = time.Now().Add(-time.Nanosecond) // it is over before the request is written
			return nil
		}
	}
	wantErr(t, r.Handle(t.Context(), jobFor(url, payload), g), drain.ErrLate, "")
	if g.count() != 1 {
		t.Errorf("%d times at the gate", g.count())
	}
	_ = r.Close() // the connection is kept for the next job
	if s := <-got; s != "" {
		t.Errorf("the receiver got %q", s)
	}
}

// A receiver whose handshake takes longer than jobs are granted ahead gets none in time at
// first, but its connection is kept, and the next is in time.
func TestSlowHandshake(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	shake := make(chan struct{})
	var mu sync.Mutex
	conns, requests := 0, 0
	addr := raw(t, nil, func(_ int, plain net.Conn) {
		mu.Lock()
		conns++
		mu.Unlock()
		<-shake
		c := tls.Server(plain, serverTLS)
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			mu.Lock()
			requests++
			mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	r := sender(t, Options{TLS: clientTLS})
	g := late(1)
	g.closes = time.Now().Add(30 * time.Millisecond)
	wantErr(t, r.Handle(t.Context(), jobFor("https://"+addr, "{}"), g), drain.ErrLate, "")
	if g.count() != 0 {
		t.Error("was at the gate without a connection")
	}
	close(shake)
	await.Until(t, "delivered on the connection that came late", func() bool {
		g := opened()
		g.closes = time.Now().Add(30 * time.Millisecond)
		return r.Handle(t.Context(), jobFor("https://"+addr, "{}"), g) == nil
	})
	mu.Lock()
	defer mu.Unlock()
	if requests != 1 {
		t.Errorf("%d requests arrived, want 1", requests)
	}
}

// A receiver that cannot be reached does not make jobs go round for ever: once a dial
// has failed behind everybody's back, the next late job fails with its reason.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := piped(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // never shakes hands
		r.pools.dialer.handshake = 100 * time.Millisecond
		attempt := func() error {
			g := opened()
			g.closes = time.Now().Add(5 * time.Millisecond)
			return r.Handle(t.Context(), jobFor("https://"+nowhere, "{}"), g)
		}
		wantErr(t, attempt(), drain.ErrLate, "")
		await.Until(t, "a late job fails with the dial's error", func() bool {
			err := attempt()
			return err != nil && strings.Contains(err.Error(), "TLS handshake with "+nowhere)
		})
	})
}

// A kept connection that the receiver closes while the job waits for its departure is
// replaced, and nothing is sent twice.
func TestIdleClosed(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	shut := make(chan struct{})
	addr := raw(t, nil, func(n int, c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			mu.Lock()
			requests++
			mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			if n == 1 {
				<-shut
				return
			}
		}
	})
	r := sender(t, Options{})
	url := "http://" + addr
	if err := r.Handle(t.Context(), jobFor(url, "{}"), opened()); err != nil {
		t.Fatal(err)
	}
	g := opened()
	g.wait = func(call int) error {
		if call == 1 {
			close(shut)
			// Long enough for the end of the connection to arrive; if it is not, the
			// write fails instead, which is no less of a test.
			<-time.After(50 * time.Millisecond)
		}
		return nil
	}
	if err := r.Handle(t.Context(), jobFor(url, "{}"), g); err != nil {
		// Written before the end arrived: then it may not be sent again.
		wantErr(t, err, errUnanswered, "")
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if requests != 2 || g.count() != 2 {
		t.Errorf("%d requests, %d times at the gate", requests, g.count())
	}
}

// The same, and the gate refuses the second connection.
func TestIdleClosedThenLate(t *testing.T) {
	second := make(chan string, 1)
	shut := make(chan struct{})
	addr := raw(t, nil, func(n int, c net.Conn) {
		defer c.Close()
		if n > 1 {
			s, _ := readAll(c)
			second <- s
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		<-shut
	})
	r := sender(t, Options{})
	if err := r.Handle(t.Context(), jobFor("http://"+addr, "{}"), opened()); err != nil {
		t.Fatal(err)
	}
	g := late(2)
	refuse := g.wait
	g.wait = func(call int) error {
		if call == 1 {
			close(shut)
			<-time.After(50 * time.Millisecond)
		}
		return refuse(call)
	}
	err := r.Handle(t.Context(), jobFor("http://"+addr, ""), g)
	if g.count() == 2 {
		wantErr(t, err, drain.ErrLate, "")
		_ = r.Close()
		if s := <-second; s != "" {
			t.Errorf("the receiver got %q", s)
		}
	} else {
		wantErr(t, err, errUnanswered, "")
	}
}

// A receiver that ends a kept connection after it has read the request may have done
// the work: the request is not sent again before the next departure.
func TestNotTwice(t *testing.T) {
	for _, payload := range []string{"{}", ""} {
		var mu sync.Mutex
		requests := 0
		addr := raw(t, nil, func(_ int, c net.Conn) {
			defer c.Close()
			r := bufio.NewReader(c)
			for i := 0; ; i++ {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				mu.Lock()
				requests++
				mu.Unlock()
				if i == 1 {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		r := sender(t, Options{})
		if err := r.Handle(t.Context(), jobFor("http://"+addr, payload), opened()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, r.Handle(t.Context(), jobFor("http://"+addr, payload), opened()), errUnanswered, "may have the request")
		mu.Lock()
		if requests != 2 {
			t.Errorf("%d requests arrived, want 2", requests)
		}
		mu.Unlock()
	}
}

// interrupting is a gate that opens when its delivery is interrupted.
type interrupting struct{ cancel context.CancelCauseFunc }

func (g interrupting) Wait(context.Context) error { g.cancel(drain.ErrLeaseLost); return nil }
func (interrupting) Closes() time.Time            { return time.Now().Add(time.Hour) }

// A delivery that is interrupted between the gate and the write sends nothing, and says so.
func TestUnsentIsNotWritten(t *testing.T) {
	got := make(chan string, 1)
	addr := raw(t, nil, func(_ int, c net.Conn) { s, _ := readAll(c); got <- s })
	r := router{New(Options{Egress: local()})}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := r.Handle(ctx, jobFor("http://"+addr, "{}"), interrupting{cancel})
	wantErr(t, err, drain.ErrLeaseLost, "interrupted")
	if said := drain.What(err); said.Verdict == queue.Hold {
		t.Errorf("says %+v of a request that was not written", said)
	}
	_ = r.Close()
	if s := <-got; s != "" {
		t.Errorf("the receiver got %q", s)
	}
}
