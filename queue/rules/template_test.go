package rules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue/invalid"
)

func keyOf(t *testing.T, template string, j Fields) (string, error) {
	t.Helper()
	k, err := ParseTemplate(template)
	if err != nil {
		t.Fatal(err)
	}
	j.ContentType = cmp.Or(j.ContentType, "application/json")
	return k.Expand(&j)
}

func TestKeyTemplateExpands(t *testing.T) {
	j := Fields{
		Queue: "ses.otp", App: "acme", Lane: "a:b", Headers: map[string]string{"x-TENANT": "Acme 100%", "X-Note": "n"},
		Payload: []byte(` {"to": "a@example.com", "n": 12345678901234567890.50, "big": 1e400,
			"yes": true, "no": false, "a/b": 1, "m~n": 2,
			"": 3,
			"list": ["x", {"k": ["deep"]}, 7], "0": "zero", "A": "esc", "-": "dash", "text": "12", "é\u0000": "odd",
			"nested": {"to": "inner", "twice": 1, "twice": 2}} `),
	}
	for template, want := range map[string]string{
		"":                                    "",
		"{lane}":                              "a:b",
		"{queue}":                             "ses.otp",
		"{app}":                               "acme",
		"{app}:{lane}":                        "acme:a:b",
		"{content_type}":                      "application/json",
		"{header.X-Tenant}":                   "Acme 100%",
		"{header.x-tenant}":                   "Acme 100%",
		"{payload/to}":                        "a@example.com",
		"{payload./to}":                       "a@example.com",
		"{payload/n}":                         "12345678901234567890.50",
		"{payload/big}":                       "1e400",
		"{payload/yes}":                       "true",
		"{payload/no}":                        "false",
		"{payload/a~1b}":                      "1",
		"{payload/m~0n}":                      "2",
		"{payload/}":                          "3",
		"{payload/list/0}":                    "x",
		"{payload/list/1/k/0}":                "deep",
		"{payload/list/2}":                    "7",
		"{payload/0}":                         "zero",
		"{payload/A}":                         "esc",
		"{payload/-}":                         "dash",
		"{payload/text}":                      "12",
		"{payload/é\x00}":                     "odd",
		"{payload/nested/to}":                 "inner",
		"{lane}:{queue}":                      "a%3Ab:ses.otp",
		"{queue}:{lane}":                      "ses.otp:a:b",
		"user:{lane}":                         "user:a:b",
		"{header.x-tenant}/{payload/to}":      "Acme 100%25/a@example.com",
		"{payload/to}@{lane}.":                "a%40example.com@a:b.",
		"{header.x-note}--{header.x-note}::!": "n--n::!",
	} {
		if got, err := keyOf(t, template, j); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", template, got, err, want)
		}
	}
}

