package api_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
)

// A request has an id, its client's or one of ours: in the answer, in a problem and in the log.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer
	f := serve(t, api.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const header = "X-Request-Id"
	first, second := f.do("GET", "/v1/queues", "").header.Get(header), f.do("GET", "/v1/queues", "").header.Get(header)
	if first == "" || first == second {
		t.Errorf("made %q and %q", first, second)
	}
	for _, c := range []struct {
		given string
		taken bool
	}{
		{"deploy-4711", true},
		{strings.Repeat("x", 64), true},
		{strings.Repeat("x", 65), false},
		{"two words", false},
		{"caf\u00e9", false},
		{"..", false},
		{"", false},
	} {
		a := f.do("GET", "/v1/queues/none", "", header, c.given)
		if got := a.header.Get(header); (got == c.given) != c.taken || got == "" {
			t.Errorf("%.20q was named %q", c.given, got)
		}
		a.want(t, 404, "request", a.header.Get(header))
	}
	if twice := f.do("GET", "/v1/queues", "", header, "a", header, "b").header[header]; len(twice) != 1 ||
		twice[0] == "a" || twice[0] == "b" {
		t.Errorf("given two, named %q", twice)
	}
	f.do("POST", email+"/pause", "", header, "deploy-4711").want(t, 200)
	if !strings.Contains(log.String(), "address=127.0.0.1 request=deploy-4711 operation=pauseQueue") {
		t.Error(log.String())
	}
	f.do("GET", "/none", "").want(t, 404)
	if f.do("PATCH", "/v1/queues", "").header.Get(header) == "" {
		t.Error("a 405 has no id")
	}
}
