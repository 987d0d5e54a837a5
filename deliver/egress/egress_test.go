package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func guard(t *testing.T, allow ...string) *Guard {
	t.Helper()
	g, err := New(allow...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Both ends of each range, and what stands right beside it.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		addr string
		is   string // empty: public
	}{
		{"0.0.0.0", "this machine"},
		{"0.255.255.255", "this machine"},
		{"1.0.0.0", ""},
		{"9.255.255.255", ""},
		{"10.0.0.0", "private"},
		{"10.255.255.255", "private"},
		{"11.0.0.0", ""},
		{"100.63.255.255", ""},
		{"100.64.0.0", "CGNAT"},
		{"100.127.255.255", "CGNAT"},
		{"100.128.0.0", ""},
		{"100.100.100.200", "cloud"},
		{"100.100.100.201", "CGNAT"},
		{"126.255.255.255", ""},
		{"127.0.0.0", "loopback"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.255", "loopback"},
		{"128.0.0.0", ""},
		{"169.253.255.255", ""},
		{"169.254.0.0", "link-local"},
		{"169.254.169.254", "cloud"},
		{"169.254.170.2", "cloud"},
		{"169.254.255.255", "link-local"},
		{"169.255.0.0", ""},
		{"168.63.129.15", ""},
		{"168.63.129.16", "cloud"},
		{"172.15.255.255", ""},
		{"172.16.0.0", "private"},
		{"172.31.255.255", "private"},
		{"172.32.0.0", ""},
		{"191.255.255.255", ""},
		{"192.0.0.0", "protocols"},
		{"192.0.0.192", "cloud"},
		{"192.0.0.255", "protocols"},
		{"192.0.1.0", ""},
		{"192.0.2.1", "documentation"},
		{"192.0.3.0", ""},
		{"192.88.98.255", ""},
		{"192.88.99.1", "6to4"},
		{"192.88.100.0", ""},
		{"192.167.255.255", ""},
		{"192.168.0.0", "private"},
		{"192.168.255.255", "private"},
		{"192.169.0.0", ""},
		{"198.17.255.255", ""},
		{"198.18.0.0", "benchmarks"},
		{"198.19.255.255", "benchmarks"},
		{"198.20.0.0", ""},
		{"198.51.100.7", "documentation"},
		{"203.0.113.7", "documentation"},
		{"203.0.114.0", ""},
		{"223.255.255.255", ""},
		{"224.0.0.0", "multicast"},
		{"239.255.255.255", "multicast"},
		{"240.0.0.0", "reserved"},
		{"255.255.255.254", "reserved"},
		{"255.255.255.255", "broadcast"},
		{"8.8.8.8", ""},

		{"::", "this machine"},
		{"::1", "loopback"},
		{"::2", "IPv4 written"},
		{"::127.0.0.1", "IPv4 written"},
		{"::8.8.8.8", "IPv4 written"},
		{"::ffff:169.254.169.254", "cloud"},
		{"::ffff:10.1.2.3", "private"},
		{"::ffff:8.8.8.8", ""},
		{"64:ff9b::8.8.8.8", "NAT64"},
		{"64:ff9b::10.0.0.1", "NAT64"},
		{"64:ff9b:1::1", "NAT64"},
		{"64:ff9b:1:ffff::", "NAT64"},
		{"64:ff9b:2::", "not a global"},
		{"::ffff:0:8.8.8.8", "SIIT"},
		{"100::1", "discards"},
		{"100:0:0:1::1", "not a global"},
		{"1fff:ffff::", "not a global"},
		{"2000::1", ""},
		{"2001::1", "Teredo"},
		{"2001:0:ffff::", "Teredo"},
		{"2001:2::1", "benchmarks"},
		{"2001:20::1", "protocols"},
		{"2001:1ff:ffff::", "protocols"},
		{"2001:200::", ""},
		{"2001:db7:ffff::", ""},
		{"2001:db8::1", "documentation"},
		{"2001:db9::", ""},
		{"2001:ffff::", ""},
		{"2002::1", "6to4"},
		{"2002:a00:1::", "6to4"},
		{"2003::", ""},
		{"2606:4700::1111", ""},
		{"3ffe:ffff::", ""},
		{"3fff::1", "documentation"},
		{"3fff:1000::", ""},
		{"4000::", "not a global"},
		{"5f00::1", "not a global"},
		{"fbff::", "not a global"},
		{"fc00::", "private"},
		{"fd00:ec2::254", "cloud"},
		{"fd00:ec2::255", "private"},
		{"fd20:ce::254", "cloud"},
		{"fdff:ffff::", "private"},
		{"fe80::1", "link-local"},
		{"fe80::1%eth0", "link-local"},
		{"febf::", "link-local"},
		{"fec0::", "private"},
		{"ff02::1", "multicast"},
	} {
		for name, g := range map[string]*Guard{"no guard": nil, "an empty one": guard(t)} {
			err := g.Check(c.addr, 0)
			if (err == nil) != (c.is == "") || err != nil && !strings.Contains(err.Error(), c.is) {
				t.Errorf("%s: %s: %v, want %q", name, c.addr, err, c.is)
			}
		}
	}
}

func TestAllow(t *testing.T) {
	for _, c := range []struct {
		allow   []string
		host    string // the name that was resolved
		addr    string
		allowed bool
	}{
		{[]string{"10.0.0.0/8"}, "", "10.9.9.9", true},
		{[]string{"10.0.0.0/8"}, "", "::ffff:10.9.9.9", true},
		{[]string{"10.0.0.0/8"}, "", "192.168.0.1", false},
		{[]string{"10.1.2.3"}, "", "10.1.2.3", true},
		{[]string{"10.1.2.3"}, "", "10.1.2.4", false},
		{[]string{"10.1.2.3/24"}, "", "10.1.2.200", true},
		{[]string{"fd00::/8"}, "", "fd12::1", true},
		{[]string{"fe80::/10"}, "", "fe80::1%eth0", true},
		{[]string{"hooks.internal"}, "hooks.internal", "10.0.0.1", true},
		{[]string{"Hooks.Internal."}, "HOOKS.internal.", "10.0.0.1", true},
		{[]string{"hooks.internal"}, "a.hooks.internal", "10.0.0.1", false},
		{[]string{"hooks.internal"}, "", "10.0.0.1", false},
		{[]string{"*.internal"}, "a.b.internal", "10.0.0.1", true},
		{[]string{"*.internal"}, "internal", "10.0.0.1", false},
		{[]string{"*.internal"}, "evilinternal", "10.0.0.1", false},
		{[]string{"0.0.0.0/0", "::/0"}, "", "192.168.0.1", true},
		{[]string{"0.0.0.0/0", "::/0"}, "", "ff02::1", true},
		// Metadata is allowed by its address alone.
		{[]string{"0.0.0.0/0", "169.254.0.0/16", "*.internal"}, "metadata.internal", "169.254.169.254", false},
		{[]string{"fd00::/8"}, "", "fd00:ec2::254", false},
		{[]string{"169.254.169.254"}, "", "169.254.169.254", true},
		// A translator is allowed, and not all that it reaches.
		{[]string{"64:ff9b::/96"}, "", "64:ff9b::8.8.8.8", true},
		{[]string{"64:ff9b::/96"}, "", "64:ff9b::10.0.0.1", false},
		{[]string{"64:ff9b::/96", "10.0.0.0/8"}, "", "64:ff9b::10.0.0.1", true},
		{[]string{"64:ff9b::/96"}, "", "64:ff9b::169.254.169.254", false},
		{[]string{"::/0"}, "", "64:ff9b::10.0.0.1", false},
		{[]string{"nat.internal"}, "nat.internal", "64:ff9b::169.254.169.254", false},
		// So are those of a network's own, wherever they put the address (RFC 6052, 2.2): behind 96, 64, 56 and 48 bits.
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1::8.8.8.8", true},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1::10.0.0.1", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1::169.254.169.254", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1:0:a:0:100::", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1:a:0:1::", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1:a00:0:100::", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1:a9fe:a9:fe00::", false},
		{[]string{"64:ff9b:1::/48"}, "", "64:ff9b:1:808:8:800::", true},
		{[]string{"64:ff9b:1::/48", "10.0.0.0/8"}, "", "64:ff9b:1::10.0.0.1", true},
		// And tunnels.
		{[]string{"2002::/16"}, "", "2002:808:808::1", true},
		{[]string{"2002::/16"}, "", "2002:a00:1::1", false},
		{[]string{"2002::/16"}, "", "2002:a9fe:a9fe::1", false},
		{[]string{"2002::/16", "10.0.0.0/8"}, "", "2002:a00:1::1", true},
		{[]string{"2001::/32"}, "", "2001:0:808:808::f7f7:f7f7", true},
		{[]string{"2001::/32"}, "", "2001:0:808:808::f5ff:fffe", false},
		{[]string{"2001::/32"}, "", "2001:0:a00:1::f7f7:f7f7", false},
		{nil, "", "2606:4700::5efe:8.8.8.8", true},
		{nil, "", "2606:4700::5efe:10.0.0.1", false},
		{nil, "", "2606:4700::200:5efe:127.0.0.1", false},
		{[]string{"10.0.0.0/8"}, "", "2606:4700::5efe:10.0.0.1", true},
		{[]string{"fd00::/8"}, "", "fd12::5efe:169.254.169.254", false},
		{[]string{"::/96"}, "", "::8.8.8.8", true},
		{[]string{"::/96"}, "", "::10.0.0.1", false},
		{[]string{"::1"}, "", "::1", true},
		{[]string{"::ffff:0:0:0/96"}, "", "::ffff:0:10.0.0.1", false},
		{[]string{"::ffff:0:0:0/96"}, "", "::ffff:0:8.8.8.8", true},
	} {
		err := guard(t, c.allow...).check(c.host, netip.AddrPortFrom(netip.MustParseAddr(c.addr), 443))
		if (err == nil) != c.allowed {
			t.Errorf("%q allowed, %q at %s: %v", c.allow, c.host, c.addr, err)
		}
	}
}

func TestAllowList(t *testing.T) {
	for _, item := range []string{
		"", " ", "10.0.0.0/33", "10.0.0/8", "2130706433", "0x7f.1", "a..b", "*", "*.", "a.*.b", "*a.b", ".a.b", "a b",
		"http://a", "a:80", "::ffff:10.0.0.0/104", "fe80::1%eth0", "ä.example",
	} {
		if _, err := New(item); err == nil {
			t.Errorf("%q was taken", item)
		}
	}
	for _, item := range []string{
		"10.0.0.0/8", " 10.0.0.1 ", "::1", "::/0", "a", "a-b.example.com", "*.example.com", "a_b.example", "example.com.",
	} {
		if _, err := New(item); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(Loopback...); err != nil {
		t.Error(err)
	}
}

// What a person reads names the setting, and a value for it that helps.
func TestRefused(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1 is a private address; allow it with --egress-allow 10.0.0.0/8",
		"[::1]":    "::1 is a loopback address; allow it with --egress-allow ::1",
		"localhost": "localhost is at 127.0.0.1, which is a loopback address; allow it with --egress-allow " +
			"127.0.0.0/8",
		"api.LocalHost.": "api.LocalHost. is at 127.0.0.1, which is a loopback address; allow it with " +
			"--egress-allow 127.0.0.0/8",
		"::ffff:169.254.169.254": "169.254.169.254 is where a cloud keeps a machine's credentials; allow it with " +
			"--egress-allow 169.254.169.254",
		"fd12::1": "fd12::1 is a private address; allow it with --egress-allow fd12::1",
		"5f00::1": "5f00::1 is not a global address; allow it with --egress-allow 5f00::1",
	} {
		err := guard(t).Check(host, 443)
		var refused *Refused
		if !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%s: %v, want %s", host, err, want)
			continue
		}
		_, item, _ := strings.Cut(want, Flag+" ")
		if err := guard(t, item).Check(host, 443); err != nil {
			t.Errorf("%s: still refused with %s: %v", host, item, err)
		}
	}
	for _, host := range []string{"example.com", "localhost.example.com", "10.0.0.1.example.com"} {
		if err := guard(t).Check(host, 443); err != nil {
			t.Error(err)
		}
	}
}

func TestEndsInNumber(t *testing.T) {
	for name, want := range map[string]bool{
		"2130706433": true, "0x7f.1": true, "127.0x1": true, "127.1": true, "0x": true, "a.0X7F": true, "127.0.0.1": true,
		"127.1.": true,
		"a":      false, "a.b1": false, "1a": false, "0x7g": false, "": false, "1.a": false,
	} {
		if EndsInNumber(name) != want {
			t.Errorf("%q: not %v", name, want)
		}
	}
}
