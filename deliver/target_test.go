package deliver

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

func TestParse(t *testing.T) {
	target, err := Parse(json.RawMessage(
		`{"http": {"url": "https://api.example.com:8443/v1/send?x=1", "timeout": "250ms", ` +
			`"headers": {"authorization": "Bearer s3cret", "X-A": ""}}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	want := httptarget.Target{
		Method: "POST", URL: "https://api.example.com:8443/v1/send?x=1", Timeout: unit.Duration(250 * time.Millisecond),
		Headers: map[string]string{"Authorization": "Bearer s3cret", "X-A": ""},
	}
	if err := want.Check("deliver.http"); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*target.Setting.(*httptarget.Target), want) {
		t.Errorf("%+v, want %+v", *target.Setting.(*httptarget.Target), want)
	}
	target, err = Parse(json.RawMessage(`{"http": {"url": "http://[::1]/"}}`))
	if err != nil || target.Setting.(*httptarget.Target).Timeout.D() != httptarget.DefaultTimeout {
		t.Errorf("%+v, %v", target.Setting.(*httptarget.Target), err)
	}
}

func TestParseRefuses(t *testing.T) {
	url := func(u string) string { return `{"http": {"url": "` + u + `"}}` }
	header := func(h string) string { return `{"http": {"url": "http://a/", "headers": {` + h + `}}}` }
	for _, c := range []struct{ name, raw, field, says string }{
		{"nothing", ``, "deliver", "names no target"},
		{"spaces", " \n", "deliver", "names no target"},
		{"null", `null`, "deliver", "names no target"},
		{"empty", `{}`, "deliver", "names no target"},
		{"null target", `{"http": null}`, "deliver", "names no target"},
		{"a string", `"http://a"`, "deliver", "must be an object"},
		{"a list", `[]`, "deliver", "must be an object"},
		{"not JSON", `{"http": {"url"`, "deliver.http.url", "not valid JSON"},
		{"more behind", url("http://a/") + `{}`, "deliver", "not valid JSON"},
		{"unknown target", `{"fax": {}}`, "deliver.fax", "is not a kind of target"},
		{"another case", `{"HTTP": {}}`, "deliver.HTTP", "is not a kind of target"},
		{"unknown field", `{"http": {"url": "http://a/", "proxies": "http://b"}}`, "deliver.http.proxies", "not a field"},
		{"repeated target", `{"http": {"url": "http://a/"}, "http": {"url": "http://b/"}}`, "deliver.http", "twice"},
		{"repeated field", `{"http": {"url": "http://a/", "url": "http://b/"}}`, "deliver.http.url", "twice"},
		{"repeated header", header(`"a": "1", "a": "2"`), "deliver.http.headers.a", "twice"},
		{"repeated header, other case", header(`"X-a": "1", "x-A": "2"`), "deliver.http.headers.x-A", "twice"},
		{"URL missing", `{"http": {}}`, "deliver.http.url", "missing"},
		{"URL null", `{"http": {"url": null}}`, "deliver.http.url", "missing"},
		{"URL a number", `{"http": {"url": 7}}`, "deliver.http.url", "a string"},
		{"gopher", url("gopher://a/"), "deliver.http.url", "http or https"},
		{"file", url("file:///etc/passwd"), "deliver.http.url", "http or https"},
		{"no scheme", url("a.example.com/x"), "deliver.http.url", "http or https"},
		{"no host", url("http:///x"), "deliver.http.url", "http or https"},
		{"only a port", url("http://:80/x"), "deliver.http.url", "http or https"},
		{"opaque", url("http:a"), "deliver.http.url", "http or https"},
		{"password", url("http://u:hunter2@a/"), "deliver.http.url", "Authorization"},
		{"broken, with password", url("http://u:hunter2@a:x/"), "deliver.http.url", "http or https"},
		{"fragment", url("http://a/#b"), "deliver.http.url", "fragment"},
		{"empty fragment", url("http://a/#"), "deliver.http.url", "fragment"},
		{"port 0", url("http://a:0/"), "deliver.http.url", "port"},
		{"port 65536", url("http://a:65536/"), "deliver.http.url", "port"},
		{"a space", url("http://a/b c"), "deliver.http.url", "percent-encoded"},
		{"a line break", url(`http://a/\r\nb`), "deliver.http.url", "percent-encoded"},
		{"not ASCII", url("http://ä/"), "deliver.http.url", "percent-encoded"},
		{"long", url("http://a/" + strings.Repeat("b", httptarget.MaxURLBytes)), "deliver.http.url", "longer than"},
		{"timeout a number", `{"http": {"url": "http://a/", "timeout": 10}}`, "deliver.http.timeout", "10s"},
		{"timeout without unit", `{"http": {"url": "http://a/", "timeout": "10"}}`, "deliver.http.timeout", "10s"},
		{"timeout negative", `{"http": {"url": "http://a/", "timeout": "-1s"}}`, "deliver.http.timeout", "from 10ms"},
		{"timeout zero", `{"http": {"url": "http://a/", "timeout": "0s"}}`, "deliver.http.timeout", "from 10ms"},
		{"timeout short", `{"http": {"url": "http://a/", "timeout": "1ms"}}`, "deliver.http.timeout", "from 10ms"},
		{"timeout long", `{"http": {"url": "http://a/", "timeout": "2h"}}`, "deliver.http.timeout", "from 10ms"},
		{"hidden header", header(`"Authorization": "***"`), "deliver.http.headers.Authorization", "the secret itself"},
		{"hidden query", url("http://a/?a=1&b=***"), "deliver.http.url", `the query's "b", ***`},
		{"query in a bad URL", url("gopher://a/?t=hunter2"), "deliver.http.url", `gopher://a/?t=***`},
		{"query before a fragment", url("http://a/?t=hunter2#hunter2"), "deliver.http.url", "fragment"},
		{"query behind a bad port", url("http://a:0/?hunter2"), "deliver.http.url", "port"},
		{
			"query in a long URL", url("http://a/?t=hunter2" + strings.Repeat("b", httptarget.MaxURLBytes)), "deliver.http.url",
			"longer than",
		},
		{"headers a list", `{"http": {"url": "http://a/", "headers": []}}`, "deliver.http.headers", "an object"},
		{"header a number", header(`"a": 1`), "deliver.http.headers.a", "a string"},
		{"header name", header(`"a b": "1"`), "deliver.http.headers", "header name"},
		{"empty header name", header(`"": "1"`), "deliver.http.headers", "header name"},
		{"header injection", header(`"a": "1\r\nHost: b"`), "deliver.http.headers.a", "control"},
		{"host", header(`"host": "b"`), "deliver.http.headers.host", "URL"},
		{"framing", header(`"transfer-encoding": "chunked"`), "deliver.http.headers.transfer-encoding", "cannot be set"},
		{"length", header(`"Content-Length": "1"`), "deliver.http.headers.Content-Length", "cannot be set"},
		{"ours", header(`"penstock-id": "1"`), "deliver.http.headers.penstock-id", "cannot be set"},
		{"the key", header(`"Idempotency-Key": "1"`), "deliver.http.headers.Idempotency-Key", "job's id"},
		{
			"many bytes of headers", header(`"a": "` + strings.Repeat("b", queue.MaxHeaderBytes) + `"`), "deliver.http.headers",
			"limit",
		},
		{"too long", `{"http": {"url": "http://a/"}}` + strings.Repeat(" ", queue.MaxDeliverBytes), "deliver", "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(json.RawMessage(c.raw))
			var f *invalid.Error
			if !errors.As(err, &f) {
				t.Fatalf("%v is no *invalid.Error", err)
			}
			if f.Field != c.field || !strings.Contains(err.Error(), c.says) {
				t.Errorf("field %s: %v; want field %s, saying %q", f.Field, err, c.field, c.says)
			}
			if strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 500 {
				t.Errorf("says too much: %v", err)
			}
		})
	}
}

// Every host that would be connected to is asked for.
func TestReach(t *testing.T) {
	for raw, field := range map[string]string{
		`{"http": {"url": "http://10.0.0.1/"}}`:                                              "deliver.http.url",
		`{"http": {"url": "https://api.example.com", "proxy": "http://u:p@127.0.0.1:3128"}}`: "deliver.http.proxy",
		`{"http": {"url": "https://10.0.0.1", "proxy": "http://proxy.example.com:3128"}}`:    "deliver.http.url",
		`{"http": {"url": "https://10.0.0.1", "proxy": "environment"}}`:                      "deliver.http.url",
		`{"http": {"url": "https://api.example.com", "proxy": "environment"}}`:               "",
		`{"http": {"url": "https://api.example.com", "proxy": "https://8.8.8.8"}}`:           "",
		`{"smtp": {"host": "127.0.0.1"}}`:                                                    "deliver.smtp.host",
		`{"nats": {"subject": "a"}}`:                                                         "",
	} {
		target, err := Parse(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		err = target.Reach(nil)
		var f *invalid.Error
		if errors.As(err, &f) != (field != "") || f != nil && (f.Field != field || !strings.Contains(f.Reason, egress.Flag)) {
			t.Errorf("%s: %v, want an error of %q", raw, err, field)
		}
	}
}

// A reference to a secret is either put in place or refused with its field: none goes out as it stands.
func TestParseRefusesReferences(t *testing.T) {
	const sms = `{"sms": {"provider": "twilio", "account": "AC1", "auth_token": "t", `
	for field, raw := range map[string]string{
		"http.method":            `{"http": {"url": "http://a/", "method": "${secret:A}"}}`,
		"http.statuses":          `{"http": {"url": "http://a/", "statuses": {"${secret:A}": "retry"}}}`,
		"http.statuses.400":      `{"http": {"url": "http://a/", "statuses": {"400": "${secret:A}"}}}`,
		"http.headers":           `{"http": {"url": "http://a/", "headers": {"${secret:A}": "a"}}}`,
		"http.tls.server_name":   `{"http": {"url": "http://a/", "tls": {"server_name": "${secret:A}"}}}`,
		"nats.subject":           `{"nats": {"subject": "${secret:A}"}}`,
		"nats.stream":            `{"nats": {"subject": "a", "stream": "${secret:A}"}}`,
		"nats.mode":              `{"nats": {"subject": "a", "mode": "${secret:A}"}}`,
		"asynq.task":             `{"asynq": {"task": "${secret:A}"}}`,
		"asynq.queue":            `{"asynq": {"queue": "a-${secret:A}"}}`,
		"smtp.host":              `{"smtp": {"host": "${secret:A}"}}`,
		"smtp.tls":               `{"smtp": {"host": "a.example", "tls": "${secret:A}"}}`,
		"smtp.mechanism":         `{"smtp": {"host": "a.example", "mechanism": "${secret:A}"}}`,
		"smtp.username":          `{"smtp": {"host": "a.example", "username": "${secret:A}", "password": "a"}}`,
		"smtp.from":              `{"smtp": {"host": "a.example", "from": "\"${secret:A}\" <a@a.example>"}}`,
		"smtp.helo":              `{"smtp": {"host": "a.example", "helo": "${secret:A}"}}`,
		"smtp.message_id_domain": `{"smtp": {"host": "a.example", "message_id_domain": "${secret:A}"}}`,
		"sms.provider":           `{"sms": {"provider": "${secret:A}"}}`,
		"sms.url":                sms + `"url": "https://a.example/${secret:A}"}}`,
		"sms.from":               sms + `"from": "${secret:A}"}}`,
		"sms.messaging_service":  sms + `"messaging_service": "${secret:A}"}}`,
		"sms.not_listed":         sms + `"not_listed": "${secret:A}"}}`,
	} {
		_, err := Parse(json.RawMessage(raw))
		var f *invalid.Error
		if !errors.As(err, &f) || f.Field != "deliver."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
