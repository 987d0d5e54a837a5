package smstarget

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// parse reads the fields of a setting over those that a good one has; null takes one away.
func parse(t *testing.T, fields string) (*Setting, error) {
	t.Helper()
	all := map[string]any{"provider": "twilio", "account": "AC1", "auth_token": "${secret:TOKEN}", "from": "+15005550006"}
	if err := json.Unmarshal([]byte("{"+fields+"}"), &all); err != nil {
		t.Fatal(err)
	}
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	s := Default()
	if err := setting.Decode(raw, "deliver.sms", s); err != nil {
		return nil, err
	}
	return s, s.Check("deliver.sms")
}

func good(t *testing.T, fields string) *Setting {
	t.Helper()
	s, err := parse(t, fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSetting(t *testing.T) {
	s := good(t, "")
	if s.URL != "https://api.twilio.com" || s.MaxSegments != 10 || s.NotListed != "unknown" ||
		s.OnUnknown() != queue.UnknownHold {
		t.Errorf("defaults: %+v", s)
	}
	for _, fields := range []string{
		`"from": null, "messaging_service": "MG1"`, `"from": null`, `"from": "12345"`, `"from": "My Shop"`,
		`"auth_token": "plain"`,
		`"auth_token": null, "api_key": "SK1", "api_secret": "${secret:S}"`, `"url": "http://127.0.0.1:1/prefix/"`,
		`"url": "http://sms.internal", "allow_http": true`,
		`"status_callback": "https://me.example.com/sms?key=${secret:K}"`, `"max_segments": 25`,
		`"timeout": "5m", "grace": "0s", "not_listed": "retry"`, `"account": "${secret:A}"`,
	} {
		good(t, fields)
	}
	for _, c := range []struct{ fields, field string }{
		{`"provider": null`, "provider"},
		{`"provider": "carrier pigeon"`, "provider"},
		{`"account": null`, "account"},
		{`"account": "AC1/../AC2"`, "account"},
		{`"account": "${REDIS_PASSWORD}"`, "account"},
		{`"auth_token": null`, "auth_token"},
		{`"auth_token": "${REDIS_PASSWORD}"`, "auth_token"},
		{`"auth_token": "${env:X}"`, "auth_token"},
		{`"auth_token": "pläin-secret"`, "auth_token"},
		{`"auth_token": "two\nsecret lines"`, "auth_token"},
		{`"api_key": "SK1"`, "auth_token"},
		{`"auth_token": null, "api_key": "SK1"`, "api_secret"},
		{`"auth_token": null, "api_secret": "secret"`, "api_key"},
		{`"auth_token": null, "api_key": "S:K", "api_secret": "secret"`, "api_key"},
		{`"messaging_service": "MG1"`, "messaging_service"},
		{`"from": null, "messaging_service": "M G"`, "messaging_service"},
		{`"from": "+1500"`, "from"},
		{`"from": "0123456789"`, "from"},
		{`"from": "Much too long"`, "from"},
		{`"from": "a\r\nb"`, "from"},
		{`"url": "gopher://x"`, "url"},
		{`"url": "http://sms.example.com"`, "url"},
		{`"url": "https://u:secret@x"`, "url"},
		{`"url": "https://x?a=secret"`, "url"},
		{`"url": "https://x:0"`, "url"},
		{`"url": "https://2130706433"`, "url"},
		{`"url": "https://x#secret"`, "url"},
		{`"url": "https://x/${secret:X}"`, "url"},
		{`"url": "` + strings.Repeat("x", 3000) + `"`, "url"},
		{`"status_callback": "file:///secret"`, "status_callback"},
		{`"status_callback": "https://x/${X}"`, "status_callback"},
		{`"max_segments": 26`, "max_segments"},
		{`"max_segments": 0`, "max_segments"},
		{`"timeout": "1ms"`, "timeout"},
		{`"timeout": "1h"`, "timeout"},
		{`"timeout": 5`, "timeout"},
		{`"grace": "-1s"`, "grace"},
		{`"grace": "11m"`, "grace"},
		{`"not_listed": "maybe"`, "not_listed"},
		{`"sender": "x"`, "sender"},
	} {
		_, err := parse(t, c.fields)
		var field *invalid.Error
		if !errors.As(err, &field) || field.Field != "deliver.sms."+c.field {
			t.Errorf("%.80s: %v", c.fields, err)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), "api_secret", ""), "secret") &&
			!strings.Contains(err.Error(), "${secret:NAME}") && !strings.Contains(err.Error(), "nor a secret") {
			t.Errorf("%.80s is quoted: %v", c.fields, err)
		}
	}
}

