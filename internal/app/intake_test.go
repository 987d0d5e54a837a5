package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
)

// The target of a queue sees each job that the API takes in.
func TestTargetsSeeArrivals(t *testing.T) {
	engine, err := store.Open(t.Context(), store.Options{DataPath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(nil, secrets.Source{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	base := in.URL() + "/v1/queues/sms"
	expect := func(method, path, body, contentType string, status int, parts ...string) {
		t.Helper()
		got, text := call(t, method, base+path, body, contentType)
		for _, part := range parts {
			if got != status || !strings.Contains(text, part) {
				t.Errorf("%s %s %.80s: %d %s, want %d and %s", method, path, body, got, text, status, part)
			}
		}
	}
	const typeJSON = "application/json"
	expect(
		"PUT", "",
		`{"rate": "1/s", "deliver": {"sms": {"provider": "twilio", "account": "AC1", "auth_token": "planted", `+
			`"allow_from": ["Shop"]}}}`,
		typeJSON, 201, `"revision"`,
	)
	expect("GET", "", "", "", 200, `"auth_token":"***"`)
	long := fmt.Sprintf(`{"to": "+4915112345678", "from": "Shop", "text": %q}`, strings.Repeat("x", 161))
	bad := `{"to": "0151", "from": "Shop", "text": "x"}`
	expect("POST", "/jobs", `{"id": "bad", "payload": `+bad+`}`, typeJSON, 400, `"invalid_field"`, `"field":"payload.to"`)
	expect("GET", "/jobs/bad", "", "", 404, `"unknown_job"`)
	expect("POST", "/jobs", `{"id": "long", "payload": `+long+`}`, typeJSON, 202, `"id":"long"`)
	expect("GET", "/jobs/long", "", "", 200, `"cost":2`)
	expect("POST", "/jobs", `{"id": "long", "payload": `+long+`}`, typeJSON, 200, `"id":"long"`)
	expect("POST", "/jobs", `{"id": "long", "payload": `+long+`, "cost": 1}`, typeJSON, 409, `"conflict"`)
	lines := `{"id": "l1", "payload": ` + bad + "}\n" + `{"id": "l2", "payload": ` + long + "}\n" +
		`{"id": "l3", "payload": ` + long + `, "cost": 7}` + "\n"
	expect(
		"POST", "/jobs", lines, "application/x-ndjson", 200, `"line":1,"status":400`, `"field":"payload.to"`,
		`"line":2,"status":202`, `"line":3,"status":202`,
	)
	expect("GET", "/jobs/l2", "", "", 200, `"cost":2`)
	expect("GET", "/jobs/l3", "", "", 200, `"cost":7`)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}
