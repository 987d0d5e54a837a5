package admission

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		bits    int
		remote  string
		header  []string
		want    string
	}{
		"direct":                        {nil, 0, "192.0.2.1:1234", nil, "192.0.2.1"},
		"forged, and nobody is trusted": {nil, 0, "192.0.2.1:1234", []string{"198.51.100.7"}, "192.0.2.1"},
		"forged, by no proxy":           {proxies, 0, "192.0.2.1:1234", []string{"198.51.100.7"}, "192.0.2.1"},
		"by a proxy":                    {proxies, 0, "10.1.1.1:1", []string{"198.51.100.7"}, "198.51.100.7"},
		"forged in front of a proxy": {
			proxies, 0, "10.1.1.1:1", []string{"203.0.113.9, 10.9.9.9, 198.51.100.7"}, "198.51.100.7",
		},
		"by two proxies": {
			proxies, 0, "10.1.1.1:1", []string{"203.0.113.9,198.51.100.7,  10.2.2.2"}, "198.51.100.7",
		},
		"in two lines": {
			proxies, 0, "10.1.1.1:1", []string{"203.0.113.9, 198.51.100.7", "10.2.2.2"}, "198.51.100.7",
		},
		"a forged line before": {proxies, 0, "10.1.1.1:1", []string{"10.2.2.2", "198.51.100.7"}, "198.51.100.7"},
		"proxies alone":        {proxies, 0, "10.1.1.1:1", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		"no address":           {proxies, 0, "10.1.1.1:1", []string{"198.51.100.7, unknown"}, "10.1.1.1"},
		"no address behind a proxy": {
			proxies, 0, "10.1.1.1:1", []string{"198.51.100.7, <script>, 10.2.2.2"}, "10.2.2.2",
		},
		"empty":       {proxies, 0, "10.1.1.1:1", []string{""}, "10.1.1.1"},
		"no header":   {proxies, 0, "10.1.1.1:1", nil, "10.1.1.1"},
		"with a port": {proxies, 0, "10.1.1.1:1", []string{"198.51.100.7:5555"}, "198.51.100.7"},
		"of IPv6": {
			proxies, 0, "[fd00::1]:1", []string{"2001:db8:1:2:aaaa::1"}, "2001:db8:1:2::/64",
		},
		"of the same network": {
			proxies, 0, "[fd00::1]:1", []string{"[2001:db8:1:2:bbbb::2]:443"}, "2001:db8:1:2::/64",
		},
		"of IPv6 with a zone":     {nil, 0, "[fe80::1%eth0]:1", nil, "fe80::/64"},
		"of a narrower network":   {nil, 128, "[2001:db8::1]:1", nil, "2001:db8::1/128"},
		"of a wider network":      {nil, 48, "[2001:db8:1:2::1]:1", nil, "2001:db8:1::/48"},
		"of IPv4 written as IPv6": {nil, 0, "[::ffff:192.0.2.1]:1", nil, "192.0.2.1"},
		"by a proxy written as IPv6": {
			proxies, 0, "[::ffff:10.1.1.1]:1", []string{"::ffff:198.51.100.7"}, "198.51.100.7",
		},
		"a socket that has no address":     {nil, 0, "@", nil, ""},
		"a very long header of no meaning": {proxies, 0, "10.1.1.1:1", []string{string(make([]byte, 1<<16))}, "10.1.1.1"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.header}}
		got, err := ClientAddress(AddressOptions{Proxies: c.trusted, IPv6Bits: c.bits})(r)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestHeaderKey(t *testing.T) {
	key := HeaderKey("x-api-key")
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"abc"}, "abc"},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{string(make([]byte, 2000))}, ""},
	} {
		got, err := key(&http.Request{Header: http.Header{"X-Api-Key": c.values}})
		if (err == nil) != (c.want != "") || c.want != "" && got != c.want {
			t.Errorf("%.20q: %.20q, %v", c.values, got, err)
		}
	}
}

// net/http keeps the host of a request apart from its headers.
func TestHeaderKeyOfHost(t *testing.T) {
	for host, want := range map[string]string{"shop.example.com": "shop.example.com", "": ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if got, err := HeaderKey("host")(r); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", host, got, err)
		}
	}
}
