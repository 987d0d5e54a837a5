package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/provider"
	"github.com/penstock/penstock/internal/test/await"
)

// The workers of examples/llm.yaml call a provider, and in the end the queue has counted the tokens that the provider
// has charged. Calls through the proxy count toward the same budget.
func TestLLMExample(t *testing.T) {
	for name, command := range map[string]func(t *testing.T, s *server) *exec.Cmd{
		"go": func(t *testing.T, _ *server) *exec.Cmd {
			path := filepath.Join(t.TempDir(), "worker")
			output(t, exec.Command("go", "build", "-trimpath", "-o", path, "../examples/llm_worker"))
			return exec.Command(path)
		},
		"python": func(t *testing.T, s *server) *exec.Cmd {
			return exec.Command(program(t, "python3"), "../examples/llm_worker.py", s.url)
		},
		"typescript": func(t *testing.T, _ *server) *exec.Cmd {
			typescriptDriver(t)
			dir := t.TempDir() // where Node.js finds the client, as if it were installed
			client, err := filepath.Abs("typescript")
			text, err2 := os.ReadFile("../examples/llm_worker.mjs")
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(client, filepath.Join(dir, "node_modules", "penstock")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "worker.mjs"), text, 0o644); err != nil {
				t.Fatal(err)
			}
			return exec.Command(program(t, "node"), filepath.Join(dir, "worker.mjs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, err := provider.New(provider.Options{
				Provider: provider.OpenAI, Requests: provider.Limit{N: 10_000, Per: time.Minute}, Key: "sk-test",
				Median: 50, P99: 2000,
			})
			if err != nil {
				t.Fatal(err)
			}
			receiver := httptest.NewServer(api)
			defer receiver.Close()
			s := startServer(t, "--ephemeral", "--config", llmConfig(t, receiver.URL))
			worker := command(t, s)
			worker.Env = append(
				os.Environ(), "PENSTOCK_URL="+s.url, "PENSTOCK_TOKEN="+s.token, "OPENAI_API_KEY=sk-test",
				"OPENAI_BASE_URL="+receiver.URL+"/v1",
			)
			var errs strings.Builder
			worker.Stderr = &errs
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = worker.Process.Signal(syscall.SIGTERM)
				if err := worker.Wait(); err != nil || errs.Len() > 0 {
					t.Errorf("the worker: %v\n%s", err, errs.String())
				}
			}()
			const jobs, calls = 20, 3
			const ask = `{"model": "sim-small", "messages": [{"role": "user", "content": "hello"}]`
			for i := range jobs {
				s.done(t, http.MethodPost, "/v1/queues/llm.batch/jobs", fmt.Sprintf(`{"id": "job-%d", "payload": %s}}`, i, ask))
			}
			for range calls {
				s.done(t, http.MethodPost, "/proxy/llm.live/v1/chat/completions",
					ask+`, "stream": true, "stream_options": {"include_usage": true}}`)
			}
			await.Until(t, "all calls are charged what they have used", func() bool {
				var info struct {
					Stats struct{ Quotas []struct{ Used int64 } }
				}
				err := json.Unmarshal(s.done(t, http.MethodGet, "/v1/queues/llm", ""), &info)
				if err != nil || len(info.Stats.Quotas) != 1 {
					t.Fatal(info, err)
				}
				stats := api.Stats()
				return stats.Statuses["200"] == jobs+calls && len(stats.Accounts) == 1 &&
					info.Stats.Quotas[0].Used == stats.Accounts[0].Tokens.Charged
			})
		})
	}
}

// llmConfig returns the example with the provider's URL, and a rate and a burst with which a test need not wait.
func llmConfig(t *testing.T, url string) string {
	t.Helper()
	text, err := os.ReadFile("../examples/llm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(
		"https://api.openai.com", url, "${secret:OPENAI_API_KEY}", "sk-test", "500/m", "100/s", "200000/m", "200000/s",
	).Replace(string(text))
	path := filepath.Join(t.TempDir(), "llm.yaml")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// done makes a call that must succeed, and returns the answer.
func (s *server) done(t *testing.T, method, path, body string) []byte {
	t.Helper()
	text, status := s.ask(t, method, path, []byte(body))
	if status/100 != 2 {
		t.Fatalf("%s %s: %d\n%s", method, path, status, text)
	}
	return text
}
