package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// tokensOf returns the costs that a test's call states.
func tokensOf(r *http.Request) map[string]int64 {
	n, err := strconv.ParseInt(r.Header.Get("Tokens"), 10, 64)
	if err != nil {
		return nil
	}
	return map[string]int64{"tokens": n}
}

// putCounting sets the queue with a quota of tokens, an estimate of 100, and where answers state them.
func (r *rig) putCounting(target string, change func(*queue.Spec)) {
	r.t.Helper()
	r.put(target, func(s *queue.Spec) {
		var quota queue.Quota
		if err := quota.UnmarshalText([]byte("1000000/d")); err != nil {
			r.t.Fatal(err)
		}
		s.Limits = []queue.Limit{{Unit: "tokens", Quota: quota}}
		s.Estimate = map[string]queue.Estimate{"tokens": {Default: 100}}
		s.Deliver = fmt.Appendf(nil, `{"http":{"url":%q,"actual":{"tokens":{"pointer":"/usage/total_tokens"}}}}`, target)
		if change != nil {
			change(s)
		}
	})
	<-time.After(2 * queue.Horizon) // departures right after a change of the limits are not corrected
}

func (r *rig) used() int64 {
	info, err := r.engine.Get(context.Background(), "q")
	if err != nil {
		r.t.Fatal(err)
	}
	w, _ := info.QuotaState(0)
	return w.Used
}

// usedIs waits until that many tokens are charged.
func (r *rig) usedIs(want int64) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprint(want, " tokens are charged"), func() bool { return r.used() == want && r.size() == 0 })
}

func (r *rig) ignored(fault string) int {
	r.notes.mu.Lock()
	defer r.notes.mu.Unlock()
	return r.notes.ignored[fault]
}

func (r *rig) get(path string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+path, strings.NewReader("{}"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

// A call is charged its costs, or the estimate, and in the end what its answer states. The answer passes unchanged.
func TestActualCosts(t *testing.T) {
	r := newRig(t)
	big := `{"data":"` + strings.Repeat("0123456789", 500_000) + `","usage":{"total_tokens":31}}`
	events := "data: {\"usage\":null}\n\ndata: {\"usage\":{\"total_tokens\":12}}\n\ndata: [DONE]\n\n"
	list := []struct {
		name, stated string // tokens that the call states
		status       int
		kind, body   string
		charged      int64
		fault        string
	}{
		{"json", "", 200, "application/json", `{"usage":{"total_tokens":7}}`, 7, ""},
		{"json, with costs", "1800", 200, "application/json", `{"usage":{"total_tokens":2000}}`, 2000, ""},
		{"events", "1800", 200, "text/event-stream", events, 12, ""},
		{"events without usage", "1800", 200, "text/event-stream", "data: {}\n\n", 1800, "missing"},
		{"five megabytes", "", 200, "application/json", big, 31, ""},
		{"missing", "", 200, "application/json", `{}`, 100, "missing"},
		{"absurd", "5", 200, "application/json", `{"usage":{"total_tokens":1e99}}`, 5, "invalid"},
		{"not JSON", "", 200, "text/html", `<html>`, 100, "not_json"},
		{"refused", "", 400, "application/json", `{"usage":{"total_tokens":3}}`, 3, ""},
		{"refused, without usage", "", 404, "text/html", "<html>", 100, ""},
		{"free", "0", 200, "application/json", `{}`, 0, "missing"},
		{"failed", "", 500, "application/json", `{"usage":{"total_tokens":3}}`, 100, ""},
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if got := req.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding is %q", got)
		}
		i, err := strconv.Atoi(req.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", list[i].kind)
		w.WriteHeader(list[i].status)
		_, _ = io.WriteString(w, list[i].body)
	}))
	defer receiver.Close()
	r.putCounting(receiver.URL, nil)
	for i, c := range list {
		t.Run(c.name, func(t *testing.T) {
			before, ignored := r.used(), r.ignored(c.fault)
			a, err := r.get(fmt.Sprint("/", i), "Tokens", c.stated, "Accept-Encoding", "gzip")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			if err != nil || string(text) != c.body || a.StatusCode != c.status {
				t.Errorf("%d, %d bytes, %v", a.StatusCode, len(text), err)
			}
			r.usedIs(before + c.charged)
			if n := r.ignored(c.fault) - ignored; c.fault != "" && n != 1 {
				t.Errorf("the fault %s is counted %d times", c.fault, n)
			}
		})
	}
	if n := r.ignored("cut"); n != 0 {
		t.Errorf("%d answers are taken for cut", n)
	}
}

