package provider

import (
	"iter"
	"net/http"
	"strconv"
	"time"
)

// plain is an API that answers everything, and counts requests in fixed periods.
type plain struct{}

func (plain) route(string, string) (action, string) { return anything, "" }

func (plain) key(h http.Header) string {
	if key := bearer(h); key != "" {
		return key
	}
	return h.Get("X-Api-Key")
}

func (plain) check(http.Header, *chatRequest) *problem { return nil }

func (plain) limits(h http.Header, r readings) {
	h.Set("X-Ratelimit-Limit", strconv.FormatInt(r.requests.limit.N, 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(r.requests.left, 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(r.now.Add(r.requests.reset).Unix(), 10))
}

// later sets nothing: the time is in X-RateLimit-Reset.
func (plain) later(http.Header, time.Duration) {}

func (plain) number(h http.Header, id string) { h.Set("X-Request-Id", id) }

func (plain) refusal(p problem, _ string) any {
	return map[string]any{"errors": []any{map[string]any{"field": nil, "message": p.text()}}}
}

// A plain API has no models and no chat; its route never leads there.
func (plain) models([]string) any              { return nil }
func (plain) model(string) any                 { return nil }
func (plain) reply(*chatCall) any              { return nil }
func (plain) events(*chatCall) iter.Seq[event] { return func(func(event) bool) {} }
