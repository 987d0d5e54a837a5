package deliver

import (
	"encoding/json"
	"testing"
)

// Every kind of target can be set, and is checked.
func TestKinds(t *testing.T) {
	for raw, kind := range map[string]string{
		`{"http": {"url": "https://api.example.com/"}}`: "http",
		`{"nats": {"subject": "orders.{lane}"}}`:        "nats",
		`{"asynq": {"task": "email:send"}}`:             "asynq",
		`{"smtp": {"host": "smtp.example.com"}}`:        "smtp",

		`{"sms": {"provider": "twilio", "account": "AC1", "auth_token": "${secret:T}", "from": "+15005550006"}}`: "sms",
	} {
		target, err := Parse(json.RawMessage(raw))
		if err != nil || target.Kind != kind {
			t.Errorf("%s: %s, %v", raw, target.Kind, err)
		}
		router(t, Options{}).sender(kind)
	}
}
