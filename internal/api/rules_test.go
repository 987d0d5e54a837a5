package api_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

const (
	otp  = "/v1/rules/otp"
	twoM = `{"algorithm":"meter","rate":"2/m","burst":2,"key":"{payload/to}"}`
)

func TestRuleLifecycle(t *testing.T) {
	f := serve(t, api.Options{})
	a := f.do("PUT", otp, twoM, "If-None-Match", "*")
	a.want(
		t, 201, "name", "otp", "algorithm", "meter", "rate", "2/m", "burst", 2, "key", "{payload/to}", "action", "reject",
		"away", "closed", "revision", 2, "limit", nil,
	)
	if a.header.Get("ETag") != `"2"` || a.header.Get("Location") != otp {
		t.Errorf("headers %v", a.header)
	}
	f.do("PUT", otp, twoM, "If-None-Match", "*").want(t, 412, "reason", "revision_mismatch", "revision", 2)
	f.do("PUT", otp, twoM, "If-Match", `"1"`).want(t, 412, "revision", 2)
	f.do(
		"PUT", otp, `{"algorithm":"gap","period":"30s","action":"shadow","away":"share","overrides":{"vip":{"period":"1s"}}}`,
		"If-Match", `"1", "2"`,
	).
		want(
			t, 200, "revision", 3, "period", "30s", "action", "shadow", "away", "share", "overrides",
			map[string]any{"vip": map[string]any{"period": "1s"}},
		)
	f.do(
		"PUT", otp, `{"name":"otp","algorithm":"concurrency","limit":5,"ttl":"1m"}`, "If-Match", "*",
	).want(t, 200, "revision", 4, "ttl", "1m0s")
	f.do("PUT", "/v1/rules/new", twoM, "If-Match", "*").want(t, 412)
	f.do("PUT", "/v1/rules/new", twoM, "If-Match", `"9"`).want(t, 412, "revision", 0)
	f.do("PUT", otp, twoM, "If-Match", `W/"4"`).want(t, 400, "field", "If-Match")
	a = f.do("GET", otp, "")
	a.want(t, 200, "revision", 4, "queues", nil)
	if a.header.Get("ETag") != `"4"` {
		t.Errorf("headers %v", a.header)
	}

	f.engine.rules["otp"].info.Queues = []string{"mail", "mail.otp"}
	f.do("GET", otp, "").want(t, 200, "queues", []any{"mail", "mail.otp"})
	f.do("DELETE", otp, "").want(t, 409, "reason", "rule_in_use")
	f.engine.rules["otp"].info.Queues = nil
	f.do("DELETE", otp, "", "If-Match", `"3"`).want(t, 412)
	f.do("DELETE", otp, "", "If-Match", `"4"`).want(t, 204)
	f.do("DELETE", otp, "").want(t, 404, "reason", "unknown_rule")
	f.do("GET", otp, "").want(t, 404, "reason", "unknown_rule")
	f.do("PATCH", otp, "").want(t, 405)
	f.do("GET", otp+"/take", "").want(t, 405)
}

// A change that was made is never said not to have been, though the rule cannot be read after it.
func TestRuleChangedButNotRead(t *testing.T) {
	f := serve(t, api.Options{})
	f.engine.readErr = fmt.Errorf("redis 10.0.0.1: %w", queue.ErrUnavailable)
	made := f.do("PUT", otp, twoM)
	made.want(t, 201, "name", "otp", "revision", 2)
	if made.header.Get("ETag") != `"2"` {
		t.Errorf("headers %v", made.header)
	}
	f.do("GET", otp, "").want(t, 503, "reason", "unavailable")
}

// A rule is not deleted while it cannot be found out who asks it, unless that does not matter.
func TestRuleNotReadIsNotDeleted(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("PUT", otp, twoM).want(t, 201)
	f.engine.readErr = fmt.Errorf("redis 10.0.0.1: %w", queue.ErrUnavailable)
	f.do("DELETE", otp, "").want(t, 503, "reason", "unavailable")
	f.do("DELETE", otp+"?force=true", "").want(t, 204)
}

func TestListRules(t *testing.T) {
	f := serve(t, api.Options{})
	f.do("GET", "/v1/rules", "").want(t, 200, "rules", []any{}, "next", nil)
	for i := range 7 {
		f.do("PUT", fmt.Sprintf("/v1/rules/r%d", i), twoM).want(t, 201)
	}
	var names []string
	path := "/v1/rules?limit=3"
	for pages := 1; path != ""; pages++ {
		a := f.do("GET", path, "")
		a.want(t, 200)
		for _, q := range a.body["rules"].([]any) {
			names = append(names, q.(map[string]any)["name"].(string))
		}
		link := a.header.Get("Link")
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if (a.body["next"] == nil) != (path == "") || pages > 3 {
			t.Fatalf("page %d: next %v, link %s", pages, a.body["next"], link)
		}
	}
	if got := strings.Join(names, " "); got != "r0 r1 r2 r3 r4 r5 r6" {
		t.Errorf("listed %s", got)
	}
	f.do("GET", "/v1/rules?limit=1001", "").want(t, 400, "field", "limit")
}

