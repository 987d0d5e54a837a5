package ops_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

// manySmall returns a header of about n bytes that takes the most memory for its size when parsed.
func manySmall(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%c%c%c:\r\n", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	return b.String()
}

// dialFrom connects from an address of this machine.
func dialFrom(t *testing.T, from string, s *ops.Server) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, r *bufio.Reader) (status int) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// A header is charged at the worst case while it is read, also if it arrives together with the previous request. All
// charges are returned.
func TestHeadersAreCharged(t *testing.T) {
	memory := ops.NewBudget(64 << 20)
	s, _ := running(t, hello, ops.ServerOptions{Memory: memory})
	const size = 3 << 10
	for name, first := range map[string]string{
		"alone": "", "behind another request": "GET /first HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := dialFrom(t, "127.0.0.1", s)
		r := bufio.NewReader(c)
		send(t, c, first+"GET / HTTP/1.1\r\nHost: x\r\n"+manySmall(size))
		if first != "" {
			answered(t, r)
		}
		until(t, "a header that is read "+name+" is charged", func() bool { return memory.Used() > 20*size })
		send(t, c, "\r\n")
		answered(t, r)
		until(t, "it is given back", func() bool { return memory.Used() < 64<<10 })
		_ = c.Close()
		until(t, "nothing is held", func() bool { return memory.Used() == 0 })
	}
}

// An address that sends too many headers is refused with an answer; other addresses are served.
func TestHeadersOfOneAddress(t *testing.T) {
	memory := ops.NewBudget(4 << 20)
	s, _ := running(t, hello, ops.ServerOptions{Memory: memory})
	text, refused := "GET / HTTP/1.1\r\nHost: x\r\n"+manySmall(15<<10), 0
	var hog []net.Conn
	for range 50 {
		c := dialFrom(t, "127.0.0.1", s)
		_, _ = io.WriteString(c, text) // it may be refused before it has sent all
		hog = append(hog, c)
	}
	until(t, "half of it is in use", func() bool { return memory.Used() > memory.Limit()/4 })
	other := dialFrom(t, "127.0.0.2", s)
	send(t, other, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status := answered(t, bufio.NewReader(other)); status != http.StatusOK {
		t.Errorf("beside it another address gets %d", status)
	}
	for _, c := range hog {
		_ = c.SetReadDeadline(time.Now().Add(time.Second / 50))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "1" {
			refused++
			_ = resp.Body.Close()
		}
		_ = c.Close()
	}
	if refused < 30 {
		t.Errorf("%d of 50 were told that there is no more", refused)
	}
	if used := memory.Used(); used > memory.Limit() {
		t.Errorf("%d are in use of %d", used, memory.Limit())
	}
	_ = other.Close()
	until(t, "nothing is held", func() bool { return memory.Used() == 0 })
}

// Connections are charged: one address gets half of the budget.
func TestConnectionsOfOneAddress(t *testing.T) {
	memory := ops.NewBudget(2 << 20) // for some hundred connections
	s, _ := running(t, hello, ops.ServerOptions{Memory: memory})
	served := 0
	for range 100 {
		c := dialFrom(t, "127.0.0.1", s)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if answered(t, bufio.NewReader(c)) == http.StatusOK {
			served++
		}
	}
	if served < 40 || served > 52 {
		t.Errorf("%d connections of one address were served, of 51 that are half", served)
	}
	c := dialFrom(t, "127.0.0.2", s)
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status := answered(t, bufio.NewReader(c)); status != http.StatusOK {
		t.Errorf("beside it another address gets %d", status)
	}
}

// Behind a proxy, the client is the one that the proxy names, also in records. The connection belongs to no client.
func TestChargesBehindProxy(t *testing.T) {
	memory := ops.NewBudget(1 << 20)
	clients := make(chan string, 10)
	s, _ := running(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		clients <- ops.ClientOf(r.Context()).Client() + " " + host
	}),
		ops.ServerOptions{Memory: memory, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for _, c := range []struct{ from, forwarded, want string }{
		{"127.0.0.1", "192.0.2.1, 2001:db8::1", "2001:db8::/64 2001:db8::1"},
		{"127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1 192.0.2.1"},
		{"127.0.0.2", "192.0.2.1", "127.0.0.2 127.0.0.2"}, // who is no proxy says nothing
	} {
		conn := dialFrom(t, c.from, s)
		send(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: "+c.forwarded+"\r\n\r\n")
		answered(t, bufio.NewReader(conn))
		if got := <-clients; got != c.want {
			t.Errorf("from %s with %s: %q, want %q", c.from, c.forwarded, got, c.want)
		}
		_ = conn.Close()
	}
	until(t, "nothing is held", func() bool { return memory.Used() == 0 })
}

// Over TLS and HTTP/2 all charges are returned too.
func TestChargesOverTLS(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	memory := ops.NewBudget(64 << 20)
	used := make(chan int64, 10)
	s, _ := runningAt(t, ops.Listen{Addr: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile},
		http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { used <- memory.Used() },
		), ops.ServerOptions{Memory: memory})
	for _, http2 := range []bool{false, true} {
		tr := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2,
		}
		for range 3 {
			resp, err := (&http.Client{Transport: tr}).Get(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			least := int64(48 << 10)
			if http2 {
				least = 160 << 10
			}
			if n := <-used; n < least {
				t.Errorf("HTTP/2 %v: %d are charged for a connection, want at least %d", http2, n, least)
			}
		}
		tr.CloseIdleConnections()
		until(t, "nothing is held", func() bool { return memory.Used() == 0 })
	}
}
