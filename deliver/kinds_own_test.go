package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// pigeon is a target of a program's own.
type pigeon struct {
	Name string `json:"name"`
	Max  int    `json:"max,omitempty"`
}

func (p *pigeon) Check(at string) error {
	if p.Name == "" {
		return setting.Error(at+".name", "", "is missing")
	}
	return nil
}

func (p *pigeon) Accept(job *queue.Job) error {
	if len(job.Payload) > p.Max {
		return setting.Error("payload", "", "is too heavy")
	}
	return nil
}

func (p *pigeon) OnUnknown() string { return queue.UnknownHold }

func TestOwnKind(t *testing.T) {
	var flew []string
	closed := 0
	own := Kind{
		Name:    "pigeon",
		Setting: func() setting.Setting { return &pigeon{Max: 10} },
		Deliver: func(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error {
			if err := gate.Wait(ctx); err != nil {
				return err
			}
			flew = append(flew, s.(*pigeon).Name+" with "+string(job.Payload))
			return nil
		},
		Close: func() error { closed++; return nil },
	}
	kinds, err := NewKinds(own)
	if err != nil {
		t.Fatal(err)
	}
	for raw, field := range map[string]string{
		`{"pigeon": {"name": "a", "wings": 2}}`:      "deliver.pigeon.wings",
		`{"pigeon": {}}`:                             "deliver.pigeon.name",
		`{"pigeon": {"name": "a", "max": "x"}}`:      "deliver.pigeon.max",
		`{"dove": {}}`:                               "deliver.dove",
		`{"pigeon": {"name": "a"}, "http": {}}`:      "deliver",
		`{"pigeon": {"name": "a", "name": "twice"}}`: "deliver.pigeon.name",
	} {
		var refused *invalid.Error
		if _, err := kinds.Parse(json.RawMessage(raw)); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v, want an error of %s", raw, err, field)
		}
	}
	raw := json.RawMessage(`{"pigeon": {"name": "a"}}`)
	if _, err := Parse(raw); err == nil || strings.Contains(err.Error(), "pigeon, ") {
		t.Errorf("known to those who were not told: %v", err)
	}
	if _, err := kinds.Parse(json.RawMessage(`{"http": {"url": "https://a.example/"}}`)); err != nil {
		t.Errorf("what is built in is gone: %v", err)
	}
	spec := queue.Spec{Deliver: raw}
	if kinds.Complete(&spec); spec.OnUnknown != queue.UnknownHold {
		t.Errorf("on_unknown is %q", spec.OnUnknown)
	}
	r := New(Options{Kinds: kinds})
	job := jobFor("")
	job.Spec.Deliver, job.Payload = raw, []byte("a letter")
	if err := r.Handle(t.Context(), job, new(gate)); err != nil || len(flew) != 1 || flew[0] != "a with a letter" {
		t.Errorf("%v, %q", err, flew)
	}
	if err := r.Close(); err != nil || closed != 1 {
		t.Errorf("%v, closed %d times", err, closed)
	}
	nothing := func() setting.Setting { return &pigeon{} }
	for name, bad := range map[string][]Kind{
		"is taken":      {{Name: "http", Setting: nothing, Deliver: own.Deliver}},
		"the name is t": {own, own},
		"the name must": {{Name: "Pigeon!", Setting: nothing, Deliver: own.Deliver}},
		"both Setting":  {{Name: "dove", Setting: nothing}},
	} {
		if _, err := NewKinds(bad...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is wrong with a setting is said of the field that is wrong.
func TestWrongFields(t *testing.T) {
	for raw, says := range map[string]string{
		`{"http": {"url": "http://a..b/"}}`:          "deliver.http.url: has a host that is neither a name nor an address",
		`{"http": {"url": "http://.a/"}}`:            "deliver.http.url: has a host",
		`{"http": {"url": "http://a b/"}}`:           "deliver.http.url: ",
		`{"http": {"url": "http://a_b.example./x"}}`: "",
		`{"http": {"url": "http://[::1]:80/x"}}`:     "",
		`{"http": {"url": "http://` + strings.Repeat("a", 64) +
			`/"}}`: "deliver.http.url: has a host",
		`{"http": {"url": "http://a/", "proxy": "http://a..b:3128"}}`: "deliver.http.proxy: has a host",

		`{"sms": {"provider": "twilio", "account": "A", "auth_token": "x",
			"url": "http://a..b"}}`: "deliver.sms.url: has a host",

		`{"http": {"url": "http://a/"}, "smtp": {"host": "a"}}`://
		`deliver: names 2 targets, "http, smtp"; a queue has only one`,
	} {
		_, err := Parse(json.RawMessage(raw))
		if says == "" && err != nil || says != "" && (err == nil || !strings.HasPrefix(err.Error(), says)) {
			t.Errorf("%s: %v, want %s", raw, err, says)
		}
	}
	mail, err := Parse(json.RawMessage(`{"smtp": {"host": "a.example", "from": "a@a.example"}}`))
	if err != nil {
		t.Fatal(err)
	}
	job := &queue.Job{Payload: []byte(
		`{"to": "b@a.example", "attachments": [{"name": "a", "content": "aGk="}, {"name": "b", "content": "!!"}]}`,
	)}
	if err := mail.Accept(job); err == nil || err.Error() != "payload.attachments[1].content: must be base64, such as "+
		"aGVsbG8=" {
		t.Error(err)
	}
}
