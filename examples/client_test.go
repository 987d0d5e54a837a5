package examples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/penstocktest"
)

// serve starts a server for the programs that use the client.
func serve(t *testing.T) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PENSTOCK_BIN", filepath.Join(dir, "penstock"))
	s := penstocktest.Start(t)
	t.Setenv("PENSTOCK_URL", s.URL)
	t.Setenv("PENSTOCK_TOKEN", s.Token)
}

func TestClientHello(t *testing.T) {
	serve(t)
	_, lines := program(t, "client_hello")
	if line := next(t, lines); !strings.HasPrefix(line, "appended ") || !strings.HasSuffix(line, " waiting") {
		t.Error(line)
	}
	for _, want := range []string{`working on {"to":"you"}`, "it is delivered"} {
		if line := next(t, lines); line != want {
			t.Errorf("%s, want %s", line, want)
		}
	}
	if lines.Scan() {
		t.Error(lines.Text())
	}
}

// The producer overfills the queue, the worker empties it, and each job comes once.
func TestClientProducerAndWorker(t *testing.T) {
	serve(t)
	_, worked := program(t, "client_worker")
	_, produced := program(t, "client_producer")
	seen := map[string]bool{}
	for range 100 {
		line := next(t, worked)
		if seen[line] || !strings.HasPrefix(line, "image ") {
			t.Errorf("%s", line)
		}
		seen[line] = true
	}
	if line := next(t, produced); line != fmt.Sprint(100, " jobs accepted") {
		t.Error(line)
	}
}

func TestClientPaced(t *testing.T) {
	serve(t)
	var mu sync.Mutex
	var came []time.Time
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, time.Now())
	}))
	defer partner.Close()
	_, lines := program(t, "client_paced", partner.URL)
	for range 10 {
		if line := next(t, lines); !strings.HasSuffix(line, "200 OK") {
			t.Error(line)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if took := came[9].Sub(came[0]); len(came) != 10 || took < 1700*time.Millisecond {
		t.Errorf("%d requests at 5/s came within %v", len(came), took)
	}
}
