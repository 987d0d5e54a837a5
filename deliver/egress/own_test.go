package egress

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

var everything = []string{"0.0.0.0/0", "::/0", "*.test", "localhost"}

// Where this process listens nothing connects to, whatever is allowed.
func TestProtect(t *testing.T) {
	for _, c := range []struct {
		listens string
		own     []string
		other   []string
	}{
		{
			"127.0.0.1:8080",
			[]string{
				"127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", "0.0.0.0:8080", "[::]:8080", "[64:ff9b::127.0.0.1]:8080",
				"[2002:7f00:1::]:8080",
			},
			[]string{"127.0.0.1:8081", "127.0.0.2:8080", "10.0.0.1:8080", "[::1]:8080"},
		},
		{"[::1]:8080", []string{"[::1]:8080", "[::]:8080"}, []string{"127.0.0.1:8080", "[::1]:80"}},
		{
			"0.0.0.0:8080",
			[]string{"127.0.0.1:8080", "127.9.9.9:8080", "[::1]:8080", "0.0.0.0:8080"},
			[]string{"127.0.0.1:8081", "192.0.2.1:8080"},
		},
		{"[::]:8080", []string{"127.0.0.1:8080", "[::1]:8080"}, []string{"127.0.0.1:80"}},
		{"[fe80::1%eth0]:8080", []string{"[fe80::1]:8080", "[fe80::1%eth1]:8080"}, []string{"[fe80::2]:8080"}},
	} {
		g := guard(t, everything...)
		g.Protect(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.listens)))
		for _, at := range c.own {
			err := g.check("", netip.MustParseAddrPort(at))
			var refused *Refused
			if !errors.As(err, &refused) || refused.Own != 8080 || !strings.Contains(err.Error(), "this process listens") {
				t.Errorf("listening at %s, %s: %v", c.listens, at, err)
			}
		}
		for _, at := range c.other {
			if err := g.check("", netip.MustParseAddrPort(at)); err != nil {
				t.Errorf("listening at %s, %s: %v", c.listens, at, err)
			}
		}
	}
}

// All addresses of the machine are its own where it listens at all of them.
func TestProtectInterfaces(t *testing.T) {
	g := guard(t, everything...)
	g.Protect(&net.TCPAddr{IP: net.IPv6unspecified, Port: 8080})
	all, err := net.InterfaceAddrs()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, a := range all {
		addr := netip.MustParsePrefix(a.String()).Addr()
		if err := g.check("", netip.AddrPortFrom(addr, 8080)); err == nil {
			t.Errorf("%s is not refused", addr)
		}
	}
}

// A name that was looked up is judged by where it is, with the port; a proxy is asked for nothing else either.
func TestProtectNames(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	r := resolver(t, func(string) string { return "127.0.0.1" })
	for _, protected := range []bool{false, true} {
		g := guard(t, everything...)
		if protected {
			g.Protect(l.Addr())
		}
		c, err := g.Dialer(net.Dialer{Resolver: r})(t.Context(), "tcp4", "own.test:"+port)
		if c != nil {
			_ = c.Close()
		}
		_, asked := g.Addresses(t.Context(), r, "own.test", uint16(l.Addr().(*net.TCPAddr).Port))
		early := g.Check("LocalHost.", uint16(l.Addr().(*net.TCPAddr).Port))
		for _, err := range []error{err, asked, early} {
			var refused *Refused
			if errors.As(err, &refused) != protected || !protected && err != nil {
				t.Errorf("protected is %v: %v", protected, err)
			}
		}
	}
}

// Who hears of an address that another one leads to is told of both.
func TestRefusedThrough(t *testing.T) {
	err := guard(t, "64:ff9b::/96").Check("64:ff9b::10.0.0.1", 443)
	if err == nil || err.Error() != "64:ff9b::a00:1 leads to 10.0.0.1, which is a private address; allow it with "+
		"--egress-allow 10.0.0.0/8" {
		t.Error(err)
	}
}
