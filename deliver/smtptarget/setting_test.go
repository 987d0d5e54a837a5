package smtptarget

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue/invalid"
)

func check(raw string) (*SMTP, error) {
	s := Default()
	if err := setting.Decode([]byte(raw), "deliver.smtp", s); err != nil {
		return nil, err
	}
	return s, s.Check("deliver.smtp")
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		raw         string
		field, says string // empty: good
	}{
		{`{"host": "smtp.example.com"}`, "", ""},
		{`{"host": "2001:db8::1", "tls": "none"}`, "", ""},
		{`{"host": "smtp.example.com", "username": "me", "password": "${secret:SMTP}", "mechanism": "login",
			"from": "Shop <shop@example.com>",
			"helo": "out.example.com", "timeout": "90s", "max_connections": 5, "message_id_domain": "example.com"}`, "", ""},
		{`{"host": "127.0.0.1", "tls": "none", "username": "me", "password": "x"}`, "", ""},
		{`{"host": "localhost", "tls": "opportunistic", "username": "me", "password": "x"}`, "", ""},
		{`{}`, "host", "is missing"},
		{`{"host": "smtp.example.com:25"}`, "host", "port has its own field"},
		{`{"host": "smtp://smtp.example.com"}`, "host", "name or address"},
		{`{"host": "a b"}`, "host", "name or address"},
		{`{"host": "2130706433"}`, "host", "name or address"},
		{`{"host": "0x7f.1"}`, "host", "name or address"},
		{`{"host": "h", "port": 70000}`, "port", "65535"},
		{`{"host": "h", "port": -1}`, "port", "65535"},
		{`{"host": "h", "tls": "yes"}`, "tls", "starttls, implicit"},
		{`{"host": "h", "tls": ""}`, "tls", "starttls, implicit"},
		{`{"host": "h", "tls": "none", "username": "me", "password": "hunter22"}`, "tls", "could send the password"},
		{`{"host": "h", "tls": "opportunistic", "username": "me", "password": "hunter22"}`, "tls", "could send the password"},
		{
			`{"host": "127.0.0.1.example.com", "tls": "none", "username": "me", "password": "hunter22"}`, "tls",
			"could send the password",
		},
		{`{"host": "h", "username": "me"}`, "username", "together"},
		{`{"host": "h", "password": "hunter22"}`, "username", "together"},
		{`{"host": "h", "username": "me", "password": "${REDIS_PASSWORD}"}`, "password", "not a reference to a secret"},
		{`{"host": "h", "username": "${secret:ME}", "password": "${secret:SMTP}"}`, "username", "only the password"},
		{`{"host": "h", "username": "a\r\nb", "password": "hunter22"}`, "username", "control"},
		{`{"host": "h", "username": "me", "password": "hunter22\n"}`, "password", "control"},
		{`{"host": "h", "mechanism": "ntlm"}`, "mechanism", "cram-md5"},
		{`{"host": "h", "from": "nobody"}`, "from", "is not one address"},
		{`{"host": "h", "helo": "a\r\nMAIL FROM:<x>"}`, "helo", "host name"},
		{`{"host": "h", "message_id_domain": "a>b"}`, "message_id_domain", "domain"},
		{`{"host": "h", "timeout": "1ms"}`, "timeout", "must be from"},
		{`{"host": "h", "max_connections": 0}`, "max_connections", "must be from"},
		{`{"host": "h", "max_connections": 1001}`, "max_connections", "must be from"},
		{`{"host": "h", "user": "me"}`, "user", "is not a field"},
	} {
		s, err := check(c.raw)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", c.raw, err)
			}
			continue
		}
		var field *invalid.Error
		if !errors.As(err, &field) || field.Field != "deliver.smtp."+c.field || !strings.Contains(field.Reason, c.says) {
			t.Errorf("%s: %v, want %s %s (%+v)", c.raw, err, c.field, c.says, s)
		}
		if err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: the password is quoted: %v", c.raw, err)
		}
	}
	for raw, port := range map[string]int{
		`{"host": "h"}`: 587, `{"host": "h", "tls": "implicit"}`: 465, `{"host": "h", "tls": "implicit", "port": 25}`: 25,
	} {
		if s, err := check(raw); err != nil || s.Port != port {
			t.Errorf("%s: %v, %+v", raw, err, s)
		}
	}
}
