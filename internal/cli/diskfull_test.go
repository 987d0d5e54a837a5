package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/smalldisk"
)

// small is one `penstock up` with everything on a small disk.
type small struct {
	t        *testing.T
	base     string // of the queue
	stop     func() error
	accepted map[string]bool

	mu   sync.Mutex
	came map[string]int // what the receiver got
}

func (s *small) start(dir string) {
	s.t.Helper()
	url, stop, err := embedded.Start(s.t.Context(), embedded.Options{
		Data: dir, Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(s.t), Log: slog.New(slog.NewTextHandler(
			os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn},
		)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.base, s.stop = url+"/v1/queues/email", stop
}

func (s *small) call(method, path, body string) (status int, text string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// post sends a job of so many bytes, and returns the status and the state or reason.
func (s *small) post(id string, size int, more string) (status int, word string) {
	s.t.Helper()
	status, text := s.call("POST", "/jobs", fmt.Sprintf(`{"id":%q,"payload":%q%s}`, id, strings.Repeat("x", size), more))
	var answer struct{ State, Reason string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	if status == 202 || status == 200 {
		s.accepted[id] = true
	}
	return status, answer.State + answer.Reason
}

func (s *small) until(what string, done func() bool) {
	s.t.Helper()
	for begun := time.Now(); !done(); await.Pause(begun) {
		if time.Since(begun) > time.Minute {
			s.t.Fatalf("not in 60 s: %s", what)
		}
	}
}

// allCame reports whether all accepted jobs have arrived, and checks that none arrived twice.
func (s *small) allCame() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.came {
		if n > 1 {
			s.t.Fatalf("%s came %d times", id, n)
		}
	}
	for id := range s.accepted {
		if s.came[id] == 0 {
			return false
		}
	}
	return true
}

// The disk of `penstock up` is full. Every job is accepted or refused with a reason, and
// all that was accepted is delivered, once; when there is room and it was started again,
// jobs are deferred again.
func TestUpWithFullDisk(t *testing.T) {
	smalldisk.Run(t, 64<<20, func(t *testing.T, dir string) {
		s := &small{t: t, accepted: map[string]bool{}, came: map[string]int{}}
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.came[r.Header.Get("Penstock-Id")]++
		}))
		t.Cleanup(receiver.Close)
		s.start(dir)
		if status, text := s.call(
			"PUT", "", `{"rate":"unlimited","capacity":4,"overflow":"defer","deliver":{"http":{"url":"`+receiver.URL+`"}}}`,
		); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		s.call("POST", "/pause", "")
		for i := range 6 {
			if status, word := s.post(fmt.Sprintf("before%d", i), 1000, ""); status != 202 {
				t.Fatalf("%d %s", status, word)
			}
		}
		free := smalldisk.Fill(t, dir, 2<<20)
		refused := map[string]int{}
		for i := 0; refused["overflow_unavailable"] < 3; i++ {
			status, word := s.post(fmt.Sprintf("full%03d", i), 100<<10, "")
			switch {
			case status == 202 && word == "deferred":
			case status == 503 && (word == "store_full" || word == "overflow_unavailable"), status == 504 &&
				word == "outcome_unknown":
				refused[word]++
			default:
				t.Fatalf("%d: %d %s", i, status, word)
			}
			if i == 200 {
				t.Fatalf("the disk is not full: %v", refused)
			}
		}
		t.Logf("%d accepted, refused: %v", len(s.accepted), refused)
		free()
		s.call("POST", "/resume", "")
		s.until("the queue's own jobs are delivered", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.came) >= 4
		})

		if err := s.stop(); err != nil {
			t.Error(err)
		}
		s.start(dir)
		s.until("all come", s.allCame)
		s.call("POST", "/pause", "")
		s.until("jobs are deferred again", func() bool {
			status, word := s.post(fmt.Sprintf("after%d", len(s.accepted)), 1000, "")
			return status == 202 && word == "deferred"
		})
		s.call("POST", "/resume", "")
		s.until("all come", s.allCame)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		for id := range s.came {
			if !s.accepted[id] {
				t.Logf("%s came, of which nothing was known", id) // an unknown outcome
			}
		}
	})
}
