// Package clients tests that all clients behave alike: it runs the cases of conformance.json with each client, on a
// real server behind a proxy that can fail.
package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/long"
)

// conformance is the file conformance.json.
type conformance struct {
	Cases []testCase `json:"cases"`
}

// testCase is a case. Names of queues and rules are of the case alone: the runner replaces {q} and {r} by names that no
// other case has. A case has queues, rules and files of tokens, which are made before it begins.
type testCase struct {
	Name   string                     `json:"name"`
	Queues map[string]json.RawMessage `json:"queues"` // their specs by name, such as "q"
	Rules  map[string]json.RawMessage `json:"rules"`
	Faults []fault                    `json:"faults"`
	// OwnServer gives the case a server that keeps its jobs on file, so that it can be killed and started again.
	OwnServer bool   `json:"own_server"`
	Steps     []step `json:"steps"`
	// Requests are how many requests the proxy must have seen, by method and path.
	Requests map[string]any `json:"requests"`
	// Pauses are the least seconds between the first two requests, by method and path.
	Pauses map[string]float64 `json:"pauses"`
	// Env is added to the environment of the client.
	Env map[string]string `json:"env"`
	// Only are the clients that the case is for; by default all.
	Only []string `json:"only"`
}

// step is one step: a Call, Await, Server, Until, HTTP, Arm or Token.
type step struct {
	Call    string         `json:"call"`
	Args    map[string]any `json:"args"`
	Options map[string]any `json:"options"`
	// OK is part of the expected answer, Error of the expected error.
	OK    any            `json:"ok"`
	Error map[string]any `json:"error"`
	// As lets the call go on under a name, for Await and for the call "cancel".
	As    string `json:"as"`
	Await string `json:"await"`
	// Server kills, starts, stops or continues the server of the case.
	Server string `json:"server"`
	// Until waits for a state of the server, as GET answers at a path.
	Until *until `json:"until"`
	// Arm adds faults, from then on.
	Arm []fault `json:"arm"`
	// HTTP is a request to the server itself, such as "POST /v1/queues/{q}/jobs", with a Body.
	HTTP string          `json:"http"`
	Body json.RawMessage `json:"body"`
	// Token revokes the token of the client, or gives it another in its file.
	Token string `json:"token"`
}

type until struct {
	Path  string `json:"path"`
	Shows any    `json:"shows"`
}

// patience is how long a step may take. It only ends a test that hangs.
const patience = 90 * time.Second

func TestConformance(t *testing.T) {
	text, err := os.ReadFile("conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var list conformance
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		t.Fatalf("conformance.json: %v", err)
	}
	if n := len(list.Cases); n < 80 {
		t.Errorf("%d cases", n)
	}
	shared := startServer(t, "--ephemeral")
	for _, lang := range languages {
		t.Run(lang.name, func(t *testing.T) {
			t.Parallel()
			command := lang.driver(t)
			limit := make(chan struct{}, 4)
			for i := range list.Cases {
				c := &list.Cases[i]
				if len(c.Only) > 0 && !slices.Contains(c.Only, lang.name) {
					continue
				}
				if !long.Form() && len(c.Only) == 0 && othersTurn(lang.name, i) {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					limit <- struct{}{}
					defer func() { <-limit }()
					run := &run{T: t, c: c, name: fmt.Sprintf("%s-%d-", lang.name, i), server: shared}
					run.execute(command)
				})
			}
		})
	}
}

// othersTurn reports whether the other one of Python's two clients runs a case in the short form. They take turns,
// since generate_sync.py writes one of them from the other. In the long form both run every case.
func othersTurn(client string, n int) bool {
	return client == "python" && n%2 == 1 || client == "python-asyncio" && n%2 == 0
}

// run is a case that is being run with one client.
type run struct {
	*testing.T
	c      *testCase
	name   string // the beginning of its names
	server *server
	proxy  *proxy
	driver *driver
	calls  map[string]*call // under way
	token  string           // the file of the client's token
}

func (r *run) execute(command []string) {
	if r.c.OwnServer {
		r.server = startServer(r.T, "--data", r.TempDir(), "--listen", freeAddress(r.T))
	}
	r.proxy = startProxy(r.T, r.server)
	r.proxy.arm(r.expandFaults(r.c.Faults))
	for name, spec := range r.c.Queues {
		r.must(http.MethodPut, "/v1/queues/"+r.name+name, []byte(r.expand(string(spec))))
	}
	for name, spec := range r.c.Rules {
		r.must(http.MethodPut, "/v1/rules/"+r.name+name, spec)
	}
	r.token = r.TempDir() + "/token"
	r.proxy.renew = r.writeToken
	r.writeToken(r.proxy.accept("first"))
	env := append(os.Environ(), "PENSTOCK_URL="+r.proxy.url, "PENSTOCK_TOKEN_FILE="+r.token, "PENSTOCK_TOKEN=")
	for k, v := range r.c.Env {
		env = append(env, k+"="+r.expand(v))
	}
	r.driver = startDriver(r.T, command, env)
	r.calls = map[string]*call{}
	for i := range r.c.Steps {
		r.step(i, &r.c.Steps[i])
		if r.Failed() {
			r.Logf("the requests were\n%s", strings.Join(r.proxy.log(), "\n"))
			return
		}
	}
	r.driver.close()
	for on, want := range r.c.Requests {
		if got := len(r.proxy.times(r.expand(on))); !matches(float64(got), want) {
			r.Errorf("%d requests %s, want %v; all requests:\n%s", got, on, want, strings.Join(r.proxy.log(), "\n"))
		}
	}
	for on, want := range r.c.Pauses {
		at := r.proxy.times(r.expand(on))
		if len(at) < 2 || at[1].Sub(at[0]).Seconds() < want {
			r.Errorf("%s: requests at %v, want a pause of %v s", on, at, want)
		}
	}
}

