package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

const goodToken, goodSession = "ps_good", "ps_session"

// call is a request to the API.
type call struct{ method, path, token, match, body string }

// fakeAPI knows one token with one session, and records their requests.
type fakeAPI struct {
	calls  []call
	closed bool // the session
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := call{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("If-Match"), string(body)}
	status, answer := http.StatusOK, any(map[string]any{})
	switch {
	case c.token != "Bearer "+goodToken && c.token != "Bearer "+goodSession:
		status, answer = http.StatusUnauthorized, map[string]any{"reason": "no_identity", "detail": "no such token"}
	case c.path == "/v1/whoami":
		answer = wire.Whoami{Name: "token:good", Grants: []auth.Grant{{Role: auth.Admin}}}
	case c.path == "/v1/session" && c.method == http.MethodDelete:
		f.closed = c.token == "Bearer "+goodSession
	case c.path == "/v1/session":
		ends := time.Now().Add(12 * time.Hour)
		answer = wire.MadeToken{Secret: goodSession, Token: wire.Token{ID: "s", SessionOf: "good", Expires: &ends}}
	case c.path == "/v1/overview":
		answer = wire.Overview{}
	case c.path == "/v1/store":
		answer = wire.Store{}
	case c.path == "/v1/queues/full/pause":
		status, answer = http.StatusForbidden, map[string]any{"reason": "forbidden", "detail": "this needs <operate>"}
	}
	if c.path != "/v1/whoami" && c.path != "/v1/overview" && c.path != "/v1/store" && c.path != "/v1/session" {
		f.calls = append(f.calls, c)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// visit sends a request as a browser does from a console page, with a cookie if it is not empty.
func visit(t *testing.T, h http.Handler, method, target, token string, form url.Values) visited {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if token != "" {
		r.Header.Set("Cookie", cookie+"="+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return visited{w.Code, w.Header(), w.Body.String()}
}

// visited is a response to a browser.
type visited struct {
	StatusCode int
	Header     http.Header
	body       string
}

func (v visited) Cookies() []*http.Cookie { return (&http.Response{Header: v.Header}).Cookies() }

func text(t *testing.T, v visited) string {
	t.Helper()
	return v.body
}

func newConsole(prefix string) (*fakeAPI, http.Handler) {
	api := &fakeAPI{}
	return api, New(Options{API: api, Prefix: prefix, Version: "1.2.3"}).Before(api)
}

func TestSignIn(t *testing.T) {
	api, h := newConsole("/p")
	r := visit(t, h, "GET", "/console/?sort=name", "", nil)
	to := r.Header.Get("Location")
	if r.StatusCode != http.StatusSeeOther || to != "/p/console/sign-in?next=%2Fp%2Fconsole%2F%3Fsort%3Dname" {
		t.Fatalf("a stranger is answered %d and sent to %q", r.StatusCode, to)
	}
	for token, wants := range map[string]string{
		"": "Enter a token", "ps_bad": "no such token", "a b": "invalid characters", strings.Repeat("x", 20_000): "too long",
	} {
		r := visit(t, h, "POST", "/console/sign-in", "", url.Values{"token": {token}})
		if page := text(t, r); r.StatusCode < 400 || !strings.Contains(page, wants) || len(r.Cookies()) > 0 {
			t.Errorf("signing in with %.20q: %d, %v, without %q in\n%s", token, r.StatusCode, r.Cookies(), wants, page)
		}
	}
	r = visit(t, h, "POST", "/console/sign-in", "", url.Values{
		"token": {" " + goodToken + "\n"}, "next": {"/p/console/x?y=1"},
	})
	c := r.Header.Get("Set-Cookie")
	if !regexp.MustCompile(
		`^__Host-penstock-session=ps_session; Path=/; Max-Age=431(99|98|97); HttpOnly; Secure; SameSite=Strict$`,
	).MatchString(c) {
		t.Fatalf("the cookie is %q, answer %d", c, r.StatusCode)
	}
	kept := strings.TrimPrefix(r.Header.Get("Location"), "/p")
	if r = visit(t, h, "GET", kept, "", nil); !strings.Contains(text(t, r), "Without TLS") {
		t.Error("a browser without a cookie gets no explanation")
	}
	if r = visit(t, h, "GET", kept, goodToken, nil); r.Header.Get("Location") != "/p/console/x?y=1" {
		t.Errorf("who is signed in goes to %q", r.Header.Get("Location"))
	}
	r = visit(t, h, "GET", "/console/", goodToken, nil)
	if r.StatusCode != http.StatusOK || !strings.Contains(text(t, r), "token:good") {
		t.Errorf("the overview: %d", r.StatusCode)
	}
	r = visit(t, h, "POST", "/console/sign-out", goodSession, url.Values{})
	if c := r.Header.Get("Set-Cookie"); !strings.Contains(c, "Max-Age=0") || !api.closed {
		t.Errorf("signing out: the cookie is %q, the session is closed: %v", c, api.closed)
	}
}

// The root redirects to the console, whatever the client accepts. The API handles all other methods.
func TestRootLeadsToConsole(t *testing.T) {
	_, h := newConsole("/p")
	for _, method := range []string{"GET", "HEAD"} {
		r := visit(t, h, method, "/", "", nil)
		if to := r.Header.Get("Location"); r.StatusCode != http.StatusSeeOther || to != "/p/console/" {
			t.Errorf("%s / is answered %d, to %q", method, r.StatusCode, to)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if r := visit(t, h, method, "/", "", nil); r.StatusCode == http.StatusSeeOther {
			t.Errorf("%s / is sent to the console", method)
		}
	}
}

// Requests from other sites are refused, even with a session.
func TestOtherSites(t *testing.T) {
	api, h := newConsole("")
	for _, head := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "same-site"},
		{"Origin": "https://evil.example"},
		{"Origin": "null"},
		{},
	} {
		for _, path := range []string{"/sign-in", "/sign-out", "/api/v1/queues/a/pause", "/theme"} {
			path = Root + path
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080"+path, strings.NewReader("token="+goodToken))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", cookie+"="+goodToken)
			for name, value := range head {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" || len(api.calls) > 0 {
				t.Errorf("%s with %v: %d, %v", path, head, w.Code, api.calls)
			}
		}
	}
}

func TestForms(t *testing.T) {
	api, h := newConsole("/p")
	r := visit(t, h, "POST", "/console/api/v1/queues/a/pause", goodToken, url.Values{
		"reason": {"<b>"}, "until": {""}, "limit:json": {"12"}, "_match": {"7"}, "_next": {"/p/console/"},
	})
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/p/console/" {
		t.Errorf("%d, to %q", r.StatusCode, r.Header.Get("Location"))
	}
	visit(t, h, "POST", "/console/api/v1/queues/a", goodToken, url.Values{"_method": {"DELETE"}})
	want := []call{
		{"POST", "/v1/queues/a/pause", "Bearer ps_good", `"7"`, `{"limit":12,"reason":"\u003cb\u003e"}`},
		{"DELETE", "/v1/queues/a", "Bearer ps_good", "", ""},
	}
	if len(api.calls) != 2 || api.calls[0] != want[0] || api.calls[1] != want[1] {
		t.Errorf("the API was asked %q", api.calls)
	}
	r = visit(t, h, "POST", "/console/api/v1/queues/full/pause", goodToken, url.Values{})
	if page := text(t, r); r.StatusCode != http.StatusForbidden || !strings.Contains(page, "this needs &lt;operate&gt;") {
		t.Errorf("a refusal: %d\n%s", r.StatusCode, page)
	}
	r = visit(t, h, "POST", "/console/api/v1/queues/a/pause", goodToken, url.Values{"n:json": {"1,"}})
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("JSON that is none: %d", r.StatusCode)
	}
	if r = visit(t, h, "POST", "/console/api/metrics", goodToken, url.Values{}); r.StatusCode != http.StatusNotFound {
		t.Errorf("what is no operation: %d", r.StatusCode)
	}
}

