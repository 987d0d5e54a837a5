package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A path or query that a caller writes leads nowhere but below the target's URL.
func TestHostileProxyPaths(t *testing.T) {
	p := fine(t)
	g := newGateway(t)
	g.put("q", p.url+"/base", "", "")
	g.put("root", p.url, "", "")
	g.put("keyed", p.url+"/base/?key=1", "", "")
	list := []struct{ target, line string }{ // no line: refused
		{"/proxy/q", "/base"},
		{"/proxy/q/", "/base/"},
		{"/proxy/q//", "/base//"},
		{"/proxy/q/a/", "/base/a/"},
		{"/proxy/q?a=b", "/base?a=b"},
		{"/proxy/q/?a=b", "/base/?a=b"},
		{"/proxy/q?", "/base"},
		{"/proxy/root", "/"},
		{"/proxy/root/", "/"},
		{"/proxy/root?a", "/?a"},
		{"/proxy/keyed", "/base?key=1"},
		{"/proxy/keyed/x?key=2", "/base/x?key=1&key=2"},
		{"/proxy/q//example.com/x", "/base//example.com/x"},
		{"/proxy/root//example.com/x", "//example.com/x"},
		{"/proxy/q/@example.com/", "/base/@example.com/"},
		{"/proxy/root/:80@example.com/", "/:80@example.com/"},
		{"/proxy/q/http://example.com/", "/base/http://example.com/"},
		{"http://example.com/proxy/q/x", ""},
		{"http://localhost/proxy/q/x", "/base/x"},
		{"/proxy/q/a%2Fb", "/base/a%2Fb"},
		{"/proxy/q/a%5Cb", "/base/a%5Cb"},
		{"/proxy/q/%0d%0aX:%20y", "/base/%0d%0aX:%20y"},
		{"/proxy/q/%00", "/base/%00"},
		{"/proxy/q/%E2%82%AC", "/base/%E2%82%AC"},
		{"/proxy/q/€", "/base/%E2%82%AC"},
		{"/proxy/q/a;b=c", "/base/a;b=c"},
		{"/proxy/q/...", "/base/..."},
		{"/proxy/q/a..b", "/base/a..b"},
		{"/proxy/q/%252e%252e/x", "/base/%252e%252e/x"},
		{"/proxy/q?x=../../etc", "/base?x=../../etc"},
		{"/proxy/q?x=%0d%0a", "/base?x=%0d%0a"},
		{"/proxy/q/x#y", "/base/x%23y"},
		{"/proxy/q/..", ""},
		{"/proxy/q/../x", ""},
		{"/proxy/q/a/../../x", ""},
		{"/proxy/q/.", ""},
		{"/proxy/q/./x", ""},
		{"/proxy/q/%2e%2e/x", ""},
		{"/proxy/q/%2E./x", ""},
		{"/proxy/q/.%2e", ""},
		{"/proxy/q/..%2fx", ""},
		{"/proxy/q/a%2f..%2fx", ""},
		{"/proxy/q/..\\x", ""},
		{"/proxy/q/a%5c..%5cx", ""},
		{"/proxy/q/..;/x", ""},
		{"/proxy/q/..;a=b/x", ""},
		{"/proxy/q/%2e%2e%3b/x", ""},
		{"/proxy/q/%", ""},
		{"/proxy/q/%zz", ""},
		{"/proxy/q?x=€", ""},
		{"/proxy/q?x=\x01", ""},
		{"/proxy/q/\x7f", ""},
		{
			"/proxy/", "",
		},
		{"/proxy", ""},
		{"/proxy//x", ""},
		{"/proxy/../q/x", ""},
		{"/proxy/none/x", ""},
		{"/proxy/q%2Fx", ""},
		{
			"/proxy/%71/x", "",
		},
		{"/proxy/Q", ""},
		{"/./proxy/q/x", ""},
		{
			"//proxy/q/x",
			"",
		},
		{"/proxy/" + strings.Repeat("q", 300), ""},
	}
	for _, c := range list {
		t.Run(c.target, func(t *testing.T) {
			before := len(p.seen())
			a := g.raw("GET " + c.target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			seen := p.seen()[before:]
			if c.line == "" {
				if a.status < 300 || a.status >= 500 || len(seen) > 0 {
					t.Errorf("%d %.200s; the receiver got %q", a.status, a.text, seen)
				}
				return
			}
			if a.status != 200 || len(seen) != 1 || !strings.HasPrefix(seen[0], "GET "+c.line+" HTTP/1.1\r\nHost: "+
				strings.TrimPrefix(p.url, "http://")+"\r\n") {
				t.Errorf("%d %.200s; the receiver got %q, want %q", a.status, a.text, seen, c.line)
			}
		})
	}
	t.Logf("%d paths", len(list))
}

// framed is a request whose body may have two ends.
type framed struct {
	name, text string
	status     int
	body       string // that the receiver gets
	closes     bool
}

// However a caller frames its body, the receiver gets one request with one length, and nothing hidden behind it.
func TestHostileProxyFraming(t *testing.T) {
	const to, inner = "POST /proxy/q/x HTTP/1.1\r\nHost: localhost\r\n", "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
	list := []framed{
		{"length", to + "Content-Length: 4\r\n\r\nbody", 200, "body", false},
		{"chunks", to + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 200, "body", true},
		{
			"chunks and length", to + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n" + inner,
			200, "body", true,
		},
		{"length 0 and a body", to + "Content-Length: 0\r\n\r\n", 200, "", false},
		{"no length", to + "\r\n", 200, "", false},
		{"GET with a body", strings.Replace(to, "POST", "GET", 1) + "Content-Length: 4\r\n\r\nbody", 200, "body", false},
		{
			"DELETE with chunks",
			strings.Replace(to, "POST", "DELETE", 1) + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 200, "body",
			true,
		},
		{"a request in the body", to + "Content-Length: " + strconv.Itoa(len(inner)) + "\r\n\r\n" + inner, 200, inner, false},
		{"two lengths", to + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody" + inner, 400, "", true},
		{"gzip, chunked", to + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "", true},
		{"a bad chunk", to + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "-", true},
		{"a length of 600 MiB", to + "Content-Length: 629145600\r\n\r\n", 413, "", true},
		{"a folded header", to + "X: a\r\n Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody", 200, "body", false},
		{"HTTP/1.0", "POST /proxy/q/x HTTP/1.0\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 200, "body", true},
		{"64 KiB of headers", to + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, "", true},
		{"WebSocket", "GET /proxy/q HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", 501, "", false},
		{"an offer of HTTP/2", to + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
			"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n" +
			"Content-Length: 4\r\n\r\nbody", 200, "body", false},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 421, "", false},
		{"CONNECT to a queue", "CONNECT /proxy/q HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "", false},
		{"TRACE", "TRACE /proxy/q HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "", false},
		{"another host", strings.Replace(to, "localhost", "evil.example", 1) + "\r\n", 421, "", false},
	}
	got := make(chan string, 1)
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		r := readRequest(t, head, in)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = append(body, '-')
		}
		got <- string(body)
		_, _ = io.WriteString(conn, plainOK)
	})
	g := newGateway(t)
	g.put("q", p.url, "", `"timeout":"60s"`)
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			conn := g.dial()
			defer conn.Close()
			go func() { _, _ = io.WriteString(conn, c.text) }()
			if a := readReply(conn, c.text); a.status != c.status {
				t.Errorf("%d %.200s, %v; want %d", a.status, a.text, a.err, c.status)
			}
			if c.status == 200 || c.body != "" {
				if body := <-got; body != c.body {
					t.Errorf("the receiver got %q, want %q", body, c.body)
				}
			}
			if c.closes {
				if rest, err := io.ReadAll(conn); len(rest) > 0 {
					t.Errorf("behind the answer there is %.200q, %v", rest, err)
				}
			}
			g.quiet("q")
			select {
			case body := <-got:
				t.Errorf("the receiver got another request, with %q", body)
			default:
			}
		})
	}
	for _, head := range p.seen() {
		if strings.Contains(head, "Content-Length") && strings.Contains(head, "Transfer-Encoding") {
			t.Errorf("a request with two lengths: %q", head)
		}
		if strings.Contains(head, "/admin HTTP") || strings.Contains(head, "Upgrade") ||
			strings.Contains(strings.ToLower(head), "http2-settings") {
			t.Errorf("the receiver got %q", head)
		}
	}
	t.Logf("%d requests", len(list))
}

