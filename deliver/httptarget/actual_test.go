package httptarget_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	{"as long as is read", body(200, `{"usage":{"total_tokens":9},"x":"`+strings.Repeat("x", 60<<10)+`"}`), 9, ""},
	{"too long", body(200, `{"usage":{"total_tokens":9},"x":"`+strings.Repeat("x", 70<<10)+`"}`), 100, "cut"},
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
	{"refused, with its costs", body(400, `{"usage":{"total_tokens":5}}`), 5, ""},
	{"refused", body(400, `<html>`), 100, ""},
}

func body(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
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

// An endless body is not read any further because it might state the costs.
func TestActualReadsNoFurther(t *testing.T) {
	written := make(chan int, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		_, _ = io.WriteString(w, `{"x":"`)
		for {
			more, err := io.WriteString(w, strings.Repeat("x", 32<<10))
			if n += more; err != nil {
				break
			}
		}
		written <- n
	}))
	defer s.Close()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Put(t.Context(), queue.Spec{
		Name: "q", Rate: leaky.Unlimited, Limits: []queue.Limit{{Unit: "tokens", Rate: leaky.PerSecond(10)}},
		Deliver: fmt.Appendf(nil, `{"http":{"url":%q,"actual":{"tokens":{"pointer":"/n"}}}}`, s.URL),
	}, 0); err != nil {
		t.Fatal(err)
	}
	job := queue.Job{Queue: "q", ID: "a", Costs: map[string]int64{"tokens": 1}}
	if a, err := e.Append(t.Context(), []queue.Job{job}); err != nil || a[0].Outcome != queue.Accepted {
		t.Fatal(a, err)
	}
	stop := drainLoopback(t, e, drain.Options{})
	select {
	case n := <-written:
		if n > 16<<20 { // what is read, and what sockets hold
			t.Errorf("%d bytes were read", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("it is still read")
	}
	stop()
}
