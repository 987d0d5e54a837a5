package clients

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Each refusal of a call through the proxy has the member error, since some SDKs keep nothing else of a body.
func TestRefusalsOfCallsHaveTheMemberError(t *testing.T) {
	s := startServer(t, "--ephemeral")
	for _, tt := range []struct{ name, token, path, code string }{
		{"a wrong token", "ps_wrong", "/proxy/q/x", "unauthenticated"},
		{"no token", "", "/proxy/q/x", "unauthenticated"},
		{"an unknown queue", s.token, "/proxy/q/x", "unknown_queue"},
		{"an invalid name", s.token, "/proxy/Q/x", "unknown_queue"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct {
			Reason string
			Error  struct{ Message, Type, Code string }
		}
		err = json.NewDecoder(resp.Body).Decode(&problem)
		_ = resp.Body.Close()
		if e := problem.Error; err != nil || problem.Reason != tt.code || e.Code != tt.code || e.Type != "penstock" ||
			e.Message == "" || resp.Header.Get("Server-Timing") != "" {
			t.Errorf("%s: %s %+v, %v", tt.name, resp.Status, problem, err)
		}
	}
}
