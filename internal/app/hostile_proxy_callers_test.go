package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// pause and resume stop and start a queue.
func (g *gateway) pause(name string)  { g.manage(name, "pause") }
func (g *gateway) resume(name string) { g.manage(name, "resume") }

func (g *gateway) manage(name, what string) {
	g.t.Helper()
	if a := g.call("POST", "/v1/queues/"+name+"/"+what, "{}", "Content-Type", "application/json"); a.status/100 != 2 {
		g.t.Fatalf("%s: %d %s", what, a.status, a.text)
	}
}

// begin sends a text on a connection of its own, which the caller ends.
func (g *gateway) begin(text string) net.Conn {
	g.t.Helper()
	conn := g.dial()
	g.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// A caller that leaves while it waits frees its place, in the queue too, and nothing of its call is sent.
func TestHostileProxyLeavesWhileWaiting(t *testing.T) {
	p := fine(t)
	g := newGateway(t)
	g.put("q", p.url, "", "")
	g.pause("q")
	const to = "POST /proxy/q/left HTTP/1.1\r\nHost: localhost\r\nPenstock-Wait: 10m\r\n"
	for name, c := range map[string]struct {
		text  string
		leave func(net.Conn)
	}{
		"without a body": {to + "\r\n", func(c net.Conn) { _ = c.Close() }},
		"with a body":    {to + "Content-Length: 4\r\n\r\nbody", func(c net.Conn) { _ = c.Close() }},
		"resets":         {to + "\r\n", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }},
		"ends its side":  {to + "\r\n", func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }},
		"retries and ends": {
			to + "Penstock-Retry: throttled\r\nContent-Length: 4\r\n\r\nbody", func(c net.Conn) { _ = c.Close() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone := g.outcome("gone")
			conn := g.begin(c.text)
			await.Until(t, "its place is taken", func() bool { info := g.info("q"); return info.Size() == 1 })
			c.leave(conn)
			g.quiet("q")
			await.Until(t, "it is counted as gone", func() bool { return g.outcome("gone") == gone+1 })
			if name == "ends its side" {
				if a := readReply(conn, c.text); a.err == nil {
					t.Errorf("a caller that ended its side got %d %q for an answer that never was", a.status, a.text)
				}
			}
		})
	}
	g.resume("q")
	if a := g.call("GET", "/proxy/q/next", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
	if seen := p.seen(); len(seen) != 1 || !strings.HasPrefix(seen[0], "GET /next ") {
		t.Errorf("the receiver got %q", seen)
	}
}

// A caller that leaves before it has sent its body is not sent, and holds nothing.
func TestHostileProxyLeavesWhileUploading(t *testing.T) {
	sent := make(chan string, 10)
	p := newRawReceiver(t, func(head string, in *bufio.Reader, _ net.Conn) {
		n, err := io.Copy(io.Discard, readRequest(t, head, in).Body)
		sent <- fmt.Sprint(n, " ", err)
	})
	g := newGateway(t)
	g.put("q", p.url, `"circuit":{"failures":1}`, `"timeout":"10m"`)
	const to = "POST /proxy/q/x HTTP/1.1\r\nHost: localhost\r\n"
	t.Run("a small body", func(t *testing.T) {
		conn := g.begin(to + "Content-Length: 400\r\n\r\nbody")
		_ = conn.Close()
		await.Until(t, "the call has ended", func() bool { return g.outcome("refused")+g.outcome("gone") == 1 })
		if len(p.seen()) > 0 {
			t.Errorf("the receiver got %q", p.seen())
		}
	})
	// The receiver waits for the rest for as long as its timeout, unless it is told that none comes.
	for name, framing := range map[string]string{
		"a large body": "Content-Length: 400000\r\n\r\n" + strings.Repeat("x", 1000),
		"chunks":       "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			before := len(p.seen())
			conn := g.begin(to + framing)
			await.Until(t, "the receiver has the head", func() bool { return len(p.seen()) == before+1 })
			_ = conn.Close()
			if got := <-sent; !strings.HasSuffix(got, "unexpected EOF") {
				t.Errorf("the receiver got a whole request: %s", got)
			}
			g.quiet("q")
		})
	}
	if info := g.info("q"); info.Circuit.Open() {
		t.Errorf("the receiver is blamed for its callers: %+v", info.Circuit)
	}
}

