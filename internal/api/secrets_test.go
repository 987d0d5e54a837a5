package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// target is a deliver setting with two secrets.
func target(key, token string) string {
	return `{"http":{"headers":{"Authorization":"` + key + `"},"url":"https://a.example/b?token=` + token + `"}}`
}

func validTarget(_ string, raw json.RawMessage) error {
	_, err := deliver.Parse(raw)
	return err
}

// stored is a real engine, and what it has of a queue's target.
func stored(t *testing.T) (queue.Engine, func(name string) string) {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, func(name string) string {
		t.Helper()
		info, err := e.Get(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		return string(info.Spec.Deliver)
	}
}

// What is got, edited and put back keeps the secrets that were not shown.
func TestSecretsAreKept(t *testing.T) {
	e, has := stored(t)
	f := serve(t, api.Options{})
	f.serveOver(e, api.Options{ValidateTarget: validTarget})
	put := func(rate, target string, header ...string) *answer {
		t.Helper()
		a := f.do("PUT", "/v1/queues/sms", `{"rate":"`+rate+`","deliver":`+target+`}`, header...)
		if strings.Contains(a.text, "hunter2") {
			t.Errorf("the answer to a PUT shows a secret: %s", a.text)
		}
		return a
	}
	shown := func(a *answer) string {
		t.Helper()
		text, err := json.Marshal(a.body["deliver"])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	masked := target("***", "***")

	a := put("1/s", target("Bearer hunter2", "hunter2"))
	a.want(t, 201)
	first := a.header.Get("ETag")
	if shown(a) != masked {
		t.Errorf("shown as %s", shown(a))
	}
	for _, path := range []string{"/v1/queues/sms", "/v1/queues"} {
		a := f.do("GET", path, "")
		if a.want(t, 200); !strings.Contains(a.text, `"Authorization":"***"`) || strings.Contains(a.text, "hunter2") {
			t.Errorf("GET %s: %s", path, a.text)
		}
	}
	for _, action := range []string{"/pause", "/resume"} {
		if a := f.do("POST", "/v1/queues/sms"+action, ""); shown(a) != masked {
			t.Errorf("%s: %s", action, a.text)
		}
	}

	// As it was shown: nothing has changed, the revision neither.
	for _, header := range [][]string{nil, {"If-Match", first}, {"If-Match", "*"}} {
		if a := put("1/s", masked, header...); a.status != 200 || a.header.Get("ETag") != first {
			t.Errorf("%v: %d with ETag %s, was %s", header, a.status, a.header.Get("ETag"), first)
		}
	}
	put("1/s", target("Bearer hunter2", "***")).want(t, 200, "revision", strings.Trim(first, `"`))
	// Another rate, another secret beside the one that is kept.
	a = put("2/s", target("***", "hunter2-new"), "If-Match", first)
	a.want(t, 200, "rate", "2/s")
	if a.header.Get("ETag") == first {
		t.Error("a change kept the revision")
	}
	if want := target("Bearer hunter2", "hunter2-new"); has("sms") != want {
		t.Errorf("stored as %s, want %s", has("sms"), want)
	}

	put("3/s", masked, "If-Match", first).want(
		t, 412, "reason", "revision_mismatch", "revision", strings.Trim(a.header.Get("ETag"), `"`),
	)
	put("3/s", masked, "If-None-Match", "*").want(t, 412)
	for _, c := range []struct{ target, field string }{
		{`{"http":{"headers":{"X-Token":"***"},"url":"https://a/"}}`, "deliver.http.headers.X-Token"},
		{`{"http":{"url":"https://a/?other=***"}}`, "deliver.http.url"},
	} {
		a := put("3/s", c.target)
		if a.want(t, 400, "reason", "invalid_field", "field", c.field); !strings.Contains(a.text, "the secret itself") {
			t.Error(a.text)
		}
	}
	f.do("PUT", "/v1/queues/new", `{"rate":"1/s","deliver":`+masked+`}`).want(
		t, 400, "field", "deliver.http.headers.Authorization",
	)
	f.do("PUT", "/v1/queues/new", `{"rate":"1/s","deliver":`+masked+`}`, "If-None-Match", "*").want(t, 400)
	f.do("GET", "/v1/queues/new", "").want(t, 404)
	if want := target("Bearer hunter2", "hunter2-new"); has("sms") != want {
		t.Errorf("a refused PUT left %s", has("sms"))
	}
}

// contended is an engine in which somebody else gives a queue another secret right
// after it was read, so many times.
type contended struct {
	queue.Engine
	times, made int
}

func (c *contended) Get(ctx context.Context, name string) (queue.Info, error) {
	info, err := c.Engine.Get(ctx, name)
	if err == nil && c.times > 0 {
		c.times--
		c.made++
		s := info.Spec
		s.Deliver = json.RawMessage(target("hunter2", fmt.Sprint(c.made)))
		_, err = c.Engine.Put(ctx, s, info.Revision)
	}
	return info, err
}

// The secret that is kept is never one that somebody else has replaced meanwhile.
func TestSecretChangedMeanwhile(t *testing.T) {
	e, has := stored(t)
	c := &contended{Engine: e}
	f := serve(t, api.Options{})
	f.serveOver(c, api.Options{})
	first := f.do("PUT", "/v1/queues/sms", `{"rate":"1/s","deliver":`+target("hunter2", "0")+`}`)
	first.want(t, 201)
	masked := `{"rate":"2/s","deliver":` + target("***", "***") + `}`

	c.times = 1
	f.do("PUT", "/v1/queues/sms", masked, "If-Match", first.header.Get("ETag")).want(t, 412)
	c.times = 2
	f.do("PUT", "/v1/queues/sms", masked).want(t, 200, "rate", "2/s")
	if c.made != 3 || has("sms") != target("hunter2", "3") {
		t.Errorf("after 3 new secrets (%d) the store has %s", c.made, has("sms"))
	}
	c.times = 1000
	f.do("PUT", "/v1/queues/sms", masked).want(t, 412, "reason", "revision_mismatch")
}

// Neither a refusal nor the log repeats what may be a secret.
func TestSecretsInBadSpecs(t *testing.T) {
	var log bytes.Buffer
	f := serve(t, api.Options{ValidateTarget: validTarget, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct{ target, field string }{
		{`"https://u:hunter2@a/?t=hunter2"`, "deliver"},
		{`["hunter2"]`, "deliver"},
		{`{"http":{"url":"gopher://a/?t=hunter2"}}`, "deliver.http.url"},
		{`{"http":{"url":"http://u:hunter2@a/"}}`, "deliver.http.url"},
		{`{"http":{"url":"http://a:0/?hunter2#hunter2"}}`, "deliver.http.url"},
		{`{"http":{"url":"http://a/?hunter2` + strings.Repeat("x", httptarget.MaxURLBytes) + `"}}`, "deliver.http.url"},
		{`{"http":{"url":"http://a/","headers":{"Authorization":"hunter2\n"}}}`, "deliver.http.headers.Authorization"},
		{`{"http":{"url":"http://a/","headers":{"Authorization":["hunter2"]}}}`, "deliver.http.headers.Authorization"},
	} {
		a := f.do("PUT", email, `{"rate":"1/s","deliver":`+c.target+`}`)
		a.want(t, 400, "field", c.field)
		if strings.Contains(a.text, "hunter2") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: answered %s, logged %s", c.target, a.text, log.String())
		}
	}
}
