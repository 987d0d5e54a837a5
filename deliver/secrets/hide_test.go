package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// Whatever way a receiver writes what it was sent, it is hidden, and what stands around it is not.
func TestHide(t *testing.T) {
	for _, secret := range []string{
		"hunter2/with=signs+and space", "hunter2&<plain>", `hunter2\n"quoted"`, "hunter2-ünïcödé-🔑", "hunter2", "hunt/er+2==",
	} {
		escaped := func() string {
			var b strings.Builder
			for _, r := range secret {
				if r > 0xffff {
					r -= 0x10000
					_, _ = fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
				} else {
					_, _ = fmt.Fprintf(&b, `\u%04X`, r)
				}
			}
			return b.String()
		}
		percent := func(format string) string {
			var b strings.Builder
			for _, c := range []byte(secret) {
				_, _ = fmt.Fprintf(&b, format, c)
			}
			return b.String()
		}
		quoted, _ := json.Marshal(secret)
		forms := map[string]string{
			"as it is":         secret,
			"JSON":             string(quoted[1 : len(quoted)-1]),
			"JSON with \\/":    strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`),
			"JSON, all of it":  escaped(),
			"JSON in lower":    strings.ToLower(strings.ReplaceAll(escaped(), `\uD`, `\ud`)),
			"a query":          url.QueryEscape(secret),
			"a path":           url.PathEscape(secret),
			"%XX":              percent("%%%02X"),
			"%xx":              percent("%%%02x"),
			"a query in JSON":  strings.ReplaceAll(url.QueryEscape(secret), "%", `\u0025`),
			"JSON in a query":  url.QueryEscape(escaped()),
			"a query's query":  url.QueryEscape(url.QueryEscape(secret)),
			"JSON within JSON": strings.ReplaceAll(escaped(), `\`, `\\`),
			"HTML":             html.EscapeString(secret),
			"upper case":       strings.ToUpper(secret),
			"lower case":       strings.ToLower(secret),
			"a query, upper":   strings.ToUpper(url.QueryEscape(secret)),
			"hex":              hex.EncodeToString([]byte(secret)),
			"HEX":              strings.ToUpper(hex.EncodeToString([]byte(secret))),
		}
		for name, encoding := range map[string]*base64.Encoding{
			"base64": base64.StdEncoding, "base64, raw": base64.RawStdEncoding, "base64 of URLs": base64.URLEncoding,
			"base64 of URLs, raw": base64.RawURLEncoding,
		} {
			forms[name] = encoding.EncodeToString([]byte(secret))
			for before := range 3 {
				for after := range 3 {
					forms[fmt.Sprintf("%s, %d before and %d behind", name, before, after)] = encoding.EncodeToString([]byte(
						"uvw"[:before] + secret + "xyz"[:after],
					))
				}
			}
			forms[name+" with a name"] = encoding.EncodeToString([]byte("user:" + secret))
		}
		forms["base64 in JSON"] = strings.ReplaceAll(forms["base64"], "/", `\/`)
		forms["base64 in a query"] = url.QueryEscape(forms["base64"])
		if strings.ContainsRune(secret, 'ü') || strings.Contains(secret, `"`) {
			delete(forms, "JSON in lower") // what lower case makes of the secret is another
		}
		h := NewHider("Bearer "+secret, "abc")
		for name, form := range forms {
			got := h.Hide("you said [" + form + "] twice: [" + form + "]; abc")
			if got != "you said [***] twice: [***]; abc" {
				t.Errorf("%s of %s, %s: %s", name, secret, form, got)
			}
		}
	}
}