func TestOwnPath(t *testing.T) {
	c := New(Options{Prefix: "/p"})
	for given, want := range map[string]string{
		"/p/console/queues/a%2Fb?x=1#y": "/p/console/queues/a%2Fb?x=1", "/p/console/": "/p/console/",
		"": "/p/console/", "//evil.example/p/console/": "/p/console/", "https://evil.example/p/console/": "/p/console/",
		"/p/console/../../evil": "/p/console/", `/p/console/\evil.example`: "/p/console/", "/v1/queues": "/p/console/",
		"/p/console/sign-out": "/p/console/", "/p/console/api/v1/queues": "/p/console/",
		"javascript:alert(1)": "/p/console/",
		"/p/consoles/":        "/p/console/", "/p/console//evil.example": "/p/console/",
	} {
		if got := c.ownPath(given); got != want {
			t.Errorf("%q leads to %q, want %q", given, got, want)
		}
	}
}

func TestAnswersAreProtected(t *testing.T) {
	_, h := newConsole("")
	for path, status := range map[string]int{
		"/console/": 200, "/console/sign-in": 303, "/console/nothing": 404, "/console/assets/0/console.css": 404,
		"/console/api/v1/whoami": 200,
	} {
		r := visit(t, h, "GET", path, goodToken, nil)
		if r.StatusCode != status || r.Header.Get("Content-Security-Policy") != protection ||
			r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Referrer-Policy") != "no-referrer" ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", path, r.StatusCode, r.Header)
		}
	}
	if r := visit(t, h, "GET", "/v1/whoami", goodToken, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API itself goes by the cookie: %d", r.StatusCode)
	}
}

func TestAssets(t *testing.T) {
	c := New(Options{})
	for name, file := range c.assets.files {
		r := visit(t, c, "GET", c.asset(name), "", nil)
		if r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") ||
			text(t, r) != string(file.plain) {
			t.Errorf("%s: %d, %v", name, r.StatusCode, r.Header)
		}
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100"} {
		if got := num(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
	for s, want := range map[string]string{
		"0s": "0 s", "59s": "59 s", "60s": "1 m", "3725s": "1 h 2 m", "76h": "3 d 4 h", "-5s": "0 s", "86405s": "1 d",
	} {
		d, err := time.ParseDuration(s)
		if err != nil || span(d) != want {
			t.Errorf("%s is %q, %v", s, span(d), err)
		}
	}
	a := action{Command: []string{"queue", "pause", "a b", "--reason", "it's", ""}}
	if got := a.Shell(); got != `penstock queue pause 'a b' --reason 'it'\''s' ''` {
		t.Error(got)
	}
}