func (r *run) step(i int, s *step) {
	what := fmt.Sprintf("step %d, %s", i+1, strings.TrimSpace(s.Call+s.Await+s.Server+s.Token))
	switch {
	case s.Call == "cancel":
		r.driver.send("cancel", map[string]any{"of": r.calls[fmt.Sprint(s.Args["of"])].n}, nil)
	case s.Call != "":
		c := r.driver.send(s.Call, r.expandAll(s.Args).(map[string]any), s.Options)
		if s.As != "" {
			r.calls[s.As] = c
			return
		}
		r.check(what, s, c)
	case s.Await != "":
		r.check(what, s, r.calls[s.Await])
	case s.Server != "":
		r.server.do(r.T, s.Server)
	case s.Until != nil:
		r.await(what, s.Until)
	case s.HTTP != "":
		method, path, _ := strings.Cut(r.expand(s.HTTP), " ")
		r.must(method, path, s.Body)
	case len(s.Arm) > 0:
		r.proxy.arm(r.expandFaults(s.Arm))
	case s.Token == "revoked":
		r.writeToken("ps_" + strings.Repeat("0", 12) + "_" + strings.Repeat("0", 43))
	case s.Token == "valid":
		r.writeToken(r.proxy.accept("another"))
	default:
		r.Fatalf("%s: the step does nothing", what)
	}
}

// check compares the answer of a call.
func (r *run) check(what string, s *step, c *call) {
	r.Helper()
	a := c.wait(r.T, what)
	switch {
	case s.Error != nil && a.Error == nil:
		r.Errorf("%s: answered %v, want the error %v", what, show(a.OK), show(s.Error))
	case s.Error != nil && !matches(any(a.Error), r.expandAll(s.Error)):
		r.Errorf("%s: the error is %v, want %v", what, show(a.Error), show(s.Error))
	case s.Error == nil && a.Error != nil:
		r.Errorf("%s: %v", what, show(a.Error))
	case s.Error == nil && s.OK != nil && !matches(a.OK, r.expandAll(s.OK)):
		r.Errorf("%s: answered %v, want %v", what, show(a.OK), show(s.OK))
	}
}

func (r *run) await(what string, u *until) {
	r.Helper()
	var last any
	for begun := time.Now(); time.Since(begun) < patience; await.Pause(begun) {
		text, status := r.server.ask(r.T, http.MethodGet, r.expand(u.Path), nil)
		last = string(text)
		var got any
		if status == http.StatusOK && json.Unmarshal(text, &got) == nil && matches(got, r.expandAll(u.Shows)) {
			return
		}
	}
	r.Errorf("%s: not in %v: %s is %v, want %v", what, patience, u.Path, last, show(u.Shows))
}

func (r *run) must(method, path string, body []byte) {
	r.Helper()
	if text, status := r.server.ask(r.T, method, path, body); status/100 != 2 {
		r.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

func (r *run) writeToken(token string) {
	if err := os.WriteFile(r.token, []byte(token+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
}

// expand replaces {q} and the like by the names of the case.
func (r *run) expand(s string) string {
	for name := range r.c.Queues {
		s = strings.ReplaceAll(s, "{"+name+"}", r.name+name)
	}
	for name := range r.c.Rules {
		s = strings.ReplaceAll(s, "{"+name+"}", r.name+name)
	}
	s = strings.ReplaceAll(s, "{none}", r.name+"none")
	s = strings.ReplaceAll(s, "{tomorrow}", time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	if r.proxy != nil {
		s = strings.ReplaceAll(s, "{provider}", r.proxy.url+"/provider")
	}
	return s
}

func (r *run) expandAll(v any) any {
	switch v := v.(type) {
	case string:
		return r.expand(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.expandAll(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = r.expandAll(v[k])
		}
		return out
	}
	return v
}

func (r *run) expandFaults(list []fault) []fault {
	list = slices.Clone(list)
	for i := range list {
		list[i].On = r.expand(list[i].On)
	}
	return list
}

// matches reports whether a value is as wanted. Wanted objects list only some fields. An object with one of the fields
// $any, $least, $most, $length and $has is a condition.
func matches(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		for op, v := range want {
			if !strings.HasPrefix(op, "$") {
				break
			}
			if !holds(got, op, v) {
				return false
			}
		}
		fields, is := got.(map[string]any)
		for k, v := range want {
			if !strings.HasPrefix(k, "$") && (!is || !matches(fields[k], v)) {
				return false
			}
		}
		return true
	case []any:
		list, is := got.([]any)
		if !is || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !matches(list[i], want[i]) {
				return false
			}
		}
		return true
	}
	return got == want
}

func holds(got any, op string, v any) bool {
	n, _ := got.(float64)
	bound, _ := v.(float64)
	switch op {
	case "$any":
		return got != nil
	case "$least":
		return n >= bound
	case "$most":
		return n <= bound
	case "$length":
		list, _ := got.([]any)
		return float64(len(list)) == bound
	case "$has":
		list, _ := got.([]any)
		return slices.ContainsFunc(list, func(e any) bool { return matches(e, v) })
	case "$contains":
		text, _ := got.(string)
		return strings.Contains(text, fmt.Sprint(v))
	}
	return false
}

func show(v any) string {
	text, _ := json.Marshal(v)
	if len(text) > 2000 {
		text = append(text[:2000], "..."...)
	}
	return string(text)
}

func readAll(r io.Reader) []byte {
	text, _ := io.ReadAll(r)
	return text
}
