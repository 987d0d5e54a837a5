package httptarget

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// The example that the libraries of Standard Webhooks are tested with.
func TestSignature(t *testing.T) {
	s := &Signing{Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	h := http.Header{}
	s.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A receiver that follows the standard takes what is sent, whichever of two keys it has, also while they are
// changed in the directory of secrets; the id stays, the time is that of the attempt.
func TestSigned(t *testing.T) {
	key := func(c string) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32))) }
	dir := t.TempDir()
	put := func(name, c string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("whsec_"+key(c)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("new", "n")
	put("old", "o")
	var request *http.Request
	var body []byte
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { request = r; body, _ = io.ReadAll(r.Body) })
	r := sender(t, Options{Secrets: secrets.Source{Dir: dir, Allow: keytest.Allow(t, "new="+s.URL, "old="+s.URL)}})
	job := jobFor(s.URL, `{"a": 1}`)
	job.Headers = map[string]string{
		"webhook-id": "forged", "webhook-signature": "v1,forged",
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1",
	}
	job.Spec.Deliver = []byte(
		`{"http": {"url": "` + s.URL + `", "method": "PUT", "signing": {"secret": "${secret:new}", ` +
			`"previous_secret": "${secret:old}"}}}`,
	)
	for i, keys := range []string{"no", "no", "po"} {
		put("new", keys[:1])
		begin := time.Now().Unix()
		if err := r.Handle(t.Context(), job, opened()); err != nil {
			t.Fatal(err)
		}
		h := request.Header
		stamp := h.Get("webhook-timestamp")
		var want []string
		for _, c := range keys {
			mac := hmac.New(sha256.New, []byte(strings.Repeat(string(c), 32)))
			_, _ = io.WriteString(mac, "job-1."+stamp+"."+string(body))
			want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		if got := h.Get("webhook-signature"); got != strings.Join(want, " ") {
			t.Errorf("%d: signature %q, want %q", i, got, want)
		}
		if at, ok := number(stamp); !ok || int64(at) < begin || int64(at) > time.Now().Unix() {
			t.Errorf("%d: at %s, now is %d", i, stamp, begin)
		}
		if h.Get("webhook-id") != "job-1" || h.Get("Idempotency-Key") != "job-1" || request.Method != http.MethodPut ||
			!strings.HasSuffix(h.Get("traceparent"), "b7-01") || h.Get("tracestate") != "a=1" {
			t.Errorf("%d: %s with %v", i, request.Method, h)
		}
	}
}

// A secret that is itself a reference is no key: nothing goes out that nobody could check.
func TestSignedWithAReference(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("${secret:old}"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	s, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	r := sender(t, Options{Secrets: secrets.Source{Dir: dir, Allow: keytest.Allow(t, "new="+s.URL, "old="+s.URL)}})
	job := jobFor(s.URL, "")
	for signing, field := range map[string]string{
		`{"secret": "${secret:new}"}`:                                   "deliver.http.signing.secret",
		`{"secret": "` + key + `", "previous_secret": "${secret:new}"}`: "deliver.http.signing.previous_secret",
	} {
		job.Spec.Deliver = []byte(`{"http": {"url": "` + s.URL + `", "signing": ` + signing + `}}`)
		err := r.Handle(t.Context(), job, opened())
		if drain.What(err).Verdict != queue.Down || !strings.Contains(err.Error(), field+" cannot be used") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What a setting can have that was not there before, when it makes no sense.
func TestBadSettings(t *testing.T) {
	for _, c := range []struct {
		change func(*Target)
		field  string
		says   string
	}{
		{func(x *Target) { x.Method = "GET" }, "deliver.http.method", "POST, PUT or PATCH"},
		{func(x *Target) { x.Method = "post" }, "deliver.http.method", "POST, PUT or PATCH"},
		{func(x *Target) { x.Method = "" }, "deliver.http.method", "POST, PUT or PATCH"},
		{func(x *Target) { x.Statuses = map[string]string{"199": Retry} }, "deliver.http.statuses", "status"},
		{func(x *Target) { x.Statuses = map[string]string{"600": Retry} }, "deliver.http.statuses", "status"},
		{func(x *Target) { x.Statuses = map[string]string{"4XX": Retry} }, "deliver.http.statuses", "status"},
		{func(x *Target) { x.Statuses = map[string]string{"40x": Retry} }, "deliver.http.statuses", "status"},
		{
			func(x *Target) { x.Statuses = map[string]string{"409": "ok"} }, "deliver.http.statuses.409",
			"delivered, retry, dead",
		},
		{func(x *Target) { x.Signing = &Signing{} }, "deliver.http.signing.secret", "missing"},
		{func(x *Target) { x.Signing = &Signing{Secret: "hunter2"} }, "deliver.http.signing.secret", "whsec_"},
		{func(x *Target) { x.Signing = &Signing{Secret: "whsec_aHVudGVyMg=="} }, "deliver.http.signing.secret", "24 to 64"},
		{
			func(x *Target) { x.Signing = &Signing{Secret: "whsec_${secret:A}"} }, "deliver.http.signing.secret",
			"${secret:NAME}",
		},
		{
			func(x *Target) { x.Signing = &Signing{Secret: "${secret:A}", Previous: "hunter2"} },
			"deliver.http.signing.previous_secret", "whsec_",
		},
		{
			func(x *Target) { x.Signing = &Signing{Secret: "${REDIS_PASSWORD}"} },
			"deliver.http.signing.secret", "not a reference",
		},
		{
			func(x *Target) { x.Headers = map[string]string{"A": "${REDIS_PASSWORD}"} }, "deliver.http.headers.A",
			"not a reference",
		},
		{
			func(x *Target) { x.Headers = map[string]string{"A": "${secret:../a}"} },
			"deliver.http.headers.A", "not a reference",
		},
		{func(x *Target) { x.Headers = map[string]string{"A": "${env:HOME}"} }, "deliver.http.headers.A", "not a reference"},
		{func(x *Target) { x.Headers = map[string]string{"A": "${secret:a"} }, "deliver.http.headers.A", "not a reference"},
		{
			func(x *Target) { x.Headers = map[string]string{"Webhook-Signature": "a"} },
			"deliver.http.headers.Webhook-Signature", "signing",
		},
		{func(x *Target) { x.URL = "https://${secret:a}/" }, "deliver.http.url", "in its host"},
		{func(x *Target) { x.URL = "https://a${secret:a}" }, "deliver.http.url", "in its host"},
		{func(x *Target) { x.URL = "https://u:${secret:a}@a/" }, "deliver.http.url", "in its host"},
		{func(x *Target) { x.URL = "https://a/?b=${HOME}" }, "deliver.http.url", "not a reference"},
		{func(x *Target) { x.URL = "http://2130706433/" }, "deliver.http.url", "neither a name nor an address"},
		{func(x *Target) { x.URL = "http://0x7f.1/" }, "deliver.http.url", "neither a name nor an address"},
		{func(x *Target) { x.URL = "http://0177.0.0.1/" }, "deliver.http.url", "neither a name nor an address"},
		{func(x *Target) { x.URL = "http://127.1./" }, "deliver.http.url", "neither a name nor an address"},
		{func(x *Target) { x.URL = "http://a@10.0.0.1/" }, "deliver.http.url", "user and password"},
		{func(x *Target) { x.TLS = &TLS{Cert: "a"} }, "deliver.http.tls", "belong together"},
		{func(x *Target) { x.TLS = &TLS{CA: "a"} }, "deliver.http.tls.ca", "PEM"},
		{func(x *Target) { x.TLS = &TLS{Cert: "a", Key: "hunter2"} }, "deliver.http.tls.cert", "key"},
		{func(x *Target) { x.TLS = &TLS{CA: "x${secret:a}"} }, "deliver.http.tls.ca", "only a reference"},
		{func(x *Target) { x.TLS = &TLS{ServerName: "a b"} }, "deliver.http.tls.server_name", "host name"},
	} {
		target := Default()
		target.URL = "https://a/"
		c.change(target)
		err := target.Check("deliver.http")
		var f *invalid.Error
		if !errors.As(err, &f) || f.Field != c.field || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s saying %q", err, c.field, c.says)
		}
	}
}