// Penstock's own fields, fields of the connection and fields that Connection names stay behind. All others pass.
func TestHostileProxyHeaders(t *testing.T) {
	p := fine(t)
	g := newGateway(t)
	g.put("q", p.url, "", `"headers":{"X-Own":"target"}`)
	g.raw(said("GET /proxy/q HTTP/1.1", "Host: localhost", "Connection: close, X-Hop , Authorization", "X-Hop: 1",
		"Keep-Alive: 5", "Te: trailers",
		"Proxy-Authorization: Basic x", "Proxy-Connection: close", "Cookie: a=b", "Penstock-Wait: 5s",
		"X-Own: caller", "X-Keep: a",
		"X-Keep: b",
		"Via: 1.1 other", "Range: bytes=0-1", "If-None-Match: \"x\"", "User-Agent: mine", "", ""))
	g.raw("GET /proxy/q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	seen := p.seen()
	if len(seen) != 2 {
		t.Fatal(seen)
	}
	h := fields(t, seen[0])
	for name, want := range map[string]string{
		"Connection": "[]", "X-Hop": "[]", "Keep-Alive": "[]", "Te": "[]", "Proxy-Authorization": "[]",
		"Proxy-Connection": "[]",
		"Cookie":           "[]", "Penstock-Wait": "[]", "X-Own": "[target]", "X-Keep": "[a b]",
		"Range": "[bytes=0-1]", "If-None-Match": `["x"]`, "User-Agent": "[mine]",
	} {
		if got := fmt.Sprint(h[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := fmt.Sprint(h["Via"]); !regexp.MustCompile(`^\[1\.1 other 1\.1 penstock-[0-9a-f]{12}\]$`).MatchString(got) {
		t.Errorf("Via is %s", got)
	}
	if got := fields(t, seen[1]).Get("User-Agent"); got != "Penstock" {
		t.Errorf("without a User-Agent, the receiver gets %q", got)
	}
}

// Each field of a call is checked, and a field that Penstock does not know is refused, since it could be a misspelt
// one.
func TestHostileProxyFields(t *testing.T) {
	p := fine(t)
	g := newGateway(t)
	g.put("q", p.url, "", "")
	list := []struct {
		fields []string
		field  string // refused for
	}{
		{
			[]string{
				"Penstock-Wait", "100ms", "Penstock-Cost", "1", "Penstock-Lane", "a", "Penstock-Priority", "0",
				"Penstock-Retry", "throttled",
			},
			"",
		},
		{[]string{"Penstock-Wait", "10m", "Penstock-Priority", "9"}, ""},
		{[]string{"Penstock-Wait", "99ms"}, "Penstock-Wait"},
		{[]string{"Penstock-Wait", "601s"}, "Penstock-Wait"},
		{[]string{"Penstock-Wait", "-5s"}, "Penstock-Wait"},
		{[]string{"Penstock-Wait", "5"}, "Penstock-Wait"},
		{[]string{"Penstock-Wait", ""}, "Penstock-Wait"},
		{[]string{"Penstock-Wait", "1s, 2s"}, "Penstock-Wait"},
		{
			[]string{"Penstock-Wait", "5s", "Penstock-Wait", "6s"},
			"Penstock-Wait",
		},
		{[]string{"Penstock-Wait", "9999999999999h"}, "Penstock-Wait"},
		{[]string{"Penstock-Cost", "0"}, "Penstock-Cost"},
		{[]string{"Penstock-Cost", "-1"}, "Penstock-Cost"},
		{
			[]string{"Penstock-Cost", "1.5"}, "Penstock-Cost",
		},
		{
			[]string{"Penstock-Cost", "99999999999999999999"},
			"Penstock-Cost",
		},
		{[]string{"Penstock-Cost", "0x1"}, "Penstock-Cost"},
		{
			[]string{"Penstock-Priority", "10"}, "Penstock-Priority",
		},
		{[]string{
			"Penstock-Priority",
			"-1",
		}, "Penstock-Priority"},
		{[]string{"Penstock-Priority", "high"}, "Penstock-Priority"},
		{
			[]string{"Penstock-Lane", strings.Repeat("x", 300)}, "Penstock-Lane",
		},
		{
			[]string{"Penstock-Lane", "a\xffb"},
			"Penstock-Lane",
		},
		{
			[]string{"Penstock-Retry", "always"}, "Penstock-Retry",
		},
		{
			[]string{"Penstock-Retry", "throttled, throttled"},
			"Penstock-Retry",
		},
		{[]string{"Penstock-Costs", "tokens=5"}, "Penstock-Costs"}, // no limit counts them
		{[]string{"Penstock-Costs", ""}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens="}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=-5"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=1e3"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=1000000001"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=99999999999999999999"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=5,tokens=5"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=5,"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=5; images=2"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", `{"tokens": 5}`}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "Tokens=5"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "jobs=5"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"}, "Penstock-Costs"},
		{[]string{"Penstock-Costs", "tokens=5", "Penstock-Costs", "images=5"}, "Penstock-Costs"},
		{[]string{"Penstock-Waits", "5s"}, "Penstock-Waits"},
		{[]string{"Penstock-Waited", "5"}, "Penstock-Waited"},
		{[]string{"Penstock-", "5"}, "Penstock-"},
		{[]string{"Penstock-Attempt", "1"}, "*"},
	}
	for _, c := range list {
		t.Run(fmt.Sprint(c.fields), func(t *testing.T) {
			before := len(p.seen())
			a := g.call("POST", "/proxy/q", "{}", c.fields...)
			sent := len(p.seen()) - before
			switch {
			case c.field == "":
				if a.status != 200 || sent != 1 {
					t.Errorf("%d %s", a.status, a.text)
				}
			case a.status/100 != 4 || sent != 0 || c.field != "*" && !strings.Contains(a.text, `"field":"`+c.field+`"`):
				t.Errorf("%d %s, %d were sent", a.status, a.text, sent)
			}
		})
	}
	t.Logf("%d sets of fields", len(list))
}

// Expect: 100-continue asks for the body only when the turn has come, if the body is large.
func TestHostileProxyExpect(t *testing.T) {
	got := make(chan string, 2)
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		body, _ := io.ReadAll(readRequest(t, head, in).Body)
		got <- fmt.Sprint(len(body), " ", fields(t, head)["Expect"])
		_, _ = io.WriteString(conn, plainOK)
	})
	g := newGateway(t)
	g.put("q", p.url, "", "")
	const large = 100_000
	conn := g.dial()
	defer conn.Close()
	pause := func(what string) {
		if a := g.call("POST", "/v1/queues/q/"+what, "{}", "Content-Type", "application/json"); a.status/100 != 2 {
			t.Fatalf("%s: %d %s", what, a.status, a.text)
		}
	}
	pause("pause")
	_, _ = io.WriteString(conn, "POST /proxy/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"+
		"Expect: 100-continue\r\n\r\n")
	g.waits(1)
	in := bufio.NewReader(conn)
	if in.Buffered() > 0 {
		t.Error("it was asked for the body before its turn")
	}
	pause("resume")
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(conn, strings.Repeat("x", large))
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
		t.Fatalf("%q, %v", line, err)
	}
	if had := <-got; had != "100000 []" {
		t.Errorf("the receiver got %s", had)
	}
}