func TestBadRules(t *testing.T) {
	f := serve(t, api.Options{})
	for _, c := range []struct{ body, field string }{
		{`{}`, "algorithm"},
		{`{"algorithm":"bucket"}`, "algorithm"},
		{`{"algorithm":"meter"}`, "rate"},
		{`{"algorithm":"meter","rate":"0/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"-1/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"1e18/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"NaN"}`, "rate"},
		{`{"algorithm":"meter","rate":"unlimited"}`, "rate"},
		{`{"algorithm":"meter","rate":"1/s","burst":-1}`, "burst"},
		{`{"algorithm":"meter","rate":"1/s","burst":1000000000000000000}`, "burst"},
		{`{"algorithm":"meter","rate":"1/s","limit":5}`, "limit"},
		{`{"algorithm":"fixed_window","limit":0,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":-5,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":1e18,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":1000000000000000000,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":2.5,"period":"1m"}`, "limit"},
		{`{"algorithm":"fixed_window","limit":5,"period":"0s"}`, "period"},
		{`{"algorithm":"fixed_window","limit":5,"period":"876000h"}`, "period"},
		{`{"algorithm":"fixed_window","limit":5,"period":60}`, "period"},
		{`{"algorithm":"gap"}`, "period"},
		{`{"algorithm":"concurrency","limit":5}`, "ttl"},
		{`{"algorithm":"meter","rate":"1/s","action":"ask"}`, "action"},
		{`{"algorithm":"meter","rate":"1/s","action":"defer"}`, ""},
		{`{"algorithm":"meter","rate":"1/s","away":"shut"}`, "away"},
		{`{"algorithm":"meter","rate":"1/s","key":"{to}"}`, "key"},
		{`{"algorithm":"meter","rate":"1/s","key":"{lane"}`, "key"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"":{"rate":"1/s"}}}`, "overrides"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"a":{"rate":"0/s"}}}`, "overrides.a.rate"},
		{`{"algorithm":"meter","rate":"1/s","overrides":{"a":{"rate":"1/s"},"a":{"rate":"2/s"}}}`, "overrides.a"},
		{`{"algorithm":"meter","rate":"1/s","rate":"2/s"}`, "rate"},
		{`{"algorithm":"meter","rate":"1/s","rates":"2/s"}`, "rates"},
		{`{"algorithm":"meter","rate":"1/s","name":"sms"}`, "name"},
		{`{"algorithm":"meter","rate":null}`, "rate"},
		{`{"algorithm":"gap","period":"1s","burst":0}`, "burst"},
	} {
		if c.field == "" {
			f.do("PUT", otp, c.body).want(t, 422, "reason", "no_overflow", "field", "action")
			continue
		}
		f.do("PUT", otp, c.body, "Content-Type", "application/json").want(t, 400, "field", c.field)
	}
	for _, body := range []string{``, `[]`, `{"algorithm":NaN}`, `{"algorithm":"meter","rate":"1/s"}x`} {
		f.do("PUT", otp, body).want(t, 400)
	}
	f.do("PUT", "/v1/rules/a%20b", twoM).want(t, 400, "field", "name")
	f.do("PUT", otp, twoM, "Content-Type", "application/yaml").want(t, 415)
	f.do("PUT", otp, strings.Repeat(" ", 3<<20)).want(t, 413)
	f.do("GET", otp, "").want(t, 404)
}

// A key that finds no room in its rule is told from one that is over its limit, whether it comes with a job or by name.
func TestRuleFullOfKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		const rules = "/v1/rules/"
		const spec = `{"algorithm":"fixed_window","limit":9,"period":"1h","max_keys":1,"key":"{payload/to}"}`
		const name = "email.to"
		f.do("PUT", rules+name, spec).want(t, 201, "max_keys", 1)
		f.do("POST", rules+name+"/take", `{"key":"a"}`).want(t, 200, "max_keys", nil)
		a := f.do("POST", rules+name+"/take", `{"key":"b"}`)
		a.want(t, 429, "reason", "limit_reached", "allowed", false, "rule", name, "max_keys", 1, "limit", 9, "remaining", 0)
		if ms, _ := a.body["retry_after_ms"].(float64); ms < 1 || ms > 3_600_000 {
			t.Errorf("again after %v", ms)
		}
		if detail, _ := a.body["detail"].(string); !strings.Contains(detail, "its maximum of 1 keys") ||
			!strings.Contains(detail, "max_keys") {
			t.Errorf("detail %q", detail)
		}
		f.do("POST", rules+name+"/peek", `{"key":"b"}`).want(t, 200, "allowed", false, "max_keys", 1)
		f.do("GET", rules+name, "").want(t, 200, "max_keys", 1, "keys", map[string]any{"held": 1., "max": 1.})
		f.do("PUT", email, `{"rate":"14/s","rules":["`+name+`"]}`)
		a = f.do("POST", jobs, `{"payload":{"to":"b"}}`)
		a.want(t, 429, "reason", "limit_reached", "rule", name, "max_keys", 1)
		f.do("POST", jobs, `{"payload":{"to":"a"}}`).want(t, 202)
		f.do("PUT", rules+"bad", `{"algorithm":"gap","period":"1h","max_keys":0}`).want(t, 400, "field", "max_keys")
	})
}