func TestAccept(t *testing.T) {
	s, none, more := good(t, `"allow_from": ["Shop"]`), good(
		t, `"from": null, "allow_from": ["*"]`,
	), good(t, `"max_segments": 20`)
	text := func(s string) string { return fmt.Sprintf(`{"to": "+4915112345678", "text": %q}`, s) }
	for _, c := range []struct {
		set     *Setting
		payload string
		cost    int64 // 0: none was set, and none is
		field   string
		reason  string
	}{
		{set: s, payload: text("hello")},
		{set: s, payload: `{"to": "+4915112345678", "body": "hello"}`},
		{set: s, payload: `{"to": "+4915112345678", "text": "two\nlines", "from": "Shop"}`},
		{set: s, payload: `{"to": "+6831234", "text": "Niue"}`},
		{set: s, payload: `{"to": "+123456789012345", "text": "15 digits"}`},
		{set: s, payload: text(strings.Repeat("x", 160))},
		{set: s, payload: text(strings.Repeat("x", 161)), cost: 2},
		{set: s, payload: text(strings.Repeat("x", 1530)), cost: 10},
		{set: s, payload: text(strings.Repeat("😀", 34) + "x" + strings.Repeat("😀", 36)), cost: 3}, // a pair at the edge
		{set: more, payload: text(strings.Repeat("я", 1300)), cost: 20},
		{set: none, payload: `{"to": "+4915112345678", "text": "x", "from": "+15005550006"}`},

		{set: s, payload: text(strings.Repeat("x", 1531)), field: "payload.text", reason: "11 segments in GSM-7"},
		{set: s, payload: text(strings.Repeat("x", 15300)), field: "payload.text", reason: "15300 characters, 100 segments"},
		{set: s, payload: text(strings.Repeat("я", 671)), field: "payload.text", reason: "11 segments in UCS-2"},
		{set: more, payload: text(strings.Repeat("x", 1601)), field: "payload.text", reason: "1601 characters"},
		{set: s, payload: `{"to": "+4915112345678", "body": ""}`, field: "payload.body", reason: "empty"},
		{set: s, payload: text(" \n "), field: "payload.text", reason: "empty"},
		{set: s, payload: `{"to": "+4915112345678", "text": "a\u0000b"}`, field: "payload.text", reason: `'\x00' at byte 1`},
		{set: s, payload: `{"to": "+4915112345678", "text": "a\r\nb"}`, field: "payload.text", reason: `'\r'`},
		{set: s, payload: `{"to": "+4915112345678", "text": "a\tb"}`, field: "payload.text", reason: `'\t'`},
		{set: s, payload: `{"to": "+4915112345678", "text": "a\u0085b"}`, field: "payload.text", reason: `'\u0085'`},
		{set: s, payload: `{"to": "+4915112345678", "text": "a\ud83d"}`, field: "payload.text"}, // half a pair
		{set: s, payload: `{"to": "+4915112345678"}`, field: "payload.text", reason: "missing"},
		{set: s, payload: `{"to": "+4915112345678", "text": null}`, field: "payload.text", reason: "missing"},
		{set: s, payload: `{"to": "+4915112345678", "text": "a", "body": "a"}`, field: "payload.body"},
		{
			set: s, payload: `{"to": "+4915112345678", "text": "a", "form": "x"}`, field: "payload.form",
			reason: "fields are body, from, text, to",
		},
		{set: s, payload: `{"to": "+4915112345678", "text": "a", "text": "b"}`, field: "payload.text", reason: "twice"},
		{set: s, payload: `{"to": "+4915112345678", "text": 7}`, field: "payload.text", reason: "a string"},
		{set: s, payload: `{"text": "a"}`, field: "payload.to"},
		{set: none, payload: text("a"), field: "payload.from", reason: "deliver.sms.from"},
		{set: s, payload: `{"to": "+4915112345678", "text": "a", "from": "a\nb"}`, field: "payload.from"},
		{set: s, payload: `["+4915112345678"]`, field: "payload"},
		{set: s, payload: `"hello"`, field: "payload"},
		{set: s, payload: `{"to": `, field: "payload.to"},
		{set: s, payload: "\xff", field: "payload"},
	} {
		job := queue.Job{Payload: []byte(c.payload)}
		err := c.set.Accept(&job)
		var field *invalid.Error
		switch {
		case c.field == "" && (err != nil || job.Cost != c.cost):
			t.Errorf("%.80s: cost %d, %v", c.payload, job.Cost, err)
		case c.field != "" && (!errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.reason)):
			t.Errorf("%.80s: %v", c.payload, err)
		}
	}
	for _, to := range []string{
		"", "4915112345678", "+49 151 12345678", "+49-151-12345678", "0049151123456", "+0151123456", "+1234567890123456",
		"+123456", "+4915112345678;ext=1", "+491511234567x", "＋4915112345678", "+٤٩١٥١١٢٣٤", "+4915112345678\n",
		"tel:+4915112345678", "me@example.com", "12345",
	} {
		job := queue.Job{Payload: []byte(fmt.Sprintf(`{"to": %q, "text": "a"}`, to))}
		var field *invalid.Error
		if err := s.Accept(&job); !errors.As(err, &field) || field.Field != "payload.to" ||
			!strings.Contains(field.Reason, "E.164") {
			t.Errorf("to %q: %v", to, err)
		}
	}
	priced := queue.Job{Payload: []byte(text(strings.Repeat("x", 161))), Cost: 1}
	if err := s.Accept(&priced); err != nil || priced.Cost != 1 {
		t.Errorf("a cost of its own became %d, %v", priced.Cost, err)
	}
	for contentType, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "text/plain": false,
		"application/octet-stream": false,
	} {
		job := queue.Job{Payload: []byte(text("a")), ContentType: contentType}
		var field *invalid.Error
		if err := s.Accept(&job); (err == nil) != ok || !ok && (!errors.As(err, &field) || field.Field != "content_type") {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}
