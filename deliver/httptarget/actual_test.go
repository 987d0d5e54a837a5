package httptarget_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// faults is an observer that counts the faults of actual costs.
type faults struct {
	drain.NoObserver
	mu sync.Mutex
	of map[string]int
}

func (f *faults) ActualIgnored(_, fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[fault]++
}

// used returns how much the first limit of a queue, a quota, has used.
func used(t *testing.T, e queue.Engine, name string) int64 {
	t.Helper()
	info, err := e.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := info.QuotaState(0)
	if !ok {
		t.Fatal("the first limit is no quota")
	}
	return w.Used
}

// answers are what a receiver answers, by path, and what is charged for it: the estimate is 100.
var answers = []struct {
	name    string
	answer  http.HandlerFunc
	charged int64
	fault   string
}{
	{"json", body(200, `{"usage":{"total_tokens":7}}`), 7, ""},
	{"zero", body(200, `{"usage":{"total_tokens":0}}`), 0, ""},
	{"more", body(201, `{"usage":{"total_tokens":4000}}`), 4000, ""},
	{"stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"usage\":null}\n\ndata: {\"usage\":{\"total_tokens\":8}}\n\ndata: [DONE]\n\n")
	}, 8, ""},
	{"at the end", body(200, `{"x":"`+strings.Repeat("x", 1<<20)+`","usage":{"total_tokens":9}}`), 9, ""},
	{"at the beginning", body(200, `{"usage":{"total_tokens":9},"x":"`+strings.Repeat("x", 70<<10)+`"}`), 9, ""},
	{"in a long stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1000 {
			_, _ = io.WriteString(w, "data: {\"x\":\""+strings.Repeat("x", 500)+"\"}\n\n")
		}
		_, _ = io.WriteString(w, "data: {\"usage\":{\"total_tokens\":8}}\n\n")
	}, 8, ""},
	{"slowly", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"x":"x",`)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(1500 * time.Millisecond) // longer than a body without costs is read
		_, _ = io.WriteString(w, `"usage":{"total_tokens":9}}`)
	}, 9, ""},
	{"too long", declared(10<<30, `{"usage":{"total_tokens":9},"x":"`+strings.Repeat("x", 100<<10)), 100, "cut"},
	{"broken off", declared(100<<10, `{"usage":{"total_tokens":9},"x":"`+strings.Repeat("x", 70<<10)), 100, "cut"},
	{"endless", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"usage":{"total_tokens":9},"x":"`)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	}, 100, "cut"},
	{"negative", body(200, `{"usage":{"total_tokens":-7}}`), 100, "invalid"},
	{"1e99", body(200, `{"usage":{"total_tokens":1e99}}`), 100, "invalid"},
	{"a string", body(200, `{"usage":{"total_tokens":"7"}}`), 100, "invalid"},
	{"missing", body(200, `{}`), 100, "missing"},
	{"no content", body(204, ``), 100, "missing"},
	{"not JSON", body(200, `<html>`), 100, "not_json"},
	{"not JSON, and too long", declared(10<<30, strings.Repeat("<html>", 20<<10)), 100, "not_json"},
	{"refused, with its costs", body(400, `{"usage":{"total_tokens":5}}`), 5, ""},
	{"refused", body(400, `<html>`), 100, ""},
}

func body(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// declared writes a part of a body whose declared length is larger.
func declared(length int64, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
		_, _ = io.WriteString(w, part)
	}
}

// Deliveries are charged what their answers state, and what they were charged before if that cannot be used.
func TestActualCosts(t *testing.T) {
	mux := http.NewServeMux()
	want, charged := map[string]int{"repeated": 1, "uncounted": len(answers)}, int64(100+6)
	for i, a := range answers {
		mux.HandleFunc(fmt.Sprintf("/%d", i), a.answer)
		charged += a.charged
		if a.fault != "" {
			want[a.fault]++
		}
		if strings.HasPrefix(a.name, "refused") {
			want["uncounted"]--
		}
	}
	mux.HandleFunc("/header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("x-tokens", "6") })
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Tokens"] = []string{"6", "6"}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		var quota queue.Quota
		if err := quota.UnmarshalText([]byte("1000000/d")); err != nil {
			t.Fatal(err)
		}
		var names []string
		put := func(path, actual string) {
			names = append(names, "api."+path)
			if _, err := e.Put(t.Context(), queue.Spec{
				Name: "api." + path, Rate: leaky.PerSecond(100),
				Deliver: fmt.Appendf(nil, `{"http":{"url":"%s/%s","actual":%s}}`, s.URL, path, actual),
			}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Put(t.Context(), queue.Spec{
			Name: "api", Rate: leaky.Unlimited, Limits: []queue.Limit{{Unit: "tokens", Quota: quota}},
			Estimate: map[string]queue.Estimate{"tokens": {Default: 100}},
		}, 0); err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			put(fmt.Sprint(i), `{"tokens":{"pointer":"/usage/total_tokens"},"images":{"header":"x-images"}}`)
		}
		put("header", `{"tokens":{"header":"x-tokens"}}`)
		put("headers", `{"tokens":{"header":"x-tokens"}}`)
		<-time.After(2 * queue.Horizon) // departures right after a change of the limits are not corrected
		for _, name := range names {
			a, err := e.Append(t.Context(), []queue.Job{{Queue: name, ID: "a", Payload: []byte("{}")}})
			if err != nil || a[0].Outcome != queue.Accepted {
				t.Fatal(a, err)
			}
		}
		seen := &faults{of: map[string]int{}}
		stop := drainLoopback(t, e, drain.Options{Observer: seen, Concurrency: 50})
		await.Until(t, "everything is delivered or dead", func() bool {
			for _, name := range names {
				info, err := e.Get(t.Context(), name)
				if err != nil || info.Size() > 0 {
					return false
				}
			}
			return true
		})
		stop()
		if n := used(t, e, "api"); n != charged {
			t.Errorf("%d tokens are charged, want %d", n, charged)
		}
		if !maps.Equal(seen.of, want) {
			t.Errorf("faults: %v, want %v", seen.of, want)
		}
	})
}

// Bodies are read as far as they may state the costs: up to a limit, and not at all beyond what any answer is read if
// they cannot. A connection is used again if the body was read to its end.
func TestHowFarActualReads(t *testing.T) {
	const sockets = 8 << 20 // what they may hold
	for _, c := range []struct {
		name, kind, begin, part string
		length                  int64 // declared; 0 for none
		parts                   int
		most                    int64
		kept                    bool
	}{
		{"endless", "application/json", `{"x":"`, "x", 0, 1 << 30, 16<<20 + sockets, false},
		{"endless events", "text/event-stream", "", "data: {}\n\n", 0, 1 << 30, 16<<20 + sockets, false},
		{"10 GB", "application/json", `{"x":"`, "x", 10 << 30, 1 << 30, 64<<10 + sockets, false},
		{"not JSON", "text/html", "<", "x", 0, 1 << 30, 64<<10 + sockets, false},
		{"a megabyte", "application/json", `"`, "x", 0, 1 << 20 >> 15, 2 << 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			written, conns := make(chan int64, 2), map[string]bool{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conns[r.RemoteAddr] = true // jobs come one at a time
				w.Header().Set("Content-Type", c.kind)
				if c.length > 0 {
					w.Header().Set("Content-Length", strconv.FormatInt(c.length, 10))
				}
				_, _ = io.WriteString(w, c.begin)
				part, n := strings.Repeat(c.part, 32<<10/len(c.part)), int64(0)
				for range c.parts {
					more, err := io.WriteString(w, part)
					if n += int64(more); err != nil {
						break
					}
				}
				_, _ = io.WriteString(w, c.begin) // the end of a string
				written <- n
			}))
			defer s.Close()
			e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if _, err := e.Put(t.Context(), queue.Spec{
				Name: "q", Rate: leaky.Unlimited, MaxInFlight: 1,
				Limits:  []queue.Limit{{Unit: "tokens", Rate: leaky.PerSecond(10), Burst: 10}},
				Deliver: fmt.Appendf(nil, `{"http":{"url":%q,"actual":{"tokens":{"pointer":"/n"}}}}`, s.URL),
			}, 0); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a", "b"} {
				job := queue.Job{Queue: "q", ID: id, Costs: map[string]int64{"tokens": 1}}
				if a, err := e.Append(t.Context(), []queue.Job{job}); err != nil || a[0].Outcome != queue.Accepted {
					t.Fatal(a, err)
				}
			}
			stop := drainLoopback(t, e, drain.Options{})
			for range 2 {
				select {
				case n := <-written:
					if n > c.most {
						t.Errorf("%d bytes were read", n)
					}
				case <-time.After(20 * time.Second):
					t.Error("it is still read")
				}
			}
			stop()
			if kept := len(conns) == 1; kept != c.kept {
				t.Errorf("%d connections", len(conns))
			}
		})
	}
}
