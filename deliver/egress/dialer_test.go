package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// A connection is checked by the address that it goes to.
func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		allow   []string
		host    string
		refused bool
	}{
		{nil, "127.0.0.1", true},
		{nil, "::ffff:127.0.0.1", true},
		{nil, "0.0.0.0", true}, // Linux connects to itself
		{nil, "localhost", true},
		{nil, "private.test", true},
		{[]string{"192.168.0.0/16"}, "private.test", true},
		{[]string{"private.test"}, "private.test", false},
		{[]string{"*.test"}, "private.test", false},
		{[]string{"127.0.0.0/8"}, "private.test", false},
		{[]string{"127.0.0.0/8"}, "::ffff:127.0.0.1", false},
	} {
		dial := guard(t, c.allow...).Dialer(net.Dialer{Timeout: 10 * time.Second, Resolver: resolver(
			t, func(string) string { return "127.0.0.1" },
		)})
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort(c.host, port))
		if conn != nil {
			_ = conn.Close()
		}
		var refused *Refused
		if errors.As(err, &refused) != c.refused || !c.refused && err != nil {
			t.Errorf("%s with %q allowed: %v", c.host, c.allow, err)
		}
		if c.refused && c.host == "private.test" && refused.Host != c.host {
			t.Errorf("the refusal does not name the host: %v", err)
		}
	}
}

// A name that resolves to a public address when it is looked at, and to a private one when it is dialled.
func TestRebinding(t *testing.T) {
	answers := []string{"8.8.8.8", "127.0.0.1"}
	r := resolver(t, func(string) string {
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return a
	})
	first, err := r.LookupNetIP(t.Context(), "ip4", "rebind.test")
	if err != nil || len(first) != 1 || guard(t).Check(first[0].String(), 80) != nil {
		t.Fatal(first, err)
	}
	_, err = guard(t).Dialer(net.Dialer{Timeout: 10 * time.Second, Resolver: r})(t.Context(), "tcp4", "rebind.test:80")
	var refused *Refused
	if !errors.As(err, &refused) || refused.Addr.String() != "127.0.0.1" {
		t.Errorf("connected, or not for this reason: %v", err)
	}
}

// Who has somebody else connect is told the addresses that may be, and never a name.
func TestAddressesOfAHost(t *testing.T) {
	r := resolver(t, func(name string) string {
		if strings.TrimSuffix(name, ".") == "inside.test" {
			return "10.1.2.3"
		}
		return "8.8.8.8"
	})
	for _, c := range []struct {
		host, want string // empty: refused
		allow      []string
	}{
		{"outside.test", "8.8.8.8", nil},
		{"inside.test", "", nil},
		{"inside.test", "10.1.2.3", []string{"10.0.0.0/8"}},
		{"inside.test", "10.1.2.3", []string{"inside.test"}},
		{"8.8.4.4", "8.8.4.4", nil},
		{"::ffff:8.8.4.4", "8.8.4.4", nil},
		{"::ffff:127.0.0.1", "", nil},
		{"169.254.169.254", "", []string{"169.254.0.0/16"}},
	} {
		got, err := guard(t, c.allow...).Addresses(t.Context(), r, c.host, 443)
		var refused *Refused
		switch {
		case c.want == "" && !errors.As(err, &refused):
			t.Errorf("%s: %v, %v, want it refused", c.host, got, err)
		case c.want != "" && (err != nil || len(got) != 1 || got[0].String() != c.want):
			t.Errorf("%s: %v, %v, want %s", c.host, got, err, c.want)
		}
	}
	// From a hosts file.
	if got, err := guard(t, Loopback...).Addresses(t.Context(), nil, "localhost", 443); err != nil ||
		slices.ContainsFunc(got, netip.Addr.Is4In6) {
		t.Errorf("localhost: %v, %v, want IPv4 as it is written", got, err)
	}
}

// Numbers are resolved to an address by some resolvers and to none by others; neither gets in.
func TestNumbers(t *testing.T) {
	for _, host := range []string{"2130706433", "0x7f.1", "0177.1", "127.1"} {
		conn, err := guard(t).Dialer(net.Dialer{Timeout: 10 * time.Second})(t.Context(), "tcp", net.JoinHostPort(host, "9"))
		var refused *Refused
		var none *net.DNSError
		if conn != nil || !errors.As(err, &refused) && !errors.As(err, &none) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// resolver asks a name server that answers each question for an IPv4 address with what answer says.
func resolver(t *testing.T, answer func(name string) string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = server.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(reply(b[:n], answer), from)
		}
	}()
	return &net.Resolver{
		PreferGo: true, StrictErrors: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}
}

// reply answers a question of the DNS (RFC 1035, 4): of type A with an address, of any other with nothing.
func reply(query []byte, answer func(string) string) []byte {
	end := 12
	var labels []string
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	end++
	kind := binary.BigEndian.Uint16(query[end:])
	r := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end+4]...)
	if kind == 1 {
		r[7] = 1
		r = append(r, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name, A, IN, TTL 0, 4 bytes
		r = append(r, netip.MustParseAddr(answer(strings.Join(labels, "."))).AsSlice()...)
	}
	return r
}
