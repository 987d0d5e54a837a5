package api_test

import (
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/await"
)

// The limits of an app, each passed by one.
func TestLimitsOfAnApp(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.with("acme", auth.Configure, auth.Produce, auth.Consume, auth.View)
	limits := func(l string) { s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"limits":`+l+`}`) }
	const spec = `{"rate":"1/s","pull":true,"capacity":100,"max_bytes":"1MiB"}`
	limits(`{"queues":3,"rules":2}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 201)
	s.by(acme, "PUT", "/v1/queues/acme-b", spec).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/queues/acme-a", spec).want(t, 200)
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"1/s"}`).want(t, 201)
	s.by(acme, "PUT", "/v1/rules/acme-s", `{"algorithm":"meter","rate":"1/s"}`).want(t, 400, "field", "name")
	s.by(acme, "PUT", "/v1/rules/acme-r", `{"algorithm":"meter","rate":"2/s"}`).want(t, 200)
	s.by(s.operator, "PUT", "/v1/queues/acme-c", spec).want(t, 201) // the operator's word counts
	limits(`{"bytes":"2MiB"}`)
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true,"max_bytes":"2MiB"}`).
		want(t, 400, "field", "max_bytes")
	s.by(acme, "PUT", "/v1/queues/acme-a", `{"rate":"1/s","pull":true}`).want(t, 400, "field", "max_bytes")
	limits(`{"waits":1,"streams":1}`)
	waits := make(chan *answer, 2)
	for range 2 {
		go func() { waits <- s.by(acme, "POST", "/v1/queues/acme-a/leases", `{"wait":"1s"}`) }()
	}
	if a, b := <-waits, <-waits; min(a.status, b.status) != 200 || max(a.status, b.status) != 429 {
		t.Errorf("of two waits: %s and %s", a.text, b.text)
	}
	limits(`{"rate":"2/h"}`)
	await.Until(t, "the rate is known", func() bool { return s.by(acme, "GET", "/v1/whoami", "").status == 429 })
	a := s.by(acme, "GET", "/v1/queues", "")
	a.want(t, 429, "reason", "limit_reached", "rule", "app.acme")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.by(s.with("beta", auth.View), "GET", "/v1/queues", "").want(t, 200)
	limits(`{}`)
	await.Until(
		t,
		"there is no rate any more",
		func() bool { return s.by(acme, "GET", "/v1/queues", "").status == 200 },
	)
	s.by(s.operator, "GET", "/v1/rules/app.acme", "").want(t, 404)
}
