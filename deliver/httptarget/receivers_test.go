package httptarget

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
)

// All that a request has in it goes to the receiver, to whom its certificate says that it is, and to a proxy that the
// target names: a secret must be allowed for each.
func TestUses(t *testing.T) {
	ca := strconv.Quote(newIssuer(t).pem)
	for _, c := range []struct{ name, target, want string }{
		{"alone", `"url":"https://api.example.com/x"`, "api.example.com:443 tls"},
		{"a port", `"url":"https://api.example.com:8443/x"`, "api.example.com:8443 tls"},
		{"without TLS", `"url":"http://api.example.com/x"`, "api.example.com:80"},
		{
			"another's certificate", `"url":"https://api.example.com/x","tls":{"server_name":"b.example"}`,
			"api.example.com:443 tls, b.example:443 tls",
		},
		{
			"an authority of the target's own", `"url":"https://api.example.com/x","tls":{"ca":` + ca + `}`,
			"api.example.com:443",
		},
		{
			"an authority that is a secret", `"url":"https://api.example.com/x","tls":{"ca":"${secret:CA}"}`,
			"api.example.com:443 tls",
		},
		{
			"a proxy", `"url":"https://api.example.com/x","proxy":"http://u:${secret:P}@proxy.example:3128"`,
			"api.example.com:443 tls, proxy.example:3128 tls",
		},
		{
			"a proxy that can read it", `"url":"http://api.example.com/x","proxy":"http://u:${secret:P}@proxy.example:3128"`,
			"api.example.com:80, proxy.example:3128",
		},
		{
			"a proxy that an authority of the target's own lets read it",
			`"url":"https://api.example.com/x","proxy":"http://u:${secret:P}@proxy.example","tls":{"ca":` + ca + `}`,
			"api.example.com:443, proxy.example:80",
		},
		{
			"a proxy over TLS", `"url":"http://api.example.com/x","proxy":"https://u:${secret:P}@proxy.example"`,
			"api.example.com:80, proxy.example:443 tls",
		},
		{"the operator's proxy", `"url":"https://api.example.com/x","proxy":"environment"`, "api.example.com:443 tls"},
	} {
		set := Default()
		if err := setting.Decode(
			[]byte(`{`+c.target+`,"headers":{"Authorization":"${secret:A}"},"signing":{"secret":"${secret:K}"}}`),
			"deliver.http", set,
		); err != nil {
			t.Fatal(err)
		}
		if err := set.Check("deliver.http"); err != nil {
			t.Fatal(c.name, err)
		}
		found := map[string]string{}
		for _, use := range set.Uses() {
			var to []string
			for _, h := range use.To {
				text := h.Name + ":" + strconv.Itoa(int(h.Port))
				if h.TLS {
					text += " tls"
				}
				to = append(to, text)
			}
			found[use.Field] = strings.Join(to, ", ")
		}
		for _, field := range []string{"headers.Authorization", "signing.secret", "url"} {
			if found[field] != c.want {
				t.Errorf("%s: %s goes to %q, want %q", c.name, field, found[field], c.want)
			}
		}
		// A proxy's password is for the proxy alone, and what is between is read by all on the way.
		if want := map[bool]string{
			true:  "proxy.example:443 tls",
			false: "proxy.example:" + map[bool]string{true: "3128", false: "80"}[strings.Contains(c.target, "3128")],
		}[strings.Contains(c.target, "https://u:")]; strings.Contains(c.target, "u:") && found["proxy"] != want {
			t.Errorf("%s: the proxy's password goes to %q, want %q", c.name, found["proxy"], want)
		}
	}
}

// Every text of a setting in which a reference is taken is one of its uses: none is resolved that nobody bound.
func TestUsesAreAll(t *testing.T) {
	set := &Target{
		URL: "https://a.example/${secret:U}", Headers: map[string]string{"A": "${secret:H}"},
		Signing: &Signing{Secret: "${secret:S}", Previous: "${secret:V}"},
		TLS:     &TLS{CA: "${secret:C}", Cert: "${secret:E}", Key: "${secret:K}"},
		Proxy:   "https://u:${secret:P}@proxy.example", Method: "POST", Timeout: Default().Timeout,
	}
	if err := set.Check("deliver.http"); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, use := range set.Uses() {
		bound = append(bound, use.Text)
	}
	for _, name := range []string{"U", "H", "S", "V", "C", "E", "K", "P"} {
		reference := "${secret:" + name + "}"
		if !strings.Contains(string(raw), reference) || !slices.ContainsFunc(bound, func(text string) bool {
			return strings.Contains(text, reference)
		}) {
			t.Errorf("%s is bound to nothing", reference)
		}
	}
}