// A caller that stays but breaks its body off is told so.
func TestHostileProxyBrokenBodies(t *testing.T) {
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		_, _ = io.Copy(io.Discard, readRequest(t, head, in).Body)
	})
	g := newGateway(t, func(o *gatewayOptions) { o.API.BodyTimeout = 300 * time.Millisecond })
	g.put("q", p.url, `"circuit":{"failures":1}`, `"timeout":"500ms"`)
	const to = "POST /proxy/q/x HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, text, reason string
		sent               bool
	}{
		{"a small body that does not come", to + "Content-Length: 10\r\n\r\nbody", "body_timeout", false},
		{"a large body that does not come", to + "Content-Length: 1000000\r\n\r\nbody", "body_timeout", true},
		{"chunks that do not come", to + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", "body_timeout", true},
		{"a chunk without a size", to + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nzz\r\n\r\n", "body_incomplete", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := readReply(g.begin(c.text), c.text)
			if a.reason != c.reason || strings.Contains(a.text, "not sent") == c.sent {
				t.Errorf("%d %s, %v; want %s", a.status, a.text, a.err, c.reason)
			}
			g.quiet("q")
		})
	}
	if info := g.info("q"); info.Circuit.Open() || info.Circuit.Failures > 0 {
		t.Errorf("the receiver is blamed for its callers: %+v", info.Circuit)
	}
}

// A caller that leaves while its receiver is at work, or answers, ends that work, and is not the receiver's fault.
func TestHostileProxyLeavesAfterSending(t *testing.T) {
	ended := make(chan struct{}, 10)
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		if strings.HasPrefix(head, "GET /streams") {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
		}
		if strings.HasPrefix(head, "GET /sized") {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbody")
		}
		stall(in, conn)
		ended <- struct{}{}
	})
	g := newGateway(t)
	g.put("q", p.url, `"circuit":{"failures":1}`, `"timeout":"10m"`)
	for _, path := range []string{"silent", "streams", "sized"} {
		t.Run(path, func(t *testing.T) {
			gone, before := g.outcome("gone"), len(p.seen())
			conn := g.begin("GET /proxy/q/" + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
			await.Until(t, "the receiver has it", func() bool { return len(p.seen()) == before+1 })
			if path != "silent" {
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			_ = conn.Close()
			<-ended // long before the timeout
			g.quiet("q")
			if g.outcome("gone") != gone+1 {
				t.Error("it is not counted as gone")
			}
		})
	}
	if info := g.info("q"); info.Circuit.Open() || info.Delivered != 3 {
		t.Errorf("the receiver is blamed for its callers: %+v", info.Circuit)
	}
}

// A server that stops ends waiting calls, which can be repeated because they were not sent. Calls that were sent go on
// to the end of their answers.
func TestHostileProxyStops(t *testing.T) {
	finish := make(chan struct{})
	p := newRawReceiver(t, func(_ string, _ *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
		<-finish
		_, _ = io.WriteString(conn, "3\r\nend\r\n0\r\n\r\n")
	})
	g := newGateway(t, func(o *gatewayOptions) { o.Server = ops.ServerOptions{Grace: time.Minute} })
	g.put("q", p.url, "", `"timeout":"1m"`)
	g.put("later", p.url, "", "")
	g.pause("later")
	const end = " HTTP/1.1\r\nHost: localhost\r\nPenstock-Wait: 10m\r\n"
	streaming := g.begin("GET /proxy/q/x" + end + "\r\n")
	if _, err := streaming.Read(make([]byte, len("HTTP/1.1"))); err != nil {
		t.Fatal(err)
	}
	waiting := g.begin("GET /proxy/later/x" + end + "\r\n")
	large := g.begin("POST /proxy/later/x" + end + "Content-Length: 1000000\r\n\r\nbody")
	g.waits(2)
	uploading := g.begin("POST /proxy/later/x" + end + "Content-Length: 100\r\n\r\nbody")
	stopped := make(chan struct{})
	go func() { defer close(stopped); g.stop() }()
	for name, conn := range map[string]net.Conn{"waiting": waiting, "large": large, "uploading": uploading} {
		a := readReply(conn, "GET ")
		// The one that sends its body may not have been read when the server stopped; then it is cut off.
		if a.err == nil && (a.status != 503 || a.reason != "stopping" || !strings.Contains(a.text, "not sent") ||
			a.header.Get("Retry-After") == "") || a.err != nil && name != "uploading" {
			t.Errorf("%s: %d %s, %v", name, a.status, a.text, a.err)
		}
	}
	select {
	case <-stopped:
		t.Error("the server did not wait for the answer that streams")
	default:
	}
	close(finish)
	rest, err := io.ReadAll(streaming)
	if err != nil || !strings.HasSuffix(string(rest), "4\r\nbody\r\n3\r\nend\r\n0\r\n\r\n") {
		t.Errorf("the answer broke off: %q, %v", rest, err)
	}
	<-stopped
	if n := len(p.seen()); n != 1 {
		t.Errorf("%d were sent: %q", n, p.seen())
	}
	if info := g.info("later"); info.Size() != 0 {
		t.Errorf("%d places are left", info.Size())
	}
}

// One client that opens very many calls leaves room for others, and their bodies are charged to it.
func TestHostileProxyHoardsMemory(t *testing.T) {
	g := newGateway(t, func(o *gatewayOptions) { o.Server = ops.ServerOptions{Memory: ops.NewBudget(32 << 20)} })
	g.put("q", fine(t).url, "", "")
	g.pause("q")
	body := strings.Repeat("x", 1<<20)
	var refused int
	for range 40 { // 40 MiB; one client may have half of the budget
		waiting := g.metric("penstock_proxy_waiting", "")
		conn := g.begin("POST /proxy/q HTTP/1.1\r\nHost: localhost\r\nPenstock-Wait: 10m\r\nPenstock-Retry: throttled\r\n" +
			"Content-Length: 1048576\r\n\r\n")
		done := make(chan struct{})
		go func() { defer close(done); _, _ = io.WriteString(conn, body) }()
		answered := make(chan reply, 1)
		go func() { answered <- readReply(conn, "POST ") }()
		await.Until(t, "it waits or is refused", func() bool {
			if g.metric("penstock_proxy_waiting", "") > waiting {
				return true
			}
			select {
			case a := <-answered:
				if errors.Is(a.err, os.ErrDeadlineExceeded) {
					t.Error("it was neither refused nor let wait")
				}
				if a.err == nil && a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
					t.Errorf("%d %s", a.status, a.text)
				}
				refused++
				return true
			default:
				return false
			}
		})
		if refused > 0 {
			_ = conn.Close()
			<-done
			break
		}
	}
	if refused == 0 {
		t.Error("40 MiB of bodies were kept in a budget of 32 MiB")
	}
}

