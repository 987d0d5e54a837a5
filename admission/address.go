package admission

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// KeyFunc returns the key under which a Middleware counts a request. Its error is shown to the client, as what is wrong
// with the request.
type KeyFunc func(*http.Request) (string, error)

// OneKey counts all requests together, for rules without a key.
func OneKey() KeyFunc {
	return func(*http.Request) (string, error) { return "", nil }
}

// HeaderKey counts requests by the value of a header. Clients must not be able to choose it freely: use an API key that
// was checked, for instance. A request without the header is refused. Host is that of the request, wherever its sender
// wrote it.
func HeaderKey(name string) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[name]
		if name == "Host" { // net/http takes it out of the headers
			values = []string{r.Host}
		}
		switch {
		case len(values) == 0 || values[0] == "":
			return "", &invalid.Error{Field: "header." + name, Reason: "is missing or empty, and requests are counted by it"}
		case len(values) > 1:
			return "", &invalid.Error{Field: "header." + name, Reason: "is given more than once"}
		}
		return values[0], rules.ValidateKey("header."+name, values[0])
	}
}

// AddressOptions say whom ClientAddress believes. Zero fields mean what is said beside them.
type AddressOptions struct {
	// Proxies are the networks of the proxies in front: only what they say in X-Forwarded-For counts. None: the header
	// does not.
	Proxies []netip.Prefix
	// IPv6Bits is how much of an IPv6 address is the key, 1 to 128: 64, because whoever has one has at least that network,
	// and could take a new address for every request.
	IPv6Bits int
}

// ClientAddress counts requests by the address of the client. That is the peer of the connection. If the peer is one of
// the proxies, it is whom the proxy names in X-Forwarded-For, read from its end: the first address that is no proxy.
// Anybody may have written what stands before that, and it is not read. Where a proxy wrote something that is no
// address, the proxy itself counts as the client.
func ClientAddress(o AddressOptions) KeyFunc {
	if o.IPv6Bits < 1 || o.IPv6Bits > 128 {
		o.IPv6Bits = 64
	}
	return func(r *http.Request) (string, error) {
		at, ok := address(r.RemoteAddr)
		if !ok {
			return "", &invalid.Error{
				Field: "remote address", Value: clip.Quote(r.RemoteAddr, 80), Reason: "is none, and requests are counted by it",
			}
		}
		at = o.client(at, r.Header["X-Forwarded-For"])
		if at.Is6() {
			network, err := at.Prefix(o.IPv6Bits)
			return network.String(), err
		}
		return at.String(), nil
	}
}

// client follows the header from its end, as long as a proxy tells it.
func (o *AddressOptions) client(at netip.Addr, lines []string) netip.Addr {
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; ; {
			comma := strings.LastIndexByte(line, ',')
			if !o.proxy(at) {
				return at
			}
			before, ok := address(strings.TrimSpace(line[comma+1:]))
			if !ok {
				return at
			}
			at = before
			if comma < 0 {
				break
			}
			line = line[:comma]
		}
	}
	return at
}

func (o *AddressOptions) proxy(at netip.Addr) bool {
	for _, p := range o.Proxies {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

// address reads one with or without a port. An IPv4 address that is written as an IPv6 one is that IPv4 address, and a
// zone is nobody's key.
func address(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	at, err := netip.ParseAddr(s)
	return at.Unmap().WithZone(""), err == nil
}
