// Package egress keeps deliveries out of the internal network. Without it, a client that may name targets could reach
// everything near the drainer: a database, a router, or the cloud's metadata with its credentials.
//
// No connection is made to an address that is not public, unless it is allowed. The check is made on each connection,
// after the name was resolved, and on the address itself. So a name that changes its address between check and
// connection gains nothing. No connection is made to the addresses where this process listens, whatever is allowed.
//
// special.go lists the addresses that are not public, translated.go finds addresses inside addresses, and own.go knows
// where this process listens.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Flag is the flag that allows more addresses, for errors.
const Flag = "--egress-allow"

// Loopback allows a machine's own addresses, for trials with a receiver on the same machine.
var Loopback = []string{"127.0.0.0/8", "::1/128"}

// Guard decides which addresses targets may connect to. A nil Guard permits only public addresses.
type Guard struct {
	ranges []netip.Prefix
	names  []string // in lower case; "*.example.com" is kept as ".example.com"
	own    listeners
}

// New returns a Guard that permits public addresses and the allowed items: an address or range (10.0.0.0/8, fd00::1), a
// host name, or all names in a domain (*.internal.example). A name is allowed whatever its address. Cloud metadata is
// allowed only by its exact address.
func New(allow ...string) (*Guard, error) {
	g := new(Guard)
	for _, item := range allow {
		if err := g.allow(strings.TrimSpace(item)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Guard) allow(item string) error {
	if prefix, ok := parsePrefix(item); ok {
		if prefix.Addr().Is4In6() {
			return fmt.Errorf("%q is IPv4 written as IPv6; write it as IPv4", item)
		}
		g.ranges = append(g.ranges, prefix.Masked())
		return nil
	}
	name, all := strings.CutPrefix(plain(item), "*.")
	if !isName(name) {
		return fmt.Errorf(
			"%q must be an address such as 10.0.0.1, a range such as 10.0.0.0/8, or a host name such as "+
				"hooks.internal or *.internal",
			item,
		)
	}
	if all {
		name = "." + name
	}
	g.names = append(g.names, name)
	return nil
}

func parsePrefix(item string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(item); err == nil {
		return prefix, true
	}
	addr, err := netip.ParseAddr(item)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// Check checks a host, a name or address, and a port, 0 if unknown, as far as possible without resolving names. It
// serves to report errors early; Dialer does the actual check. Its error is a *Refused.
func (g *Guard) Check(host string, port uint16) error {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return g.check("", netip.AddrPortFrom(addr, port))
	}
	if name := plain(host); name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761, 6.3
		return g.check(host, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	}
	return nil
}

// Dialer returns a function that dials like d, but only permitted addresses. Other addresses yield an error that wraps
// a *Refused. Control of d is ignored.
func (g *Guard) Dialer(d net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	d.Control = nil
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err == nil {
			host = ""
		}
		d := d // each dial has its own ControlContext
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%s is not a TCP address: %w", address, err)
			}
			return g.check(host, at)
		}
		return d.DialContext(ctx, network, address)
	}
}

// Addresses returns the permitted addresses of a host, a name or address, at a port. It is for connections through a
// proxy, which must be asked for an address and not for the name. If no address is permitted, the error wraps a
// *Refused. A nil resolver means the system's.
func (g *Guard) Addresses(ctx context.Context, r *net.Resolver, host string, port uint16) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, g.check("", netip.AddrPortFrom(addr, port))
	}
	found, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = found[i].Unmap() // a hosts file yields IPv4 written as IPv6, which few proxies accept
	}
	var refused error
	found = slices.DeleteFunc(found, func(addr netip.Addr) bool {
		err := g.check(host, netip.AddrPortFrom(addr, port))
		refused = cmp.Or(refused, err)
		return err != nil
	})
	if len(found) == 0 {
		return nil, refused
	}
	return found, nil
}

// check checks an address, and the name that it was resolved from, if any. Then it checks the addresses inside of it:
// allowing a translator does not allow everything that it reaches.
func (g *Guard) check(host string, at netip.AddrPort) error {
	addr := at.Addr().WithZone("").Unmap() // IPv4 in IPv6 is connected to as IPv4
	if g.listensAt(addr, at.Port()) {
		return &Refused{Host: host, Addr: addr, Own: at.Port()}
	}
	what := special(addr)
	if what != nil && !g.allowed(host, addr, what) {
		return &Refused{Host: host, Addr: addr, Is: what.is, Range: what.prefix}
	}
	for _, inner := range inside(addr, what) {
		err := g.check(host, netip.AddrPortFrom(inner, at.Port()))
		var refused *Refused
		if errors.As(err, &refused) {
			refused.Through = addr
			return refused
		}
	}
	return nil
}

func (g *Guard) allowed(host string, addr netip.Addr, what *block) bool {
	if g == nil {
		return false
	}
	if what.alone {
		return g.has(func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == addr })
	}
	return g.named(host) || g.has(func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (g *Guard) has(p func(netip.Prefix) bool) bool {
	for _, r := range g.ranges {
		if p(r) {
			return true
		}
	}
	return false
}

func (g *Guard) named(host string) bool {
	host = plain(host)
	if host == "" {
		return false
	}
	for _, name := range g.names {
		if host == name || name[0] == '.' && strings.HasSuffix(host, name) {
			return true
		}
	}
	return false
}

// plain returns a name in the form in which names are compared.
func plain(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// IsHost reports whether a text is an address or a valid host name.
func IsHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || isName(plain(text))
}

func isName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return !EndsInNumber(name)
}

// EndsInNumber reports whether a name's last label is a decimal or hexadecimal number. Such names are refused, because
// some resolvers read 2130706433 and 0x7f.1 as addresses (https://url.spec.whatwg.org/#ends-in-a-number-checker).
func EndsInNumber(name string) bool {
	name = plain(name)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if digits, hex := strings.CutPrefix(last, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// IsSpecial reports whether an address is not public, or leads to one that is not.
func IsSpecial(addr netip.Addr) bool {
	return (*Guard)(nil).check("", netip.AddrPortFrom(addr, 0)) != nil
}

// Refused is the error of an address that is not permitted. It says what would allow the address.
type Refused struct {
	Host    string       // the name that was resolved to it; empty if the address was given
	Addr    netip.Addr   // the address
	Through netip.Addr   // the address that contains it, if any
	Is      string       // its kind, such as "a private address"
	Range   netip.Prefix // the range of that kind
	Own     uint16       // the port if this process listens there, which nothing allows
}

func (r *Refused) Error() string {
	text := r.Addr.String()
	if r.Own != 0 {
		text = netip.AddrPortFrom(r.Addr, r.Own).String()
	}
	is := " is "
	if r.Through.IsValid() {
		text, is = r.Through.String()+" leads to "+text, ", which is "
	}
	switch {
	case r.Host != "" && r.Through.IsValid():
		text = r.Host + " is at " + strings.Replace(text, " leads", ", which leads", 1)
	case r.Host != "":
		text, is = r.Host+" is at "+text, ", which is "
	}
	if r.Own != 0 {
		return text + is + "where this process listens; no target may be there, and nothing allows it"
	}
	return text + is + r.Is + "; allow it with " + Flag + " " + r.allow()
}

// allow returns the value of Flag that would allow the address.
func (r *Refused) allow() string {
	allow := r.Range
	if allow.Bits() < 8 { // larger ranges are hardly meant
		allow = netip.PrefixFrom(r.Addr, r.Addr.BitLen())
	}
	if allow.IsSingleIP() {
		return allow.Addr().String()
	}
	return allow.String()
}