// A call is charged what its body states, if the body is read before the turn and has a number there.
func TestCostsInTheBody(t *testing.T) {
	r := newRig(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	r.putCounting(receiver.URL, func(s *queue.Spec) {
		s.Estimate["tokens"] = queue.Estimate{Default: 100, From: "/max_tokens"}
	})
	big := `{"text":"` + strings.Repeat("x", earlyBody) + `","max_tokens":500}`
	for _, tt := range []struct {
		stated, kind, body string
		charged            int64
		refused            string
	}{
		{"", "application/json", `{"max_tokens":500}`, 500, ""},
		{"", "", `{"max_tokens":500}`, 500, ""},
		{"7", "application/json", `{"max_tokens":500}`, 7, ""},
		{"", "application/json", `{"max_tokens":"500"}`, 100, ""},
		{"", "text/plain", `{"max_tokens":500}`, 100, ""},
		{"", "application/json", big, 100, ""},
		{"", "application/json", `{"max_tokens":-1}`, 0, "payload.max_tokens"},
	} {
		before := r.used()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Tokens"] = []string{tt.stated}
		if tt.kind != "" {
			req.Header["Content-Type"] = []string{tt.kind}
		}
		a, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		r.usedIs(before + tt.charged)
		err = lastOf(r.errs)
		if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%.50s: %v, want %q", tt.body, err, tt.refused)
		}
	}
}

// Without a limit that counts them, answers are not read for tokens, and callers may have them compressed.
func TestUncountedUnits(t *testing.T) {
	r := newRig(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Header.Get("Accept-Encoding"))
	}))
	defer receiver.Close()
	r.putCounting(receiver.URL, func(s *queue.Spec) { s.Limits = nil })
	a, err := r.get("/", "Accept-Encoding", "br")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if err != nil || string(text) != "br" {
		t.Errorf("%q, %v", text, err)
	}
	await.Until(t, "the turn is over", func() bool { return r.ignored("uncounted") == 1 && r.size() == 0 })
}

// Events pass one by one. The turn is open, and charged the estimate, until the last one, however long that takes.
func TestActualCostsOfAStream(t *testing.T) {
	r := newRig(t)
	next := make(chan string)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer receiver.Close()
	r.putCounting(receiver.URL, func(s *queue.Spec) { s.Lease, s.MaxInFlight = unit.Duration(time.Second), 1 })
	go func() { next <- "data: {\"usage\":null}\n\n" }()
	a, err := r.get("/v1", "Tokens", "1800")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	events := bufio.NewReader(a.Body)
	if line, err := events.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data") {
		t.Fatal(line, err)
	}
	<-time.After(2500 * time.Millisecond) // more than two leases
	info, err := r.engine.Get(t.Context(), "q")
	if err != nil || info.Leased != 1 || r.used() != 1800 || info.TimedOut != 0 {
		t.Errorf("%d leased, %d charged, %d timed out, %v", info.Leased, r.used(), info.TimedOut, err)
	}
	next <- "data: {\"usage\":{\"total_tokens\":50}}\n\n"
	close(next)
	if _, err := io.ReadAll(events); err != nil {
		t.Error(err)
	}
	r.usedIs(50)
}

// A call is charged nothing if it is canceled before its turn, or not sent. It keeps its charge if its answer breaks
// off, or its caller leaves.
func TestCallsWithoutUsage(t *testing.T) {
	r := newRig(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"usage\":{\"total_tokens\":1}}\n\n")
		_ = http.NewResponseController(w).Flush()
		if req.URL.Path == "/breaks" {
			panic(http.ErrAbortHandler)
		}
		<-req.Context().Done()
	}))
	defer receiver.Close()
	r.putCounting(receiver.URL, nil)
	for i, path := range []string{"/breaks", "/left"} {
		a, err := r.get(path)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(a.Body).ReadString('\n')
		if err != nil {
			t.Error(line, err)
		}
		_ = a.Body.Close()
		r.usedIs(int64(100 * (i + 1)))
	}
	if n := r.ignored("cut"); n != 2 {
		t.Errorf("%d answers are taken for cut", n)
	}
}

// A call that is not sent, because its caller leaves before its turn or the receiver cannot be reached, is charged
// nothing.
func TestCallsThatAreNotSent(t *testing.T) {
	r := newRig(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"usage":{"total_tokens":7}}`)
	}))
	defer receiver.Close()
	r.putCounting(receiver.URL, func(s *queue.Spec) { s.Rate = leaky.Ratio(1, 3600e6) })
	a, err := r.get("/")
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	r.usedIs(7)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Within", "2h")
	if a, err := http.DefaultClient.Do(req); err == nil {
		_ = a.Body.Close()
		t.Error("it did not wait")
	}
	r.usedIs(7)

	r = newRig(t)
	r.putCounting("http://127.0.0.1:1", nil)
	if a, err = r.get("/"); err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if a.StatusCode != http.StatusTeapot {
		t.Errorf("status %d", a.StatusCode)
	}
	r.usedIs(0)
}

// A call whose costs cannot be counted, or are missing, is refused with the field.
func TestUnknownCosts(t *testing.T) {
	r := newRig(t)
	r.putCounting("http://127.0.0.1:1", func(s *queue.Spec) { s.Limits[0].Unit, s.Estimate = "images", nil })
	for tokens, want := range map[string]string{"5": "costs.tokens", "": "costs.images"} {
		a, err := r.get("/", "Tokens", tokens)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if err := lastOf(r.errs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", tokens, err, want)
		}
	}
	if n := r.size(); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

// lastOf returns the last error that Serve returned so far.
func lastOf(errs chan error) (last error) {
	for {
		select {
		case last = <-errs:
		default:
			return last
		}
	}
}
