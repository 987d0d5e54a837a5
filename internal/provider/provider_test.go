package provider

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	openAIPath    = "/v1/chat/completions"
	anthropicPath = "/v1/messages"
	hello         = `{"model": "sim-small", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}`
)

// rig is a simulator and a way to call it.
type rig struct {
	*testing.T
	s *Simulator
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	if o.Requests.N == 0 {
		o.Requests = Limit{60, time.Minute}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, s}
}

// do sends a request; header is a list of names and values.
func (r *rig) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.s.ServeHTTP(w, req)
	return w
}

// chat makes a call of the provider with a valid key.
func (r *rig) chat(body string) *httptest.ResponseRecorder {
	r.Helper()
	if r.s.o.Provider == Anthropic {
		return r.do("POST", anthropicPath, body, "X-Api-Key", "sk-test", "Anthropic-Version", "2023-06-01")
	}
	return r.do("POST", openAIPath, body, "Authorization", "Bearer sk-test")
}

func (r *rig) want(w *httptest.ResponseRecorder, status int, parts ...string) {
	r.Helper()
	if w.Code != status {
		r.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, part := range parts {
		if !strings.Contains(w.Body.String(), part) {
			r.Errorf("%s is not in %s", part, w.Body)
		}
	}
	if !json.Valid(w.Body.Bytes()) {
		r.Errorf("not JSON: %s", w.Body)
	}
}

func (r *rig) header(w *httptest.ResponseRecorder, fields map[string]string) {
	r.Helper()
	for name, want := range fields {
		if got := w.Header().Get(name); got != want {
			r.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestOpenAIRequestsPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Provider: OpenAI, Requests: Limit{60, time.Minute}, Key: "sk-test"})
		w := r.chat(hello)
		r.want(w, 200, `"object":"chat.completion"`, `"finish_reason"`, `"total_tokens"`)
		r.header(w, map[string]string{
			"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "59",
			"X-Ratelimit-Reset-Requests": "1s", "Retry-After": "", "X-Ratelimit-Limit-Tokens": "",
		})
		for range 59 {
			r.want(r.chat(hello), 200)
		}
		w = r.chat(hello)
		r.want(w, 429, `"code":"rate_limit_exceeded"`, `"type":"requests"`, "60/m")
		r.header(w, map[string]string{
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0s", "Retry-After": "1",
			"Retry-After-Ms": "1000",
		})
		time.Sleep(400 * time.Millisecond)
		w = r.chat(hello)
		r.want(w, 429)
		r.header(w, map[string]string{"Retry-After": "1", "Retry-After-Ms": "600"})
		time.Sleep(600 * time.Millisecond)
		r.want(r.chat(hello), 200)
		r.want(r.chat(hello), 429)
		a := r.s.Stats().Accounts[0]
		if a.Calls != 64 || a.Throttled != 3 || a.Requests.Charged != 61 || a.Requests.Most != 61 ||
			a.Slack != 62*time.Second {
			t.Errorf("%+v", a)
		}
	})
}

// The cost of a call is charged when it is answered, so the budget can go below zero; then calls wait until it is above
// zero again.
func TestTokensAreChargedAfterwards(t *testing.T) {
	for _, name := range []string{OpenAI, Anthropic} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{
					Provider: name, Requests: Limit{6000, time.Minute}, Tokens: Limit{600, time.Minute}, Seed: 5,
				})
				body := strings.Replace(hello, "100", "100000", 1)
				for len(r.s.Stats().Accounts) == 0 || r.s.Stats().Accounts[0].Tokens.Charged < 600 {
					r.want(r.chat(body), 200)
				}
				debt := r.s.Stats().Accounts[0].Tokens.Charged - 600
				w := r.chat(body)
				r.want(w, 429, map[string]string{OpenAI: `"type":"tokens"`, Anthropic: "rate_limit_error"}[name])
				wait := 100 * time.Millisecond * time.Duration(debt+1)
				if got := w.Header().Get("Retry-After"); got != strconv.FormatInt(ceil(wait), 10) {
					t.Errorf("Retry-After %s, want %d", got, ceil(wait))
				}
				time.Sleep(wait - time.Millisecond)
				r.want(r.chat(body), 429)
				time.Sleep(time.Millisecond)
				r.want(r.chat(body), 200)
			})
		})
	}
}

func TestAnthropicHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at 2000-01-01 00:00:00
		r := newRig(t, Options{Provider: Anthropic, Tokens: Limit{100_000, time.Minute}, Burst: 1})
		w := r.chat(hello)
		r.want(w, 200, `"type":"message"`, `"input_tokens":`, `"output_tokens":`, `"stop_reason":`)
		r.header(w, map[string]string{
			"Anthropic-Ratelimit-Requests-Limit": "60", "Anthropic-Ratelimit-Requests-Remaining": "0",
			"Anthropic-Ratelimit-Requests-Reset": "2000-01-01T00:00:01Z", "Anthropic-Ratelimit-Tokens-Limit": "100000",
		})
		if w.Header().Get("Request-Id") == "" {
			t.Error("no Request-Id")
		}
		w = r.chat(hello)
		r.want(w, 429, `"type":"error"`, `"type":"rate_limit_error"`, `"request_id":"req_`)
		r.header(w, map[string]string{"Retry-After": "1", "Retry-After-Ms": ""})
		time.Sleep(time.Second)
		w = r.do("POST", anthropicPath, hello, "Authorization", "Bearer sk-test", "Anthropic-Version", "2023-06-01")
		r.want(w, 200)
	})
}

func TestPlainCountsInPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at 2000-01-01 00:00:00
		r := newRig(t, Options{Provider: Plain, Requests: Limit{2, time.Minute}})
		time.Sleep(10 * time.Second)
		w := r.do("PUT", "/anything?at=all", "\x00not json")
		r.want(w, 200, `"ok":true`)
		r.header(w, map[string]string{
			"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "1", "X-Ratelimit-Reset": "946684860", "Retry-After": "",
		})
		r.want(r.do("GET", "/", ""), 200)
		w = r.do("GET", "/", "")
		r.want(w, 429, `"errors":[{`)
		r.header(w, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "946684860"})
		time.Sleep(50 * time.Second)
		r.want(r.do("DELETE", "/", ""), 200)
	})
}

// Each key has budgets of its own, up to a number of keys.
func TestKeysHaveTheirOwnBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Provider: OpenAI, Requests: Limit{1, time.Hour}})
		for i := range MaxKeys {
			r.want(r.do("POST", openAIPath, hello, "Authorization", "Bearer sk-"+strconv.Itoa(i)), 200)
		}
		r.want(r.do("POST", openAIPath, hello, "Authorization", "Bearer sk-7"), 429)
		r.want(r.do("POST", openAIPath, hello, "Authorization", "Bearer one-more"), 401, "1000 keys")
		if n := len(r.s.Stats().Accounts); n != MaxKeys {
			t.Errorf("%d accounts", n)
		}
	})
}

func TestModels(t *testing.T) {
	openai, anthropic := newRig(t, Options{Provider: OpenAI}), newRig(t, Options{Provider: Anthropic})
	key := []string{"Authorization", "Bearer sk-test"}
	openai.want(openai.do("GET", "/v1/models", "", key...), 200, `"object":"list"`, `"sim-large"`)
	openai.want(openai.do("GET", "/v1/models/sim-small", "", key...), 200, `"object":"model"`)
	openai.want(openai.do("GET", "/v1/models/gpt-9", "", key...), 404, `"code":"model_not_found"`)
	openai.want(openai.do("HEAD", "/v1/models", "", key...), 200)
	anthropic.want(anthropic.do("GET", "/v1/models", "", key...), 200, `"has_more":false`)
	anthropic.want(anthropic.do("GET", "/v1/models/x", "", key...), 404, "not_found_error")
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{Provider: "azure", Requests: Limit{1, time.Second}},
		{Provider: OpenAI},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, Burst: 6},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, Burst: -1},
		{Provider: Plain, Requests: Limit{5, time.Second}, Burst: 1},
		{Provider: Plain, Requests: Limit{5, time.Second}, Tokens: Limit{5, time.Second}},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, Median: -1},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, Median: MaxTokens + 1},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, Median: 500, P99: 499},
		{Provider: OpenAI, Requests: Limit{5, time.Second}, P99: MaxTokens + 1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestFailuresHaveTheProvidersForm(t *testing.T) {
	for name, want := range map[string]string{
		OpenAI: `"type":"server_error"`, Anthropic: `"type":"overloaded_error"`, Plain: `"errors":[{`,
	} {
		r := newRig(t, Options{Provider: name})
		w := httptest.NewRecorder()
		r.s.Fail(w, statusOverloaded)
		r.want(w, statusOverloaded, want)
	}
}

func TestStatsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Provider: OpenAI, Key: "sk-0123456789"})
		for range 2 {
			r.want(r.do("POST", openAIPath, hello, "Authorization", "Bearer sk-0123456789"), 200)
			time.Sleep(time.Second)
		}
		r.want(r.do("POST", openAIPath, hello, "Authorization", "Bearer wrong"), 401)
		w := r.do("GET", StatsPath, "")
		r.want(w, 200, `"statuses":{"200":2,"401":1}`, `"key":"****6789"`, `"limit":"60/m"`)
		if strings.Contains(w.Body.String(), "0123") {
			t.Errorf("a key is shown: %s", w.Body)
		}
		var s Stats
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || len(s.Accounts) != 1 || s.Accounts[0].Calls != 2 ||
			s.Accounts[0].Requests.Used != 1 || s.Accounts[0].Slack != 0 {
			t.Errorf("%v: %+v", err, s)
		}
		if w := r.do("POST", StatsPath, ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", w.Code)
		}
	})
}
