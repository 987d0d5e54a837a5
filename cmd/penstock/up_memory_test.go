package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
)

// Within little memory, penstock up refuses jobs before it is used up, says so, and goes on delivering.
func TestUpInLittleMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "96MiB")
	s := up(t, "--data", t.TempDir(), "--no-auth")
	ask := func(method, path, kind string, body io.Reader) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for name, spec := range map[string]string{
		"usual": `{"rate":"unlimited","pull":true}`,
		"large": `{"rate":"unlimited","pull":true,"capacity":10000000,"max_bytes":"100GiB"}`,
	} {
		if status, text := ask("PUT", "/v1/queues/"+name, "application/json", strings.NewReader(spec)); status != 201 {
			t.Fatal(status, text)
		}
	}
	if _, text := ask("GET", "/v1/queues/usual", "", nil); !strings.Contains(text, fmt.Sprintf(`"max_bytes":%d`, 24<<20)) {
		t.Errorf("a queue without max_bytes may not take a quarter of the memory: %s", text)
	}
	accepted, refused := 0, ""
	for n := 0; refused == "" && n < 100; n++ {
		var jobs bytes.Buffer
		for i := range 5000 {
			fmt.Fprintf(&jobs, `{"id":"job-%d-%d","payload":1}`+"\n", n, i)
		}
		_, text := ask("POST", "/v1/queues/large/jobs", "application/x-ndjson", &jobs)
		accepted += strings.Count(text, `"status":202`)
		if _, after, found := strings.Cut(text, `"store_full"`); found {
			refused = after
		}
	}
	if refused == "" || accepted < 10_000 {
		t.Fatalf("%d were accepted, and one was refused: %.300s", accepted, refused)
	}
	_, text := ask("GET", "/readyz", "", nil)
	if !strings.Contains(text, `"degraded"`) || !strings.Contains(text, "the memory of this process is nearly full") {
		t.Errorf("/readyz says %s", text)
	}
	for range 20 {
		_, text := ask("POST", "/v1/queues/large/leases", "application/json", strings.NewReader(`{"max":100}`))
		if n := strings.Count(text, `"payload"`); n == 0 {
			t.Fatalf("deliveries do not go on: %.300s", text)
		}
	}
	t.Logf("%d jobs were accepted", accepted)
	await.Until(t, "another queue has room", func() bool {
		status, _ := ask("POST", "/v1/queues/usual/jobs", "application/json", strings.NewReader(`{"payload":1}`))
		return status == 202
	})
}
