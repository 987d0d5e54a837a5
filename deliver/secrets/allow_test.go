package secrets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue/invalid"
)

// Where a secret may go, by what is written and where it would be sent.
func TestAllow(t *testing.T) {
	https := func(name string, port uint16) setting.Host { return setting.Host{Name: name, Port: port, TLS: true} }
	plain := func(name string, port uint16) setting.Host { return setting.Host{Name: name, Port: port} }
	for _, c := range []struct {
		rule  string // behind NAME=
		queue string
		to    setting.Host
		lets  bool
	}{
		{"api.example.com", "email", https("api.example.com", 443), true},
		{"api.example.com", "email", https("API.example.com.", 443), true},
		{"API.Example.com.", "email", https("api.example.com", 443), true},
		{"api.example.com", "email", https("smtp.example.com", 443), false},
		{"api.example.com", "email", https("api.example.com", 465), true}, // one host's usual ports
		{"api.example.com", "email", https("api.example.com", 587), true},
		{"api.example.com", "email", https("api.example.com", 8443), false}, // another port may be another person's
		{"api.example.com", "email", https("evil-api.example.com", 443), false},
		{"api.example.com", "email", https("api.example.com.evil.test", 443), false},
		{"api.example.com", "email", https("a.api.example.com", 443), false},
		{"api.example.com:8443", "email", https("api.example.com", 8443), true},
		{"api.example.com:8443", "email", https("api.example.com", 443), false},
		{"*.example.com", "email", https("a.b.example.com", 443), true},
		{"*.example.com", "email", https("example.com", 443), false},
		{"*.example.com", "email", https("evilexample.com", 443), false},
		{"*.example.com:8443", "email", https("a.example.com", 8443), true},
		{"a.example.com,b.example.com", "email", https("b.example.com", 443), true},

		// Without TLS everybody on the way reads it.
		{"api.example.com", "email", plain("api.example.com", 80), false},
		{"api.example.com:80", "email", plain("api.example.com", 80), false},
		{"insecure:api.example.com", "email", plain("api.example.com", 80), true},
		{"insecure:api.example.com", "email", plain("api.example.com", 8080), false},
		{"insecure:api.example.com:8080", "email", plain("api.example.com", 8080), true},
		{"insecure:api.example.com:8080", "email", https("api.example.com", 8080), true},
		{"insecure:mail.internal", "email", plain("mail.internal", 25), true},
		{"127.0.0.1:9000", "email", plain("127.0.0.1", 9000), true},
		{"localhost:9000", "email", plain("LocalHost", 9000), true},
		{"127.0.0.1", "email", plain("127.0.0.1", 9000), false},

		{"10.0.0.1:8443", "email", https("10.0.0.1", 8443), true},
		{"10.0.0.1:8443", "email", https("::ffff:10.0.0.1", 8443), true},
		{"[2001:db8::1]:8443", "email", https("2001:db8::1", 8443), true},
		{"2001:db8::1", "email", https("2001:db8:0::1", 443), true},
		{"*.0.0.1", "email", https("10.0.0.1", 443), false},

		{"api.example.com;billing", "billing", https("api.example.com", 443), true},
		{"api.example.com;billing", "billing.eu", https("api.example.com", 443), true},
		{"api.example.com;billing", "billings", https("api.example.com", 443), false},
		{"api.example.com;bill*", "billings", https("api.example.com", 443), true},
		{"api.example.com;billing.*", "billing", https("api.example.com", 443), false},
		{"api.example.com;billing.*", "billing.eu", https("api.example.com", 443), true},
		{"api.example.com;a,b*", "beta", https("api.example.com", 443), true},
		{"api.example.com;*", "email", https("api.example.com", 443), true},
		{"api.example.com;billing", "billing", https("evil.example.com", 443), false},
	} {
		a, err := ParseAllow("NAME=" + c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if a.lets(c.queue, c.to) != c.lets {
			t.Errorf("%s lets it go to %+v of the queue %s: %v, want %v", c.rule, c.to, c.queue, !c.lets, c.lets)
		}
		// What a refusal says would allow it does.
		a, err = ParseAllow("NAME=" + wanted(c.to) + ";" + c.queue)
		if err != nil || !a.lets(c.queue, c.to) {
			t.Errorf("%s is said to let it go to %+v, and does not: %v", wanted(c.to), c.to, err)
		}
	}
}

func TestBadAllow(t *testing.T) {
	for _, rule := range []string{
		"", "NAME", "=a.example", "NA.ME=a.example", "N/A=a.example", "NAME=", "NAME=,", "NAME=a.example,",
		"NAME=https://a.example", "NAME=a b", "NAME=a.example/x", "NAME=*", "NAME=a..b",
		"NAME=*a.example", "NAME=a.*.example", "NAME=a:0", "NAME=a:65536", "NAME=a:x", "NAME=a:", "NAME=ä.example",
		"NAME=insecure:", "NAME=a.example;,", "NAME=a.example;B", "NAME=a.example;a*b", "NAME=a.example;a b",
	} {
		if _, err := ParseAllow(rule); err == nil {
			t.Errorf("%q was taken", rule)
		}
	}
	dir := t.TempDir()
	for text, says := range map[string]string{
		"":                                     "KEY.allow:1: names no host",
		"# nothing\n\nqueue: billing\n":        "KEY.allow:3: names no host",
		"a.example\n\n  b example\n":           "KEY.allow:3: is not a host",
		"a.example\nqueue: B!\n":               "KEY.allow:2: is not a queue",
		"a.example:99999\n":                    "KEY.allow:1: has no valid port",
		strings.Repeat("a.example\n", 10_000):  "it has more than 65536 bytes",
		"http://a.example\r\nqueue: billing\n": "KEY.allow:1: ",
		"hunter2\x00\n":                        "KEY.allow:1: is not a host", // in the wrong file: it is not quoted
	} {
		if err := os.WriteFile(filepath.Join(dir, "KEY.allow"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PENSTOCK_SECRET_KEY", "hunter2")
		s := Source{Dir: dir}
		use := setting.Use{
			Field: "deliver.http.url", Text: "${secret:KEY}", To: []setting.Host{{Name: "a.example", Port: 443, TLS: true}},
		}
		_, _, used := s.Expand("billing", use)
		for when, err := range map[string]error{"start": s.Validate(), "use": used, "put": s.Permit("billing", use)} {
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%.40q: at %s: %v, want %s", text, when, err, says)
			}
		}
	}
}

// A secret goes nowhere by itself, everywhere it is sent must be allowed, and a refusal says what to write.
func TestPermit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("KEY", "hunter2\r\n")
	first, second := setting.Host{Name: "a.example", Port: 443, TLS: true}, setting.Host{Name: "proxy.example", Port: 3128}
	use := setting.Use{
		Field: "deliver.http.headers.X-Key", Text: "Bearer ${secret:KEY}", To: []setting.Host{first, second},
	}
	flag, err := ParseAllow("KEY=insecure:proxy.example:3128;email")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		allow string
		flags []Allow
		queue string
		says  string // empty: it goes
	}{
		{
			"", nil, "email",
			"the secret KEY may not be sent anywhere yet: to allow it, write the line a.example into the file KEY.allow in " +
				"the secrets directory, or start ingress and drainer with --secret-allow 'KEY=a.example;email'",
		},
		{
			"a.example\n", nil, "email",
			"may not be sent to proxy.example:3128 with the jobs of the queue email without verified TLS: to " +
				"allow it, write the line insecure:proxy.example:3128 into",
		},
		{"a.example\n", []Allow{flag}, "email", ""},
		{"a.example\n", []Allow{flag}, "email.eu", ""},
		{"a.example\n", []Allow{flag}, "other", "may not be sent to proxy.example:3128"},
		{"a.example\ninsecure:proxy.example:3128\nqueue: e*\n", nil, "email", ""},
		{"a.example\ninsecure:proxy.example:3128\nqueue: e*\n", nil, "sms", "may not be sent to a.example:443"},
	} {
		_ = os.Remove(filepath.Join(dir, "KEY.allow"))
		if c.allow != "" {
			write("KEY.allow", c.allow)
		}
		s := Source{Dir: dir, Allow: c.flags}
		got, _, used := s.Expand(c.queue, use)
		put := s.Permit(c.queue, use)
		if c.says == "" {
			if used != nil || put != nil || got != "Bearer hunter2" {
				t.Errorf("%q: %q, %v, %v", c.allow, got, used, put)
			}
			continue
		}
		var field *invalid.Error
		var kept *Error
		if !errors.As(put, &field) || field.Field != use.Field || !strings.Contains(field.Reason, c.says) {
			t.Errorf("%q: %v, want %s", c.allow, put, c.says)
		}
		if !errors.As(used, &kept) || got != "" || !strings.Contains(used.Error(), c.says) {
			t.Errorf("%q: %q, %v, want %s", c.allow, got, used, c.says)
		}
	}
	use.To = nil
	if err := (Source{Dir: dir, Allow: []Allow{flag}}).Permit("email", use); err == nil {
		t.Error("a secret that goes nobody knows where may")
	}
}
