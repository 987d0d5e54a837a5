package client_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
)

func TestProxyURL(t *testing.T) {
	for _, tt := range []struct{ address, queue, want string }{
		{"http://127.0.0.1:8080", "openai", "http://127.0.0.1:8080/proxy/openai"},
		{"https://penstock.test/below/", "group.child", "https://penstock.test/below/proxy/group.child"},
		{"http://127.0.0.1:8080", "a/../b?c#d", "http://127.0.0.1:8080/proxy/a%2F..%2Fb%3Fc%23d"},
		{"unix:///run/penstock.sock", "openai", "http://localhost/proxy/openai"},
	} {
		c, err := client.New(tt.address, client.WithToken(""))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ProxyURL(tt.queue); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.address, tt.queue, got, tt.want)
		}
	}
}

func TestProxyOptions(t *testing.T) {
	all := client.ProxyOptions{
		Lane: "größe", Cost: 3, Priority: 2, Wait: 90 * time.Second, Retry: client.RetryThrottled,
	}
	for _, tt := range []struct {
		options client.ProxyOptions
		want    map[string]string
	}{
		{client.ProxyOptions{}, map[string]string{}},
		{client.ProxyOptions{Cost: -1}, map[string]string{"Penstock-Cost": "-1"}}, // refused by the server
		{client.ProxyOptions{Costs: map[string]int64{"tokens": 1800, "images": 2}}, map[string]string{
			"Penstock-Costs": "images=2, tokens=1800",
		}},
		{all, map[string]string{
			"Penstock-Lane": "größe", "Penstock-Cost": "3", "Penstock-Priority": "2", "Penstock-Wait": "1m30s",
			"Penstock-Retry": "throttled",
		}},
	} {
		got := map[string]string{}
		for name, values := range tt.options.Header() {
			got[name] = strings.Join(values, "|")
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.options, got, tt.want)
		}
	}
}

// A receiver's answer is passed on with a metric of the proxy; Penstock's own refusals are not.
func TestProblemOf(t *testing.T) {
	const problem = `{"type":"https://example.com/no_turn","title":"no turn","status":429,"reason":"no_turn",` +
		`"detail":"later","retry_after_ms":1500,"error":{"message":"no turn: later","type":"penstock","code":"no_turn"}}`
	kind := http.Header{"Content-Type": {"application/problem+json"}}
	with := func(name string, values ...string) http.Header {
		h := kind.Clone()
		h[name] = values
		return h
	}
	for _, tt := range []struct {
		name, body string
		head       http.Header
		is         bool
	}{
		{"a refusal", problem, kind, true},
		{"with parameters", problem, with("Content-Type", "Application/Problem+JSON; charset=utf-8"), true},
		{"with the metric of a load balancer", problem, with("Server-Timing", "penstockish;dur=1, edge"), true},
		{"the receiver's, in the same form", problem, with("Server-Timing", "db;dur=3, penstock;dur=0.1"), false},
		{"the receiver's, with a metric of its own", problem, with("Server-Timing", "db;dur=3", "penstock;dur=0.1"), false},
		{"another type", problem, with("Content-Type", "application/json"), false},
		{"no reason", `{"title":"Too Many Requests","status":429}`, kind, false},
		{"not JSON", "slow down", kind, false},
		{"an array", "[1]", kind, false},
		{"no body", "", kind, false},
		{"too long", strings.Repeat(" ", 64<<10) + problem, kind, false},
	} {
		body := &watchedBody{Reader: strings.NewReader(tt.body)}
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: tt.head, Body: body}
		p, is := client.ProblemOf(resp)
		switch {
		case is != tt.is:
			t.Errorf("%s: %+v, %t", tt.name, p, is)
		case is && (p.Reason != client.ReasonNoTurn || p.Status != 429 || p.RetryAfter() != 1500*time.Millisecond):
			t.Errorf("%s: %+v", tt.name, p)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != tt.body {
			t.Errorf("%s: afterwards the body is %q, %v", tt.name, text, err)
		}
		if _ = resp.Body.Close(); !body.closed {
			t.Errorf("%s: the body was not closed", tt.name)
		}
	}
	if _, is := client.ProblemOf(nil); is {
		t.Error("nothing is a problem")
	}
}

// A problem whose body breaks off is not returned, and the next reader of the body gets the error.
func TestProblemOfABrokenBody(t *testing.T) {
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body: &watchedBody{Reader: io.MultiReader(strings.NewReader(`{"reason":`), broken{})},
	}
	if p, is := client.ProblemOf(resp); is {
		t.Errorf("%+v", p)
	}
	if text, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) ||
		!slices.Equal(text, []byte(`{"reason":`)) {
		t.Errorf("%q, %v", text, err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type watchedBody struct {
	io.Reader
	closed bool
}

func (b *watchedBody) Close() error {
	b.closed = true
	return nil
}