// ruled is a rule of the engine, and what was taken from it.
type ruled struct {
	info    rules.Info
	tallies map[string]leaky.Tally
}

func (e *engine) PutRule(_ context.Context, r rules.Rule, expect int64) (queue.PutResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return queue.PutResult{}, e.err
	}
	old, present := e.rules[r.Name], int64(0)
	if old != nil {
		present = old.info.Revision
	}
	if expect != queue.AnyRevision && expect != present {
		return queue.PutResult{Revision: present}, queue.ErrRevision
	}
	e.revision++
	if e.rules == nil {
		e.rules = map[string]*ruled{}
	}
	e.rules[r.Name] = &ruled{rules.Info{Rule: r, Revision: e.revision}, map[string]leaky.Tally{}}
	return queue.PutResult{Revision: e.revision, Created: old == nil, Changed: true}, nil
}

func (e *engine) rule(name string) (*ruled, error) {
	if e.err != nil {
		return nil, e.err
	}
	r := e.rules[name]
	if r == nil {
		return nil, fmt.Errorf("%w: %s", rules.ErrUnknown, name)
	}
	return r, nil
}

func (e *engine) Rule(_ context.Context, name string) (rules.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err == nil {
		err = e.readErr
	}
	if err != nil {
		return rules.Info{}, err
	}
	return r.info, nil
}

func (e *engine) ListRules(_ context.Context, after string, limit int) ([]rules.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []rules.Info
	for _, name := range slices.Sorted(maps.Keys(e.rules)) {
		if name > after && len(list) < limit {
			list = append(list, e.rules[name].info)
		}
	}
	return list, e.err
}

func (e *engine) DeleteRule(_ context.Context, name string, expect int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	switch {
	case err != nil:
		return err
	case expect != queue.AnyRevision && expect != r.info.Revision:
		return queue.ErrRevision
	case len(r.info.Queues) > 0:
		return rules.ErrInUse
	}
	delete(e.rules, name)
	return nil
}

func (e *engine) ResetRule(_ context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err == nil {
		clear(r.tallies)
	}
	return err
}

// Take decides at the epoch.
func (e *engine) Take(_ context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.rule(name)
	if err != nil {
		return nil, err
	}
	e.takes = append(e.takes, len(takes))
	answers := make([]rules.Taken, len(takes))
	for i, t := range takes {
		answers[i] = r.take(t)
		answers[i].Shadow, answers[i].Away = r.info.Action == rules.Shadow, e.away
	}
	return answers, nil
}

func (r *ruled) take(t rules.Take) rules.Taken {
	l, err := r.info.Of(t.Key).Limiter(r.info.Algorithm)
	if err != nil {
		return rules.Taken{Err: err}
	}
	ask := leaky.Ask{Cost: t.Cost, Lease: t.Lease}
	if r.info.Algorithm == leaky.AlgorithmConcurrency && ask.Lease == "" {
		ask.Lease = fmt.Sprintf("place-%d", len(r.tallies))
	}
	switch err := leaky.CheckAsk(l, ask); {
	case errors.Is(err, leaky.ErrNever):
		return rules.Taken{Err: rules.CannotPass("cost", r.info.Name, t.Cost, l.Limit())}
	case err != nil:
		return rules.Taken{Err: err}
	case t.Key == "" && r.info.Key != "":
		return rules.Taken{Err: &invalid.Error{Field: "key", Reason: "is empty, and the rule counts by one; give it"}}
	}
	tally := r.tallies[t.Key]
	if tally == nil || t.Op == rules.TakeAnew {
		tally = l.Fresh()
		r.tallies[t.Key] = tally
	}
	now := leaky.Instant(epoch.UnixMicro())
	switch t.Op {
	case rules.TakePeek:
		return rules.Taken{Decision: tally.Peek(now, ask)}
	case rules.TakeBack:
		return rules.Taken{Decision: tally.Refund(now, ask)}
	case rules.TakeAnew:
		return rules.Taken{Decision: tally.Peek(now, leaky.Ask{Lease: ask.Lease})}
	}
	return rules.Taken{Decision: tally.Take(now, ask), Lease: t.Lease}
}
