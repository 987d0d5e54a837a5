package console

import (
	"net/url"
	"strings"
	"testing"
)

func TestFormsBecomeObjects(t *testing.T) {
	for _, c := range []struct {
		form url.Values
		want string // an object, or what the refusal says
	}{
		{url.Values{}, ""},
		{url.Values{"_method": {"PUT"}, "note": {" "}}, ""},
		{url.Values{"note": {"a <b>"}}, `{"note":"a \u003cb\u003e"}`},
		{url.Values{"limits.queues:json": {"20"}, "limits.rate": {"5/s"}}, `{"limits":{"queues":20,"rate":"5/s"}}`},
		{url.Values{"prefixes:list": {"acme-*, ses.otp\r\nx"}}, `{"prefixes":["acme-*","ses.otp","x"]}`},
		{
			url.Values{"grants:grants": {"view produce:mail-*"}},
			`{"grants":[{"role":"view"},{"role":"produce","prefix":"mail-*"}]}`,
		},
		{url.Values{"n:json": {"1e"}}, "is not a JSON value"},
		{url.Values{"n:number": {"1"}}, "is not a field name"},
		{url.Values{strings.Repeat("a.", 100_000) + "a": {"1"}}, "is not a field name"},
	} {
		body, err := object(c.form)
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && string(body) != c.want {
			t.Errorf("%.80v: %s, %v; want %s", c.form, body, err, c.want)
		}
	}
	// A name used for both a value and an object must not panic.
	if _, err := object(url.Values{"a": {"1"}, "a.b": {"2"}}); err != nil {
		t.Error(err)
	}
}