// What is sent in base64 is hidden as what it says, too.
func TestHideBasic(t *testing.T) {
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2-password"))
	h := NewHider(login, base64.RawURLEncoding.EncodeToString([]byte("hunter2-key?>")))
	for text, want := range map[string]string{
		"got " + login:                   "got ***",
		"got " + login[len("Basic "):]:   "got ***",
		"me:hunter2-password is wrong":   "*** is wrong",
		"hunter2-password is wrong":      "*** is wrong",
		"hunter2%2Dpassword is wrong":    "*** is wrong",
		`{"key":"hunter2-key?\u003e"}`:   `{"key":"***"}`,
		"nothing of it, and 100% + \\ok": "nothing of it, and 100% + \\ok",
		"":                               "",
	} {
		if got := h.Hide(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A text that was cut may end in the middle of a secret.
func TestHideCut(t *testing.T) {
	h := NewHider("Bearer hunter2-and-more")
	for text, want := range map[string]string{
		"you said hunter2-an":            "you said ***",
		"you said hunter2%2dan":          "you said ***",
		"you said Bearer hunter2-and-mo": "you said ***",
	} {
		if got := h.Hide(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A receiver may trim a value, cut it in two, change its case, or answer with what stood behind a scheme or a name.
func TestHideParts(t *testing.T) {
	const secret = "Hunter2-Abcdefgh-Ijklmnop"
	h := NewHider(" \t"+secret+"\r\n ", "session=1; key=w0rdOne-; v=2", "Token  hunter3,b=f0rtyTwo").
		Whole("application/json")
	for text, want := range map[string]string{
		"got " + secret + "!":             "got ***!",
		"got " + secret[:12] + "!":        "got ***!",
		"got " + secret[13:] + "!":        "got ***!",
		"got " + secret[6:18] + "!":       "got ***!",
		"got " + secret[:11] + "!":        "got " + secret[:11] + "!", // less than half of it
		"got hUNTER2-aBCDEFGH-iJKL!":      "got ***!",
		"got " + hexOf(secret[13:]) + "!": "got ***!",
		"got " + base64.StdEncoding.EncodeToString([]byte(secret[:12])) + "!":        "got ***!",
		"got " + base64.StdEncoding.EncodeToString([]byte(secret[13:])) + "!":        "got ***!",
		"got " + base64.StdEncoding.EncodeToString([]byte("me:"+secret[5:20])) + "!": "got ***!",
		"got " + url.QueryEscape(secret[:12]+" ") + "!":                              "got ***+!",
		"key W0RDONE- is unknown":               "key *** is unknown",
		"b=F0rtyTwo is unknown":                 "*** is unknown",
		"hunter3,b= is unknown":                 "*** is unknown",
		"no application takes application/json": "no application takes ***",
	} {
		if got := h.Hide(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func hexOf(text string) string { return strings.ToUpper(hex.EncodeToString([]byte(text))) }

// A receiver cannot make it expensive to look for what an app has made up.
func BenchmarkHide(b *testing.B) {
	h := NewHider(
		strings.Repeat("a", 8000), strings.Repeat("a", 1500), strings.Repeat("%61", 300), "Bearer hunter2-abcdefgh",
	)
	for name, text := range map[string]string{
		"usual": "the address a@example.com is not known here", "worst": strings.Repeat("a", 640) + `\u0061%61&#x61;%2561`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				h.Hide(text)
			}
		})
	}
}

// Nothing of a secret is left, whatever stands around it and however it is cut up by escapes, and it ends.
func FuzzHide(f *testing.F) {
	f.Add("hunter2/a=b c", `\u0068unter2%2fa`, "+b%20c")
	f.Add(`\\\\`, `\\\`, "%5c")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		got := NewHider(secret).Hide(before + secret + after)
		if n := len(strings.TrimSpace(secret)); n >= leastSecret && !strings.Contains(Hidden, secret) &&
			!strings.Contains(before+Hidden+after, secret) && strings.Contains(got, secret) {
			t.Errorf("%q in %q", secret, got)
		}
		if len(strings.TrimSpace(secret)) < leastSecret && got != before+secret+after {
			t.Errorf("%q became %q", before+secret+after, got)
		}
	})
}
