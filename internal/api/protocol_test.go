package api_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/ops"
)

// Over HTTP/2 a stream goes both ways as well.
func TestStreamHTTP2(t *testing.T) {
	f := serve(t, api.Options{})
	srv := httptest.NewUnstartedServer(held(t, api.New(f.engine, api.Options{})))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	f.url, f.client = srv.URL, srv.Client()
	feed, answers, resp := f.open(jobs)
	if resp.proto != 2 {
		t.Fatalf("protocol %d", resp.proto)
	}
	for i := range 3 {
		say(t, feed, `{"payload":1}`+"\n")
		wantLine(t, line(t, answers), "line", i+1, "status", 202)
	}
	_ = feed.Close()
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("after the last answer: %q, %v", rest, err)
	}
}

// talk sends bytes as they are and returns a reader of what comes back.
func talk(t *testing.T, f *fixture, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	say(t, conn, text)
	return conn, bufio.NewReader(conn)
}

// A client that asks whether to send its stream is told to, though it is
// answered at the same time.
func TestStreamExpectContinue(t *testing.T) {
	f := serve(t, api.Options{})
	conn, r := talk(
		t, f,
		"POST "+jobs+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nExpect: "+
			"100-continue\r\nContent-Length: 14\r\n\r\n",
	)
	if text, err := r.ReadString('\n'); err != nil || !strings.Contains(text, "100 Continue") {
		t.Fatalf("%q, %v", text, err)
	}
	if text, err := r.ReadString('\n'); err != nil || text != "\r\n" {
		t.Fatalf("%q, %v", text, err)
	}
	say(t, conn, `{"payload":1}`+"\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"status":202`) {
		t.Errorf("%s, %v", text, err)
	}
}

// What is behind a stream that ended early is never taken for a request.
func TestStreamNoSmuggling(t *testing.T) {
	f := serve(t, api.Options{BodyTimeout: 100 * time.Millisecond})
	hidden := "DELETE /v1/queues/email?force=true HTTP/1.1\r\nHost: x\r\n\r\n"
	_, r := talk(
		t, f,
		"POST /v1/queues/none/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"+
			"Content-Length: 10000\r\n\r\n"+hidden,
	)
	all, _ := io.ReadAll(r) // until the connection is closed
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.Contains(string(all), " 404 ") {
		t.Errorf("%d answers: %s", n, all)
	}
	f.do("GET", email, "").want(t, 200)
}

// An incomplete body is not a job, even if what came of it is one.
func TestBodyCutShort(t *testing.T) {
	f := serve(t, api.Options{})
	conn, r := talk(
		t, f,
		"POST "+jobs+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"payload\":1}",
	)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(text), "body_incomplete") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	f.close()
	if ids := f.engine.queues["email"].ids; len(ids) != 0 {
		t.Errorf("%v were taken in", ids)
	}
}

// Large bodies that arrive together are bounded together; small ones always pass.
func TestBodyMemory(t *testing.T) {
	f := serve(t, api.Options{})
	h := held(t, api.New(f.engine, api.Options{Memory: ops.NewBudget(1 << 20)}))
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	f.url, f.client = srv.URL, srv.Client()
	large := `{"payload":"` + strings.Repeat("x", 200<<10) + `"}`

	body, feed := io.Pipe() // without a network in between: what was written has been read
	first, ended := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodPost, jobs, body)
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(first, r)
	}()
	say(t, feed, large)
	f.do("POST", jobs, large).want(t, 503, "reason", "overloaded")
	f.do("POST", jobs, `{"payload":1}`).want(t, 202)
	_ = feed.Close()
	<-ended
	if first.Code != http.StatusAccepted {
		t.Errorf("the first: %d %s", first.Code, first.Body)
	}
	f.do("POST", jobs, large).want(t, 202)
}

// If-Match is a list, on one line or on several, with empty elements in it or not.
func TestIfMatchIsAList(t *testing.T) {
	for _, c := range []struct {
		lines  []string
		status int
	}{
		{[]string{`"9"`, `"1"`}, 200},
		{[]string{`"1"`, `"9"`}, 200},
		{[]string{`"9", "8"`, `"7","1"`}, 200},
		{[]string{"", `"1"`}, 200},
		{[]string{`, "1",,`}, 200},
		{[]string{`"9"`, `"8"`}, 412},
		{[]string{`"8"`, ""}, 412},
		{[]string{`"1"`, `W/"1"`}, 400},
		{[]string{`"1"`, "*"}, 400},
		{[]string{""}, 400},
		{[]string{" ", ","}, 400},
	} {
		var header []string
		for _, line := range c.lines {
			header = append(header, "If-Match", line)
		}
		f := serve(t, api.Options{})
		if a := f.do("PUT", email, `{"rate":"2/m"}`, header...); a.status != c.status ||
			c.status == 400 && a.body["field"] != "If-Match" {
			t.Errorf("%q: %d, want %d: %s", c.lines, a.status, c.status, a.text)
		}
	}
	f := serve(t, api.Options{})
	f.do("PUT", email, `{"rate":"2/m"}`, "If-None-Match", "", "If-None-Match", "*").want(t, 412)
	f.do("PUT", email, `{"rate":"2/m"}`, "If-None-Match", "").want(t, 400, "field", "If-None-Match")
	f.do(
		"PUT", email, `{"rate":"2/m"}`, "If-None-Match", "*", "If-None-Match", `"1"`,
	).want(t, 400, "field", "If-None-Match")
}

// A request has an id, its client's or one of ours: in the answer, in a problem and in the log.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer
	f := serve(t, api.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const header = "X-Request-Id"
	first, second := f.do("GET", "/v1/queues", "").header.Get(header), f.do("GET", "/v1/queues", "").header.Get(header)
	if first == "" || first == second {
		t.Errorf("made %q and %q", first, second)
	}
	for _, c := range []struct {
		given string
		taken bool
	}{
		{"deploy-4711", true},
		{strings.Repeat("x", 64), true},
		{strings.Repeat("x", 65), false},
		{"two words", false},
		{"caf\u00e9", false},
		{"..", false},
		{"", false},
	} {
		a := f.do("GET", "/v1/queues/none", "", header, c.given)
		if got := a.header.Get(header); (got == c.given) != c.taken || got == "" {
			t.Errorf("%.20q was named %q", c.given, got)
		}
		a.want(t, 404, "request", a.header.Get(header))
	}
	if twice := f.do("GET", "/v1/queues", "", header, "a", header, "b").header[header]; len(twice) != 1 ||
		twice[0] == "a" || twice[0] == "b" {
		t.Errorf("given two, named %q", twice)
	}
	f.do("POST", email+"/pause", "", header, "deploy-4711").want(t, 200)
	if !strings.Contains(log.String(), "address=127.0.0.1 request=deploy-4711 operation=pauseQueue") {
		t.Error(log.String())
	}
	f.do("GET", "/none", "").want(t, 404)
	if f.do("PATCH", "/v1/queues", "").header.Get(header) == "" {
		t.Error("a 405 has no id")
	}
}
