package api_test

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// An import of many queues is one entry, which is found by the name of each. An app's admin sees only the app's queues
// in it.
func TestAuditOfImportedQueues(t *testing.T) {
	s := secure(t, api.Options{})
	acme, beta := s.with("acme", auth.Admin), s.with("beta", auth.Admin)
	var queues []move.Queue
	for _, name := range []string{"acme-x", "acme-y", "beta-x", "other"} {
		queues = append(queues, move.Queue{Spec: queue.Spec{Name: name, Rate: leaky.PerSecond(1), Capacity: 1}, MaxCost: 1})
	}
	operator := audit.WithActor(t.Context(), audit.Actor{Name: "unix:0", Address: "local"})
	if _, err := any(s.store).(move.Mover).ImportQueues(operator, queues, "the-import"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token, query string
		want         []string
	}{
		{s.operator, "", []string{"acme-x", "acme-y", "beta-x", "other"}},
		{s.operator, "&of=queue&name=beta-x", []string{"acme-x", "acme-y", "beta-x", "other"}},
		{s.operator, "&name=beta-y", nil},
		{s.operator, "&of=rule", nil},
		{acme, "", []string{"acme-x", "acme-y"}},
		{acme, "&name=acme-y", []string{"acme-x", "acme-y"}},
		{acme, "&name=beta-x", nil},
		{beta, "", []string{"beta-x"}},
		{beta, "&name=other", nil},
	} {
		a := s.by(tt.token, "GET", "/v1/audit?what=imported"+tt.query, "")
		a.want(t, 200)
		var got []string
		for _, r := range a.body["records"].([]any) {
			r := r.(map[string]any)
			for _, q := range r["after"].([]any) {
				got = append(got, q.(map[string]any)["name"].(string))
			}
			entry := r["entry"].(map[string]any)
			if tt.token != s.operator && (entry["after"] != nil || r["digest"] != nil || r["text"] != nil) {
				t.Errorf("%q shows an app %v", tt.query, r)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%q: got %v, want %v", tt.query, got, tt.want)
		}
	}
}
