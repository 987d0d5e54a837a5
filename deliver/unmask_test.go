package deliver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/invalid"
)

// Nor does one go on a way that others can read along on, be it to the same host.
func TestSecretsStayOnTheirWay(t *testing.T) {
	const web = `{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "Bearer hunter2"}`
	const text = `{"sms": {"provider": "twilio", "account": "AC00000000000000000000000000000001", "from": "+14155550100"`
	const mail = `{"smtp": {"host": "good.example.com", "username": "u", "password": "hunter2"`
	hidden := strings.Replace(mail, "hunter2", "***", 1)
	for _, c := range []struct {
		stored, raw, field string // empty: the secret is kept
	}{
		{web + `}}`, `{"http": {"url": "http://good.example.com/a", "headers": {"Authorization": "***"}}}`, "url"},
		{
			`{"http": {"url": "http://good.example.com/a", "headers": {"Authorization": "Bearer hunter2"}}}`,
			`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "***"}}}`, "",
		},
		{
			web + `}}`,
			`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "***"}, ` +
				`"proxy": "http://evil.example.com"}}`,
			"proxy",
		},
		{
			web + `}}`,
			`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "***"}, ` +
				`"tls": {"server_name": "evil.example.com"}}}`,
			"tls",
		},
		{
			web + `, "tls": {"server_name": "a.example.com"}}}`,
			`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "***"}, ` +
				`"tls": {"server_name": "a.example.com"}}}`,
			"",
		},
		{
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://u:hunter2@good.example.com:3128"}}`,
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://***@evil.example.com:3128"}}`, "proxy",
		},
		{
			`{"http": {"url": "https://good.example.com/a", "proxy": "https://u:hunter2@good.example.com:80"}}`,
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://***@good.example.com:80"}}`, "proxy",
		},
		{
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://u:hunter2@good.example.com:3128"}}`,
			`{"http": {"url": "https://good.example.com/b", "proxy": "http://***@good.example.com:3128", "timeout": "3s"}}`, "",
		},
		{
			text + `, "auth_token": "hunter2"}}`,
			text + `, "auth_token": "***", "url": "http://api.twilio.com", "allow_http": true}}`, "url",
		},
		{text + `, "auth_token": "hunter2"}}`, text + `, "auth_token": "***", "timeout": "3s"}}`, ""},
		// Another port may be another's; the case of a host says nothing.
		{web + `}}`, `{"http": {"url": "https://good.example.com:8443/a", "headers": {"Authorization": "***"}}}`, "url"},
		{web + `}}`, `{"http": {"url": "https://GOOD.example.com:443/a", "headers": {"Authorization": "***"}}}`, ""},
		{
			`{"http": {"url": "http://good.example.com:80/a", "headers": {"Authorization": "Bearer hunter2"}}}`,
			`{"http": {"url": "https://good.example.com:80/a", "headers": {"Authorization": "***"}}}`, "url",
		},
		{
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://u:hunter2@good.example.com:3128"}}`,
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://***@Good.example.com:3128"}}`, "",
		},
		{
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://u:hunter2@good.example.com:3128"}}`,
			`{"http": {"url": "https://good.example.com/a", "proxy": "http://***@good.example.com:3129"}}`, "proxy",
		},
		{text + `, "auth_token": "hunter2"}}`, text + `, "auth_token": "***", "url": "https://api.twilio.com:8443"}}`, "url"},
		{mail + `}}`, hidden + `, "port": 2525}}`, "port"},
		{mail + `}}`, strings.Replace(hidden, "good", "Good", 1) + `, "port": 587}}`, ""},
		{mail + `}}`, strings.Replace(hidden, "good", "evil", 1) + `}}`, "host"},
	} {
		got, err := Unmask(json.RawMessage(c.raw), json.RawMessage(c.stored))
		var refused *invalid.Error
		switch {
		case c.field == "" && (err != nil || !strings.Contains(string(got), "hunter2")):
			t.Errorf("%s: %s, %v", c.raw, got, err)
		case c.field != "" && (!errors.As(err, &refused) || !strings.HasSuffix(refused.Field, "."+c.field) ||
			strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %s, %v, want an error of %s", c.raw, got, err, c.field)
		}
	}
}

// A stored secret does not follow a target to another host.
func TestSecretsStayWithTheirHost(t *testing.T) {
	stored := json.RawMessage(
		`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "Bearer hunter2"}}}`,
	)
	kept, err := Unmask(
		json.RawMessage(`{"http": {"url": "https://good.example.com/b", "headers": {"Authorization": "***"}}}`), stored,
	)
	if err != nil || !strings.Contains(string(kept), "hunter2") {
		t.Errorf("%s, %v", kept, err)
	}
	for _, raw := range []string{
		`{"http": {"url": "https://evil.example.com/a", "headers": {"Authorization": "***"}}}`,
		`{"http": {"url": "https://good.example.com.evil.example/a", "headers": {"Authorization": "***"}}}`,
	} {
		got, err := Unmask(json.RawMessage(raw), stored)
		var refused *invalid.Error
		if !errors.As(err, &refused) || refused.Field != "deliver.http.url" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if _, err := Unmask(
		json.RawMessage(`{"http": {"url": "https://new.example.com/", "headers": {"Authorization": "Bearer other"}}}`),
		stored,
	); err != nil {
		t.Errorf("with the secret itself: %v", err)
	}
}
