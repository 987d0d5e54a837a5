package admission

import (
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue/rules"
)

// FuzzClientAddress checks that only the peer, or the client that a proxy names, is counted, no matter what precedes
// the proxies' entries.
func FuzzClientAddress(f *testing.F) {
	for _, s := range []string{
		"198.51.100.7", "a, 10.9.9.9", "[::ffff:10.0.0.1]:80", "fd00::1%eth0, ", ",,10.1.1.1:x", "\x00", "0x7f.1",
		"010.0.0.1",
	} {
		f.Add("10.1.1.1:80", s, "10.2.2.2")
		f.Add("[fd00::1]:1", "203.0.113.9", s)
		f.Add(s, s, s)
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	ask := func(remote string, lines ...string) (string, error) {
		return ClientAddress(AddressOptions{Proxies: proxies, IPv6Bits: 128})(&http.Request{
			RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": lines},
		})
	}
	f.Fuzz(func(t *testing.T, remote, first, second string) {
		got, err := ask(remote, first, second)
		alone, aloneErr := ask(remote)
		if (err == nil) != (aloneErr == nil) {
			t.Fatalf("%v, but %v without the header", err, aloneErr)
		}
		if err != nil {
			return
		}
		if rules.ValidateKey("key", got) != nil || netip.MustParsePrefix(prefixed(got)).Addr().Zone() != "" {
			t.Fatalf("the key %q", got)
		}
		if joined, err := ask(remote, first+","+second); err != nil || joined != got {
			t.Fatalf("%q in two lines, %q in one, %v", got, joined, err)
		}
		if !trusted(proxies, alone) && got != alone {
			t.Fatalf("%q is believed, who is no proxy; %q is connected", got, alone)
		}
		forged, err := ask(remote, "203.0.113.77", first, second)
		if err != nil || forged != got && !trusted(proxies, got) {
			t.Fatalf("%q, but %q with a forged address before, %v", got, forged, err)
		}
		// Who a proxy was asked by, and is none, ends it.
		if ended, err := ask("10.1.1.1:1", first, second, "198.51.100.7, 10.2.2.2"); err != nil || ended != "198.51.100.7" {
			t.Fatalf("%q, %v", ended, err)
		}
	})
}

func prefixed(key string) string {
	if strings.Contains(key, "/") {
		return key
	}
	return key + "/32"
}

func trusted(proxies []netip.Prefix, key string) bool {
	at := netip.MustParsePrefix(prefixed(key)).Addr()
	for _, p := range proxies {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

var (
	policyField = regexp.MustCompile(`^"[a-z0-9._-]+";q=[0-9]{1,15}(;qu="concurrent-requests"|;w=[0-9]{1,15})?$`)
	limitField  = regexp.MustCompile(`^"[a-z0-9._-]+";r=[0-9]{1,15}(;t=[0-9]{1,15})?$`)
)

// FuzzSetFields checks that for all numbers the fields are valid lists of RFC 9651, and never promise too early.
func FuzzSetFields(f *testing.F) {
	f.Add(int64(100), int64(99), int64(time.Minute), int64(1), false)
	f.Add(int64(-1), int64(1)<<62, int64(-1), int64(1)<<62, true)
	f.Add(int64(1), int64(0), int64(math.MaxInt64), int64(math.MaxInt64), false)
	f.Fuzz(func(t *testing.T, limit, remaining, window, more int64, atOnce bool) {
		q := Quota{
			Rule: "api.calls", Limit: limit, Remaining: remaining, Window: time.Duration(window), More: time.Duration(more),
			AtOnce: atOnce,
		}
		h := http.Header{}
		SetFields(h, []Quota{q, q})
		policies, limits := strings.Split(h.Get("RateLimit-Policy"), ", "), strings.Split(h.Get("RateLimit"), ", ")
		if len(policies) != 2 || len(limits) != 2 || !policyField.MatchString(policies[1]) ||
			!limitField.MatchString(limits[1]) {
			t.Fatalf("%q, %q", policies, limits)
		}
		if s := Seconds(q.More); s < 0 || q.More > 0 && float64(s) < q.More.Seconds()-1e-6 {
			t.Errorf("%d s for %v", s, q.More)
		}
	})
}
