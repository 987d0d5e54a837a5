package provider

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Invalid requests get an error in the provider's form, and use up the budget as those of real providers do.
func TestHostileRequests(t *testing.T) {
	messages := `"messages": [{"role": "user", "content": "x"}]`
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"an empty body", "", 400, "not valid JSON"},
		{"half a body", `{"model": "sim-small", "mess`, 400, "not valid JSON"},
		{"two bodies", hello + hello, 400, "not valid JSON"},
		{"null", "null", 400, "required"},
		{"a list", "[]", 400, "not valid JSON"},
		{"a text", `"hello"`, 400, "not valid JSON"},
		{"binary", "\x00\xff\xfe", 400, "not valid JSON"},
		{"deep nesting", strings.Repeat(`{"a":`, 20_000), 400, "not valid JSON"},
		{"a deep message", `{"model": "sim-small", "messages": [` + strings.Repeat("[", 20_000), 400, "not valid JSON"},
		{"too large", `{"model": "` + strings.Repeat("x", MaxBody) + `"}`, 413, "too large"},
		{"no model", `{"max_tokens": 1, ` + messages + `}`, 400, "'model'"},
		{"a model of another type", `{"model": 5, "max_tokens": 1, ` + messages + `}`, 400, "not valid JSON"},
		{"an unknown model", `{"model": "x\u0000", "max_tokens": 1, ` + messages + `}`, 404, "does not exist"},
		{"a long model", `{"model": "` + strings.Repeat("é", 50_000) + `", "max_tokens": 1, ` + messages + `}`, 404, "..."},
		{"no messages", `{"model": "sim-small", "max_tokens": 1}`, 400, "'messages'"},
		{"empty messages", `{"model": "sim-small", "max_tokens": 1, "messages": []}`, 400, "'messages'"},
		{"messages of another type", `{"model": "sim-small", "max_tokens": 1, "messages": {}}`, 400, "not valid JSON"},
		{"no tokens", `{"model": "sim-small", "max_tokens": 0, ` + messages + `}`, 400, "max_tokens"},
		{"negative tokens", `{"model": "sim-small", "max_tokens": -5, ` + messages + `}`, 400, "max_tokens"},
		{"tokens as a text", `{"model": "sim-small", "max_tokens": "5", ` + messages + `}`, 400, "not valid JSON"},
		{"endless tokens", `{"model": "sim-small", "max_tokens": 1e400, ` + messages + `}`, 400, "not valid JSON"},
		{"a stream of another type", `{"model": "sim-small", "max_tokens": 1, "stream": 1, ` + messages + `}`, 400, "not"},
		{"very many tokens", `{"model": "sim-small", "max_tokens": 9223372036854775807, ` + messages + `}`, 200, ""},
	} {
		for _, name := range []string{OpenAI, Anthropic} {
			t.Run(c.name+" to "+name, func(t *testing.T) {
				r := newRig(t, Options{Provider: name})
				w := r.chat(c.body)
				r.want(w, c.status, c.says)
				if c.status != 200 && !strings.Contains(w.Body.String(), `"error":{`) {
					t.Errorf("not in the provider's form: %s", w.Body)
				}
				if w.Body.Len() > 64<<10 && c.status != 200 {
					t.Errorf("an error of %d bytes", w.Body.Len())
				}
				if a := r.s.Stats().Accounts; len(a) != 1 || a[0].Requests.Charged != 1 {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}

func TestHostilePathsAndKeys(t *testing.T) {
	key := []string{"Authorization", "Bearer sk-test", "Anthropic-Version", "2023-06-01"}
	for _, c := range []struct {
		name, method, path string
		header             []string
		status             int
		says, allow        string
	}{
		{"no key", "POST", "", nil, 401, "No API key", ""},
		{"an empty key", "POST", "", []string{"Authorization", "Bearer "}, 401, "No API key", ""},
		{"another scheme", "POST", "", []string{"Authorization", "Basic c2stdGVzdA=="}, 401, "No API key", ""},
		{"a scheme alone", "POST", "", []string{"Authorization", "Bearer"}, 401, "No API key", ""},
		{"a wrong key", "POST", "", []string{"Authorization", "Bearer sk-wrong-secret-9876"}, 401, "****9876", ""},
		{"a short wrong key", "POST", "", []string{"Authorization", "Bearer sk"}, 401, "****", ""},
		{"HEAD of a call", "HEAD", "", key, 405, "", "POST"},
		{"GET of a call", "GET", "", key, 405, "not allowed", "POST"},
		{"DELETE of models", "DELETE", "/v1/models", key, 405, "not allowed", "GET, HEAD"},
		{"an unknown path", "POST", "/v1/nothing", key, 404, "/v1/nothing", ""},
		{"the root", "GET", "/", key, 404, "", ""},
		{"a path upward", "POST", "/v1/models/../chat/completions", key, 405, "", "GET, HEAD"},
		{"a model with a slash", "GET", "/v1/models/a/b", key, 404, "'b'", ""},
		{"no model", "GET", "/v1/models/", key, 404, "''", ""},
		{"a longer path", "POST", "/v1/modelsx", key, 404, "", ""},
	} {
		for name, call := range map[string]string{OpenAI: openAIPath, Anthropic: anthropicPath} {
			t.Run(c.name+" to "+name, func(t *testing.T) {
				r := newRig(t, Options{Provider: name, Key: "sk-test"})
				path := c.path
				if path == "" {
					path = call
				}
				w := r.do(c.method, path, hello, c.header...)
				r.want(w, c.status, c.says, `"error":{`)
				r.header(w, map[string]string{"Allow": c.allow})
				if strings.Contains(w.Body.String(), "wrong-secret") {
					t.Errorf("a key is shown: %s", w.Body)
				}
				if a := r.s.Stats().Accounts; len(a) != 0 {
					t.Errorf("it was charged: %+v", a)
				}
			})
		}
	}
}

func TestAnthropicNeedsItsHeaderAndMaximum(t *testing.T) {
	r := newRig(t, Options{Provider: Anthropic})
	r.want(r.do("POST", anthropicPath, hello, "X-Api-Key", "sk-test"), 400, "anthropic-version")
	r.want(r.chat(strings.Replace(hello, `"max_tokens": 100,`, "", 1)), 400, "max_tokens")
}

// A body that breaks off, over a real connection, is answered or ends with the connection, and harms nothing.
func TestHostileConnections(t *testing.T) {
	s, err := New(Options{Provider: OpenAI, Requests: Limit{1000, time.Second}, StreamFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	post := func(body io.Reader, length int64) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+openAIPath, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sk-test")
		req.ContentLength = length
		return server.Client().Do(req)
	}
	if resp, err := post(io.MultiReader(strings.NewReader(hello[:20]), brokenBody{}), 500); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a body that breaks off: %v", resp.Status)
	}
	// A caller that leaves in the middle of a stream is charged for what was sent.
	stream := strings.Replace(hello, `"model"`, `"stream": true, "model"`, 1)
	stream = strings.Replace(stream, "100", "10000", 1)
	resp, err := post(strings.NewReader(stream), int64(len(stream)))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	deadline := time.Now().Add(time.Minute)
	for s.Stats().Cut == 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if st := s.Stats(); st.Cut != 1 || st.Streams != 1 {
		t.Errorf("%+v", st)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
