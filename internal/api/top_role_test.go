package api_test

import (
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// The keys of a rule may be parts of payloads, and are for those who may see these.
func TestTopByRole(t *testing.T) {
	s := secure(t, api.Options{})
	const top = "/v1/rules/" + acmeRule + "/top"
	s.by(s.with("acme", auth.View), "GET", top, "").want(t, 403, "reason", "forbidden")
	s.by(s.with("acme", auth.Payloads), "GET", top, "").want(t, 200)
	s.by(s.with("beta", auth.Payloads), "GET", top, "").want(t, 404, "reason", "unknown_rule")
}
