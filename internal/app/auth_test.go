package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/test/redistest"
)

// An ingress asks who that is, unless it is told not to; and then it serves this machine alone, and says so.
func TestIngressAsksWho(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	store := []string{"--redis", redis.URL(), "--init"}
	for off, want := range map[string]struct {
		status int
		auth   bool
	}{"false": {http.StatusUnauthorized, false}, "true": {http.StatusOK, true}} {
		t.Setenv("PENSTOCK_NO_AUTH", off)
		in, log := program(t, app.RunIngress, store...)
		if status, text := call(t, "GET", in+"/v1/queues", "", ""); status != want.status {
			t.Errorf("--no-auth=%s: %d %s", off, status, text)
		}
		if _, text := call(t, "GET", in+"/readyz", "", ""); strings.Contains(text, `"auth":"off"`) != want.auth ||
			strings.Contains(log.String(), "--no-auth") != want.auth {
			t.Errorf("--no-auth=%s: readiness is %s, and it says\n%s", off, text, log)
		}
	}
}

// What cannot be is said before anything is touched.
func TestAuthFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--no-auth", "--insecure", "--listen", "0.0.0.0:0"}, "--no-auth: --listen 0.0.0.0:0"},
		{[]string{"--oidc-audience", "penstock"}, "--oidc-issuer is missing"},
		{[]string{"--oidc-claim", "email"}, "--oidc-issuer is missing"},
		{[]string{"--oidc-issuer", "a=https://oidc.example.com"}, "--oidc-audience"},
		{[]string{"--oidc-issuer", "https://oidc.example.com", "--oidc-audience", "penstock"}, "NAME=URL"},
		{[]string{"--oidc-issuer", "=https://oidc.example.com", "--oidc-audience", "penstock"}, "NAME=URL"},
	} {
		err := app.RunIngress(t.Context(), append(c.args, "--redis", "redis://127.0.0.1:1"), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v does not say %q", c.args, err, c.want)
		}
	}
}