// While a body of unknown length is sent, the answer may already come: both directions flow at once.
func TestHostileProxyBothWays(t *testing.T) {
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		body := readRequest(t, head, in).Body
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(body, b); err != nil {
				break
			}
			_, _ = fmt.Fprintf(conn, "1\r\n%s\r\n", b)
		}
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	})
	g := newGateway(t)
	g.put("q", p.url, "", `"timeout":"1m"`)
	conn := g.begin("POST /proxy/q HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, c := range "echo" {
		_, _ = fmt.Fprintf(conn, "1\r\n%c\r\n", c)
		b := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, b); err != nil || rune(b[0]) != c {
			t.Fatalf("%q, %v", b, err)
		}
	}
	_, _ = io.WriteString(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// Callers give up at random in all phases. Each caller that stays is answered once, and nothing is left.
func TestHostileProxyChurn(t *testing.T) {
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		_, _ = io.Copy(io.Discard, readRequest(t, head, in).Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	})
	g := newGateway(t)
	g.put("q", p.url, `"rate":"200/s","circuit":{"failures":1}`, `"timeout":"1m"`)
	const callers = 60
	ok := make(chan bool, callers)
	for i := range callers {
		go func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				time.AfterFunc(time.Duration(i+1)*5*time.Millisecond, cancel)
			}
			a := g.callWith(ctx, "POST", "/proxy/q", strings.NewReader("body"))
			ok <- a.status == 200 && a.text == "ok" && a.err == nil || ctx.Err() != nil
		}()
	}
	for range callers {
		if !<-ok {
			t.Error("a caller that stayed was not answered")
		}
	}
	g.quiet("q")
	info := g.info("q")
	if info.Circuit.Open() || g.outcome("answered")+g.outcome("gone") > callers || g.outcome("answered") < callers/2 ||
		int(info.Delivered) < len(p.seen()) {
		t.Errorf("circuit %+v, answered %d, gone %d, delivered %d, sent %d", info.Circuit, g.outcome("answered"),
			g.outcome("gone"),
			info.Delivered, len(p.seen()))
	}
}
