package provider

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sse is a server-sent event as a client sees it.
type sse struct {
	name string
	data map[string]any
	text string
}

func parseStream(t *testing.T, w *httptest.ResponseRecorder) (events []sse) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") || !w.Flushed {
		t.Fatalf("type %q, flushed %v: %s", got, w.Flushed, w.Body)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.text = data
			} else {
				t.Errorf("a line %q", line)
			}
		}
		if e.text != "[DONE]" {
			if err := json.Unmarshal([]byte(e.text), &e.data); err != nil {
				t.Error(err)
			}
		}
		events = append(events, e)
	}
	return events
}

func TestOpenAIStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Provider: OpenAI, Tokens: Limit{100_000, time.Minute}, StreamFor: 2 * time.Second})
		began := time.Now()
		body := strings.Replace(hello, `"model"`, `"stream": true, "stream_options": {"include_usage": true}, "model"`, 1)
		events := parseStream(t, r.chat(body))
		if took := time.Since(began); took < 100*time.Millisecond || took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		text, reason := "", any(nil)
		for _, e := range events {
			for _, c := range asList(e.data["choices"]) {
				delta, _ := c.(map[string]any)["delta"].(map[string]any)
				piece, _ := delta["content"].(string)
				text += piece
				if f := c.(map[string]any)["finish_reason"]; f != nil {
					reason = f
				}
			}
		}
		last := events[len(events)-2].data
		usage, _ := last["usage"].(map[string]any)
		completion, _ := usage["completion_tokens"].(float64)
		if events[len(events)-1].text != "[DONE]" || completion < 1 ||
			int(completion) != strings.Count(text, "flow ") ||
			reason == nil || len(asList(last["choices"])) != 0 {
			t.Errorf("%v tokens, %q, %v: %v", completion, text, reason, last)
		}
		a := r.s.Stats().Accounts[0]
		if total, _ := usage["total_tokens"].(float64); a.Tokens.Charged != int64(total) || r.s.Stats().Streams != 1 {
			t.Errorf("charged %d of %v", a.Tokens.Charged, total)
		}
		body = strings.Replace(hello, `"model"`, `"stream": true, "model"`, 1)
		if w := r.chat(body); strings.Contains(w.Body.String(), `"usage"`) {
			t.Errorf("usage without asking for it: %s", w.Body)
		}
	})
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func TestAnthropicStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Provider: Anthropic})
		events := parseStream(t, r.chat(strings.Replace(hello, `"model"`, `"stream": true, "model"`, 1)))
		var names []string
		tokens := 0
		for _, e := range events {
			if e.data["type"] != e.name {
				t.Errorf("%s has the type %v", e.name, e.data["type"])
			}
			if e.name == "content_block_delta" {
				delta, _ := e.data["delta"].(map[string]any)
				text, _ := delta["text"].(string)
				tokens += strings.Count(text, "flow ")
				if names[len(names)-1] == e.name {
					continue
				}
			}
			names = append(names, e.name)
		}
		want := "message_start content_block_start ping content_block_delta content_block_stop message_delta message_stop"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		usage, _ := events[len(events)-2].data["usage"].(map[string]any)
		if n, _ := usage["output_tokens"].(float64); int(n) != tokens || tokens < 1 {
			t.Errorf("%d tokens, usage %v", tokens, usage)
		}
	})
}

// An answer that the caller's maximum cuts says so.
func TestMaximumOfTokens(t *testing.T) {
	body := strings.Replace(hello, "100", "1", 1)
	openai, anthropic := newRig(t, Options{Provider: OpenAI}), newRig(t, Options{Provider: Anthropic})
	openai.want(openai.chat(body), 200, `"completion_tokens":1,`, `"finish_reason":"length"`)
	newer := strings.Replace(body, "max_tokens", "max_completion_tokens", 1)
	openai.want(openai.chat(newer), 200, `"completion_tokens":1,`)
	anthropic.want(anthropic.chat(body), 200, `"output_tokens":1}`, `"stop_reason":"max_tokens"`)
}
