package preset

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/provider"
	"github.com/penstock/penstock/queue"
)

// What the presets read from answers and streams is what the providers charge. Limits are the user's, so the presets
// have none, and estimates for each unit that they read.
func TestPresetsReadUsage(t *testing.T) {
	const body = `{"model": "sim-small", "max_tokens": 30000, "messages": [{"role": "user", "content": "hello"}]`
	for name, path := range map[string]string{"openai": "/v1/chat/completions", "anthropic": "/v1/messages"} {
		for kind, text := range map[string]string{
			"answer": body + "}", "stream": body + `, "stream": true, "stream_options": {"include_usage": true}}`,
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				spec, target := presetOf(t, name)
				if len(spec.Estimate) != len(target.Actual) || len(spec.Limits) != 0 {
					t.Errorf("estimates of %v, limits of %v, reads %v", spec.Estimate, spec.Limits, target.Actual)
				}
				counted := map[string]int64{}
				for unit := range spec.Estimate {
					counted[unit] = 1
				}
				s, err := provider.New(provider.Options{
					Provider: name, Requests: provider.Limit{N: 100, Per: time.Minute},
					Tokens: provider.Limit{N: 1e9, Per: time.Minute},
				})
				if err != nil {
					t.Fatal(err)
				}
				req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(text))
				req.Header.Set("Authorization", "Bearer sk-test")
				req.Header.Set("Anthropic-Version", "2023-06-01")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req)
				answer := w.Result()
				used := target.Used(answer, counted)
				if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
					t.Fatal(answer.Status, err)
				}
				actual, faults := used.End(true)
				sum := int64(0)
				for _, n := range actual {
					sum += n
				}
				if charged := s.Stats().Accounts[0].Tokens.Charged; sum != charged || charged == 0 || len(faults) != 0 {
					t.Errorf("read %v, %v; the provider has charged %d", actual, faults, charged)
				}
			})
		}
	}
}

// presetOf returns the spec of a preset and its target.
func presetOf(t *testing.T, name string) (*queue.Spec, *httptarget.Target) {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := p.Over(map[string]any{"name": name, "rate": "500/m"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := queue.ParseSpec(raw)
	if err != nil {
		t.Fatal(err)
	}
	var named struct {
		HTTP json.RawMessage `json:"http"`
	}
	target := httptarget.Default()
	if err := json.Unmarshal(spec.Deliver, &named); err != nil {
		t.Fatal(err)
	}
	if err := setting.Decode(named.HTTP, "deliver.http", target); err != nil {
		t.Fatal(err)
	}
	if err := target.Check("deliver.http"); err != nil {
		t.Fatal(err)
	}
	return &spec, target
}