func TestKeyTemplateNamesWhatAJobLacks(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	for _, tt := range []struct{ template, payload, field, reason string }{
		{"{lane}", `{}`, "lane", "missing or empty"},
		{"{header.X-Tenant}", `{}`, "headers.X-Tenant", "missing or empty"},
		{"{header.X-Empty}", `{}`, "headers.X-Empty", "missing or empty"},
		{"{header.x-twice}", `{}`, "headers.x-twice", "given twice"},
		{"{payload/to}", `{}`, "payload/to", "missing or empty"},
		{"{payload./to}", `{}`, "payload/to", "missing or empty"},
		{"{payload/to}", `{"To":"a"}`, "payload/to", "missing or empty"},
		{"{payload/to}", `{"to":""}`, "payload/to", "missing or empty"},
		{"{payload/to}", `{"to":null}`, "payload/to", "an object, a list or null"},
		{"{payload/to}", `{"to":{}}`, "payload/to", "an object, a list or null"},
		{"{payload/to}", `{"to":["a"]}`, "payload/to", "an object, a list or null"},
		{"{payload/to/x}", `{"to":"a"}`, "payload/to/x", "missing or empty"},
		{"{payload/to}", `["to"]`, "payload/to", "missing or empty"},
		{"{payload/0}", `"a"`, "payload/0", "missing or empty"},
		{"{payload/1}", `["a"]`, "payload/1", "missing or empty"},
		{"{payload/00}", `["a"]`, "payload/00", "missing or empty"},
		{"{payload/-1}", `["a"]`, "payload/-1", "missing or empty"},
		{"{payload/-}", `["a"]`, "payload/-", "missing or empty"},
		{"{payload/99999999999999999999}", `["a"]`, "payload/99999999999999999999", "missing or empty"},
		{"{payload/to}", ``, "payload/to", "not one JSON value"},
		{"{payload/to}", `to=a`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"a"`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"a"}}`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"a"} {"to":"b"}`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"a","x":[1,}`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":}`, "payload/to", "not one JSON value"},
		{"{payload/to}", "{\"to\":\"a\xff\"}", "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"\ud800"}`, "payload/to", "not one JSON value"},
		{"{payload/to}", `{"to":"a","to":"b"}`, "payload/to", "given twice"},
		{"{payload/to}", `{"to":"a","t\u006f":"a"}`, "payload/to", "given twice"},
		{"{payload/to/x}", `{"to":{"x":"a"},"y":1,"to":{}}`, "payload/to/x", "given twice"},
		{"{payload/to}", strings.Repeat("[", 100_000), "payload/to", "is nested deeper than 64 levels"},
		{"{payload/to}", `{"to":"` + long + `"}`, "payload/to", "10240 bytes, the limit is 1024"},
		{"{payload/to}:{queue}", `{"to":"` + long + `"}`, "payload/to", "10240 bytes, the limit is 1024"},
		{"{payload/to}:{queue}", `{"to":"` + strings.Repeat(":", 400) + `"}`, "key", "the limit is 1024"},
	} {
		j := Fields{
			Queue: "q", Payload: []byte(tt.payload),
			Headers: map[string]string{"X-Empty": "", "X-Twice": "a", "x-twice": "a"},
		}
		got, err := keyOf(t, tt.template, j)
		var fe *invalid.Error
		if !errors.As(err, &fe) || fe.Field != tt.field || !strings.Contains(err.Error(), tt.reason) ||
			len(err.Error()) > 400 || got != "" {
			t.Errorf(
				"%s of %.60s: %q, %v; want field %s and %q", tt.template, tt.payload, got, err, tt.field, tt.reason,
			)
		}
	}
}

func TestParseKeyTemplateRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		"lane":                       "no field in braces",
		"{":                          "{ without a }",
		"{lane":                      "{ without a }",
		"}":                          "} without a {",
		"{lane}}":                    "} without a {",
		"{}":                         "{} is not a field",
		"{tenant}":                   "{tenant} is not a field",
		"{Lane}":                     "{Lane} is not a field",
		"{header}":                   "is not a field",
		"{header.}":                  "is not a field",
		"{header.a b}":               "is not a field",
		"{header.é}":                 "is not a field",
		"{payload}":                  "is not a field",
		"{payload.to}":               "is not a field",
		"{payloads/to}":              "is not a field",
		"{payload/a~2b}":             "is not a field",
		"{payload/a~}":               "is not a field",
		"{payload/\xff}":             "is not a field",
		"{{lane}}":                   "is not a field",
		"{lane}{queue}":              "nothing between them",
		"a{lane}{queue}":             "nothing between them",
		"{lane} {queue}":             "not visible ASCII",
		"{lane}é":                    "not visible ASCII",
		"\n{lane}":                   "not visible ASCII",
		"{lane}%{queue}":             "has a %",
		strings.Repeat("{lane}", 90): "540 bytes, the limit is 512",
	} {
		_, err := ParseTemplate(text)
		var fe *invalid.Error
		if !errors.As(err, &fe) || fe.Field != "key" || !strings.Contains(err.Error(), reason) ||
			len(err.Error()) > 400 {
			t.Errorf("%.60q: %v; want %q", text, err, reason)
		}
	}
}

