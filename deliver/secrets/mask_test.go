package secrets

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// What is shown of a setting, which put back as it is keeps what was there.
func TestMask(t *testing.T) {
	for _, c := range []struct{ name, raw, shown string }{
		{"nothing", ``, ``},
		{"empty", `{}`, `{}`},
		{
			"no secret", `{"http":{"headers":{"X-A":"1"},"timeout":"10s","url":"https://a:1/b"}}`,
			`{"http":{"headers":{"X-A":"1"},"timeout":"10s","url":"https://a:1/b"}}`,
		},
		{
			"headers by name",
			`{"http":{"headers":{"Authorization":"Bearer a","proxy-authorization":"b","COOKIE":"c","X-Api-Key":"d",` +
				`"Access-TOKEN":"e","My-Secret":"f","db_password":"g","X-Signature-256":"h","Accept":"i"}}}`,
			`{"http":{"headers":{"Authorization":"***","proxy-authorization":"***","COOKIE":"***","X-Api-Key":"***",` +
				`"Access-TOKEN":"***","My-Secret":"***","db_password":"***","X-Signature-256":"***","Accept":"i"}}}`,
		},
		{
			"headers by other names",
			`{"http":{"headers":{"X-Credential":"a","Passwd":"b","X-PWD":"c","X-Jwt":"d","Session-Id":"e","X-Bearer":"f",` +
				`"Host-Name":"g"}}}`,
			`{"http":{"headers":{"X-Credential":"***","Passwd":"***","X-PWD":"***","X-Jwt":"***","Session-Id":"***",` +
				`"X-Bearer":"***","Host-Name":"g"}}}`,
		},
		{
			"query", `{"http":{"url":"https://a/b?token=x&u=1&u=2&&flag&=v"}}`,
			`{"http":{"url":"https://a/b?token=***&u=***&u=***&&***&=***"}}`,
		},
		{"a query's value with = in it", `{"http":{"url":"https://a/?t=x=y"}}`, `{"http":{"url":"https://a/?t=***"}}`},
		{
			"references", `{"http":{"headers":{"Authorization":"Bearer ${secret:A-1}","X-Key":"${secret:A}${secret:B}",` +
				`"Cookie":"a=${secret:A}","X-Token":"${secret:A} x"},"tls":{"key":"${secret:K}"},` +
				`"url":"https://a/${secret:P}?t=${secret:Q}&u=1${secret:Q}"}}`,
			`{"http":{"headers":{"Authorization":"Bearer ${secret:A-1}","X-Key":"${secret:A}${secret:B}","Cookie":"***",` +
				`"X-Token":"***"},"tls":{"key":"${secret:K}"},"url":"https://a/${secret:P}?t=${secret:Q}&u=***"}}`,
		},
		{"empty query", `{"http":{"url":"https://a/?"}}`, `{"http":{"url":"https://a/?"}}`},
		{"user", `{"http":{"url":"https://u:p@q@a:1/b@c?d=e#f"}}`, `{"http":{"url":"https://***@a:1/b@c?d=***#***"}}`},
		{
			"user with a reference", `{"http":{"proxy":"http://u:${secret:P}@a:1"}}`,
			`{"http":{"proxy":"http://u:${secret:P}@a:1"}}`,
		},
		{
			"user with a reference and more", `{"http":{"proxy":"http://u:x${secret:P}@a:1","url":"https://u:p:${secret:P}@a"}}`,
			`{"http":{"proxy":"http://***@a:1","url":"https://***@a"}}`,
		},
		{
			"a reference and more", `{"http":{"proxy":"http://${secret:U}x:p@a:1","headers":{"X-Token":"u:${secret:P}"}}}`,
			`{"http":{"proxy":"http://***@a:1","headers":{"X-Token":"***"}}}`,
		},
		{"user without path", `{"http":{"url":"https://u@a"}}`, `{"http":{"url":"https://***@a"}}`},
		{"no good URL", `{"http":{"url":"u:p@a:x/b?t=x"}}`, `{"http":{"url":"***@a:x/b?t=***"}}`},
		{
			"a URL in a header", `{"http":{"headers":{"X-Back":"https://a/?t=x"}}}`,
			`{"http":{"headers":{"X-Back":"https://a/?t=***"}}}`,
		},
		{
			"a question is no URL", `{"http":{"headers":{"X-A":"why? because=so"}}}`,
			`{"http":{"headers":{"X-A":"why? because=so"}}}`,
		},
		{
			"a URL behind a question", `{"http":{"headers":{"X-A":"why?t=https://a"}}}`,
			`{"http":{"headers":{"X-A":"why?t=https://a"}}}`,
		},
		{
			"other targets",
			`{"smtp":{"password":1234,"auth":{"a":["b"]},"n":12345678901234567890.10,"l":[true,null,"nats://u:p@h"]}}`,
			`{"smtp":{"password":"***","auth":"***","n":12345678901234567890.10,"l":[true,null,"nats://***@h"]}}`,
		},
		{
			"units of what a call has used",
			`{"http":{"actual":{"tokens":{"pointer":"/usage/n"},"keys":"a"},"tokens":{"pointer":"b"}}}`,
			`{"http":{"actual":{"tokens":{"pointer":"/usage/n"},"keys":"***"},"tokens":"***"}}`,
		},
		{"spaces", ` { "http" : { "url" : "https:\/\/a\/?t=\u0078" } } `, `{"http":{"url":"https://a/?t=***"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			shown := Mask(json.RawMessage(c.raw))
			if string(shown) != c.shown {
				t.Fatalf("shown as\n%s, want\n%s", shown, c.shown)
			}
			if secrets := strings.Contains(c.shown, Hidden); Masked(shown) != secrets || Masked(json.RawMessage(c.raw)) {
				t.Errorf("masked is said to be %v, and the real one %v", Masked(shown), Masked(json.RawMessage(c.raw)))
			}
			back, err := Unmask(shown, json.RawMessage(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			was, now := queue.Spec{Deliver: json.RawMessage(c.raw)}, queue.Spec{Deliver: back}
			if !was.Equal(now) {
				t.Errorf("put back as\n%s, was\n%s", back, c.raw)
			}
		})
	}
	for _, broken := range []string{`{"password":"x"`, `{"password":"x"]`, `{"a"`, `[`, `x`} {
		if got := Mask(json.RawMessage(broken)); string(got) != `"***"` {
			t.Errorf("%s is shown as %s", broken, got)
		}
	}
}

// What was shown, edited and put back.
func TestUnmask(t *testing.T) {
	stored := `{"http":{"headers":{"Authorization":"Bearer a","X-Key":"k"},"url":"https://a/b?token=x&u=1&u=2&flag"}}`
	url := func(u string) string { return `{"http":{"url":"` + u + `"}}` }
	header := func(h string) string { return `{"http":{"headers":{` + h + `}}}` }
	for _, c := range []struct{ name, raw, want, field, says string }{
		{"another path", url("https://a/c?token=***"), url("https://a/c?token=x"), "", ""},
		{"another order", url("https://a/?u=***&token=***&u=***"), url("https://a/?u=1&token=x&u=2"), "", ""},
		{"a new value beside", url("https://a/?token=new&u=***"), url("https://a/?token=new&u=1"), "", ""},
		{"without a name", url("https://a/?***"), url("https://a/?flag"), "", ""},
		{"a third", url("https://a/?u=***&u=***&u=***"), "", "deliver.http.url", `the query's "u" number 3`},
		{"another name", url("https://a/?t=***"), "", "deliver.http.url", `the query's "t"`},
		{"no user", url("https://***@a/"), "", "deliver.http.url", "user and password"},
		{"no fragment", url("https://a/#***"), "", "deliver.http.url", "fragment"},
		{"a part of a value", url("https://a/?token=a***"), url("https://a/?token=a***"), "", ""},
		{
			"a header", header(`"Authorization":"***","X-Key":"new"`), header(`"Authorization":"Bearer a","X-Key":"new"`), "",
			"",
		},
		{"in another case", header(`"X-KEY":"***"`), header(`"X-KEY":"k"`), "", ""},
		{
			"another header", header(`"X-Token":"***"`), "",
			"deliver.http.headers.X-Token", "none is stored there; give the secret itself",
		},
		{"escaped", header(`"X-Token":"\u002a**"`), "", "deliver.http.headers.X-Token", "***"},
		{"where nothing is hidden", header(`"X-A":"***"`), header(`"X-A":"***"`), "", ""},
		{"another target", `{"smtp":{"password":"***"}}`, "", "deliver.smtp.password", "***"},
		{"not JSON", `{"http"`, "", "deliver.http", "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Unmask(json.RawMessage(c.raw), json.RawMessage(stored))
			if c.field == "" {
				if err != nil || string(got) != c.want {
					t.Errorf("%s, %v; want %s", got, err, c.want)
				}
				return
			}
			var f *invalid.Error
			if !errors.As(err, &f) || f.Field != c.field || !strings.Contains(f.Reason, c.says) {
				t.Errorf("%s, %v; want %s to say %q", got, err, c.field, c.says)
			}
		})
	}
	if _, err := Unmask(json.RawMessage(`{"http":{"headers":{"X-Key":"***"}}}`), nil); err == nil {
		t.Error("*** was kept where nothing is stored")
	}
}

// Whatever is shown, put back as it is, is what was there, and shows itself once more.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{
		`{"http":{"headers":{"Authorization":"a","X":"https://u:p@a/b?c=d&e#f"},"url":"https://a/?b=c&b=d&&e"}}`,
		`{"x":{"Key":1,"key":{"token":[2]}},"url":"a@b?c#d"}`, `{"url":{"url":"a?t=://"}}`, `{"a":"why?t=https://b"}`,
		`{"a":["://@","#","?"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := json.RawMessage(text)
		was := queue.Spec{Deliver: raw}
		if _, err := queue.EncodeSpec(was); err != nil {
			return // no engine stores it
		}
		shown := Mask(raw)
		if again := Mask(shown); string(again) != string(shown) {
			t.Errorf("%s is shown as %s, and that as %s", text, shown, again)
		}
		back, err := Unmask(shown, raw)
		if err != nil || !was.Equal(queue.Spec{Deliver: back}) {
			t.Errorf("%s is shown as %s and put back as %s, %v", text, shown, back, err)
		}
	})
}

// Two headers whose names differ in case alone, as another program may have stored them, keep their own.
func TestUnmaskTellsCaseApart(t *testing.T) {
	stored := json.RawMessage(`{"x":{"Key":"1","key":"2"}}`)
	if got, err := Unmask(Mask(stored), stored); err != nil || string(got) != string(stored) {
		t.Errorf("%s, %v", got, err)
	}
}
