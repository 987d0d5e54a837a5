package auth

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

func TestPermitTarget(t *testing.T) {
	acme := &App{
		Name: "acme", Hosts: []string{"api.acme.example", "*.mail.example:587", "target:nats"},
		Secrets: []string{"acme_*"}, Senders: []string{"*@acme.example", "+4915*"},
	}
	for _, c := range []struct{ target, field string }{
		{`{"http":{"url":"https://api.acme.example/v1"}}`, ""},
		{`{"http":{"url":"https://API.acme.example:8443/v1"}}`, ""},
		{`{"http":{"url":"https://api.acme.example.evil.example/v1"}}`, "deliver.http.url"},
		{`{"http":{"url":"https://xapi.acme.example/v1"}}`, "deliver.http.url"},
		{`{"http":{"url":"https://169.254.169.254/v1"}}`, "deliver.http.url"},
		{`{"http":{"url":"https://api.acme.example/","headers":{"x-key":"${secret:acme_key}"}}}`, ""},
		{
			`{"http":{"url":"https://api.acme.example/","headers":{"x-key":"${secret:beta_key}"}}}`,
			"deliver.http.headers.X-Key",
		},
		{
			`{"http":{"url":"https://api.acme.example/","headers":{"x-key":"${secret:acme_key}${secret:key}"}}}`,
			"deliver.http.headers.X-Key",
		},
		{`{"smtp":{"host":"out.mail.example","from":"Ann <ann@acme.example>"}}`, ""},
		{`{"smtp":{"host":"out.mail.example","port":25,"from":"ann@acme.example"}}`, "deliver.smtp.host"},
		{`{"smtp":{"host":"out.mail.example","from":"\"ann@acme.example\" <ceo@beta.example>"}}`, "deliver.smtp.from"},
		{`{"smtp":{"host":"out.mail.example","allow_from":["news-*@acme.example"]}}`, ""},
		{`{"smtp":{"host":"out.mail.example","allow_from":["*@acme.example","*"]}}`, "deliver.smtp.allow_from[1]"},
		{`{"smtp":{"host":"out.mail.example","allow_from":["*@*.example"]}}`, "deliver.smtp.allow_from[0]"},
		{`{"smtp":{"host":"out.mail.example","allow_from":["*@*acme.example"]}}`, "deliver.smtp.allow_from[0]"},
		{`{"nats":{"subject":"acme"}}`, ""},
		{`{"asynq":{"task":"x"}}`, "deliver.asynq"},
	} {
		target, err := deliver.Parse([]byte(c.target))
		if err != nil {
			t.Fatalf("%s: %v", c.target, err)
		}
		if err := acme.PermitTarget(target.Kind, target.Setting); fieldOf(err) != c.field {
			t.Errorf("%s: %v", c.target, err)
		}
		if err := (*App)(nil).PermitTarget(target.Kind, target.Setting); err != nil {
			t.Errorf("the operator, %s: %v", c.target, err)
		}
		if err := (&App{Name: "beta"}).PermitTarget(target.Kind, target.Setting); fieldOf(err) == "" {
			t.Errorf("an app that may name nothing names %s", c.target)
		}
	}
}

func TestAppOwnsRules(t *testing.T) {
	acme := &App{Name: "acme", Prefixes: []string{"acme-*", "ses.acme"}}
	for _, c := range []struct {
		rules   []string
		foreign string
	}{
		{nil, ""},
		{[]string{"acme-otp", "acme-mail.day", "ses.acme"}, ""},
		{[]string{"acme-otp", "ses.day"}, "ses.day"},
		{[]string{"beta-otp"}, "beta-otp"},
		{[]string{"app.acme"}, "app.acme"},
		{[]string{"ACME-otp"}, "ACME-otp"},
	} {
		for _, rule := range c.rules {
			if acme.owns(rule) != (rule != c.foreign) {
				t.Errorf("acme owns %s: %v", rule, acme.owns(rule))
			}
			if !(*App)(nil).owns(rule) {
				t.Errorf("the operator does not own %s", rule)
			}
		}
	}
}

func TestPermitQueue(t *testing.T) {
	spec := func(capacity int64, bytes unit.Bytes) *queue.Spec {
		return &queue.Spec{Capacity: capacity, MaxBytes: bytes}
	}
	all := Limits{Queues: 2, Lanes: 100, Bytes: 1000}
	for n, c := range []struct {
		limits        Limits
		now           Usage
		before, s     *queue.Spec
		field, reason string
	}{
		{all, Usage{}, nil, spec(100, 1000), "", ""},
		{all, Usage{}, nil, spec(101, 1000), "capacity", "would have 101 places"},
		{all, Usage{}, nil, spec(100, 1001), "max_bytes", "its limit is 1000"},
		{all, Usage{}, nil, spec(100, 0), "max_bytes", "is required"},
		{all, Usage{Queues: 1, Lanes: 60, Bytes: 600}, nil, spec(40, 400), "", ""},
		{all, Usage{Queues: 1, Lanes: 60, Bytes: 600}, nil, spec(41, 400), "capacity", ""},
		{all, Usage{Queues: 1, Lanes: 60, Bytes: 600}, nil, spec(40, 401), "max_bytes", ""},
		{all, Usage{Queues: 2, Lanes: 60, Bytes: 600}, nil, spec(1, 1), "name", "3 queues"},
		{all, Usage{Queues: 2, Lanes: 60, Bytes: 600}, spec(30, 300), spec(70, 700), "", ""},
		{all, Usage{Queues: 2, Lanes: 60, Bytes: 600}, spec(30, 300), spec(71, 700), "capacity", ""},
		// The limits were lowered: what makes nothing more is permitted.
		{all, Usage{Queues: 5, Lanes: 500, Bytes: 5000}, spec(100, 500), spec(100, 500), "", ""},
		{all, Usage{Queues: 5, Lanes: 500, Bytes: 5000}, spec(100, 500), spec(50, 500), "", ""},
		{all, Usage{Queues: 5, Lanes: 500, Bytes: 5000}, spec(100, 500), spec(100, 501), "max_bytes", ""},
		{all, Usage{Queues: 5, Lanes: 500}, spec(100, 0), spec(100, 0), "", ""},
		{Limits{}, Usage{Queues: 99, Lanes: 1 << 40, Bytes: 1 << 50}, nil, spec(1<<40, 0), "", ""},
	} {
		err := c.limits.PermitQueue(c.now, c.before, c.s)
		if fieldOf(err) != c.field || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%d: %v", n, err)
		}
	}
	var u Usage
	for range 3 {
		u.Add(spec(10, 100))
	}
	if u != (Usage{Queues: 3, Lanes: 30, Bytes: 300}) {
		t.Errorf("%+v", u)
	}
	l := Limits{Rules: 2}
	if l.PermitRule(Usage{Rules: 1}) != nil || fieldOf(l.PermitRule(Usage{Rules: 2})) != "name" ||
		(&Limits{}).PermitRule(Usage{Rules: 99}) != nil {
		t.Error("rules are not counted")
	}
}
