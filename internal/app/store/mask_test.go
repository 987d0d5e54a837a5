package store

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// The audit log shows a queue as it is stored, but for the secrets of its target.
func TestMasked(t *testing.T) {
	for deliver, secret := range map[string]string{
		`{"http":{"url":"https://user:s3cret@example.com/x","headers":{"Authorization":"Bearer s3cret"}}}`: "s3cret",
		`{"http":{"url":"https://example.com/x"}}`:                                                         "",
	} {
		spec, err := queue.ParseSpec([]byte(`{"name":"email","rate":"1/s","deliver":` + deliver + `}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := queue.EncodeSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		shown := string(masked("queue", text))
		if secret != "" && (!strings.Contains(string(text), secret) || strings.Contains(shown, secret)) {
			t.Errorf("%s is shown as %s", text, shown)
		}
		if secret == "" && shown != string(text) {
			t.Errorf("%s is shown as %s", text, shown)
		}
		if back, err := queue.ParseSpec([]byte(shown)); err != nil || back.Name != "email" || back.Rate != spec.Rate {
			t.Errorf("%s: %v", shown, err)
		}
		if got := string(masked("app", text)); got != string(text) {
			t.Errorf("a document is shown as %s", got)
		}
	}
	if got := string(masked("token", []byte(`{"id":"abc","digest":"s3cret"}`))); got != `{"id":"abc"}` {
		t.Errorf("a token is shown as %s", got)
	}
	if got := string(masked("queue", []byte(`{"s3cret`))); got != unreadable {
		t.Errorf("what cannot be read is shown as %s", got)
	}
}