// TestKeysAreOfOneListOfValues makes keys with random templates from all short values of characters used in the
// encoding: no two lists of values make the same key.
func TestKeysAreOfOneListOfValues(t *testing.T) {
	var values []string
	for _, a := range ":%3A" {
		values = append(values, string(a))
		for _, b := range ":%3A" {
			values = append(values, string([]rune{a, b}), string([]rune{a, b, '3'}), string([]rune{a, b, ':'}))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		literal := func(least, most int) string {
			return strings.Join(
				rapid.SliceOfN(rapid.SampledFrom([]string{":", "%", "3", "A"}), least, most).Draw(t, "literal"), "",
			)
		}
		text := literal(0, 2) + "{header.a}" + literal(1, 3) + "{header.b}" + literal(0, 2)
		k, err := ParseTemplate(text)
		if strings.Contains(text, "%") {
			if err == nil {
				t.Fatalf("%s was taken for a template", text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, a := range values {
			for _, b := range values {
				key, err := k.Expand(&Fields{Headers: map[string]string{"a": a, "b": b}})
				if err != nil {
					t.Fatal(err)
				}
				if other, ok := seen[key]; ok {
					t.Fatalf("%s: %s makes %q, as %q and %q do", text, other, key, a, b)
				}
				seen[key] = fmt.Sprintf("%q and %q", a, b)
			}
		}
	})
}

// TestABigPayloadIsSkipped checks that values off the path cost one pass over their bytes, without memory or tokens.
func TestABigPayloadIsSkipped(t *testing.T) {
	var rows []map[string]any
	for i := range 11000 {
		rows = append(rows, map[string]any{
			"id": i, "name": "somebody", "tags": []int{1, 2, 3}, "note": `with "quotes" and more of the kind`,
		})
	}
	rest, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	const mostPayload = 1 << 20
	j := Fields{Payload: fmt.Appendf(nil, `{"rows":%s,"to":"a"}`, rest)}
	if len(j.Payload) < mostPayload*8/10 || len(j.Payload) > mostPayload {
		t.Fatalf("%d bytes", len(j.Payload))
	}
	k, err := ParseTemplate("{payload/to}")
	if err != nil {
		t.Fatal(err)
	}
	expand := func() {
		if key, err := k.Expand(&j); key != "a" || err != nil {
			t.Fatalf("%q, %v", key, err)
		}
	}
	if n := testing.AllocsPerRun(10, expand); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkExpand(b *testing.B) {
	k, _ := ParseTemplate("{payload/to}:{lane}")
	j := Fields{Lane: "tenant", Payload: []byte(`{"to":"somebody@example.com","template":"otp","n":12,"tags":["a","b"]}`)}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = k.Expand(&j)
	}
}

func FuzzKeyTemplate(f *testing.F) {
	f.Add("{lane}:{payload/to/0}", []byte(`{"to":["a",1e9]}`), "lane", "value")
	f.Add("{header.x}-{queue}-{payload/a~1b}", []byte(`{"a/b":true,"a\u002fb":null}`), "l", "v")
	f.Fuzz(func(t *testing.T, text string, payload []byte, lane, header string) {
		k, err := ParseTemplate(text)
		var fe *invalid.Error
		if err != nil {
			if !errors.As(err, &fe) || fe.Field != "key" {
				t.Fatalf("%v does not name the key", err)
			}
			return
		}
		j := Fields{Queue: "q", Lane: lane, Payload: payload, Headers: map[string]string{"X": header}}
		j.ContentType = cmp.Or(j.ContentType, "application/json")
		key, err := k.Expand(&j)
		switch {
		case err != nil && (!errors.As(err, &fe) || fe.Field == "" || key != ""):
			t.Fatalf("%q, %v", key, err)
		case err == nil && (len(key) > MaxKeyBytes || (key == "") != (text == "")):
			t.Fatalf("%q makes %q", text, key)
		}
		if again, _ := k.Expand(&j); again != key {
			t.Fatalf("%q, then %q", key, again)
		}
	})
}

func BenchmarkExpandOfABigPayload(b *testing.B) {
	k, _ := ParseTemplate("{payload/to}")
	j := Fields{
		Payload: []byte(`{"rows":[` + strings.Repeat(
			`{"id":1,"name":"somebody","tags":[1,2,3]},`, 20_000,
		) + `1],"to":"a"}`),
	}
	b.SetBytes(int64(len(j.Payload)))
	for b.Loop() {
		_, _ = k.Expand(&j)
	}
}
