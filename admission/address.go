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

// KeyFunc returns the key under which a Middleware counts a request. Its error is shown to the client as an error of
// the request.
type KeyFunc func(*http.Request) (string, error)

// OneKey counts all requests together, for rules without a key.
func OneKey() KeyFunc {
	return func(*http.Request) (string, error) { return "", nil }
}

// HeaderKey counts requests by the value of a header. Clients must not be able to choose it freely: use a verified API
// key, for example. Requests without the header are refused. Host means the host of the request, wherever its sender
// put it.
func HeaderKey(name string) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[name]
		if name == "Host" { // net/http removes it from the headers
			values = []string{r.Host}
		}
		switch {
		case len(values) == 0 || values[0] == "":
			return "", &invalid.Error{Field: "header." + name, Reason: "is missing or empty, but requests are counted by it"}
		case len(values) > 1:
			return "", &invalid.Error{Field: "header." + name, Reason: "is given more than once"}
		}
		return values[0], rules.ValidateKey("header."+name, values[0])
	}
}

// AddressOptions configures ClientAddress. Zero fields mean the documented defaults.
type AddressOptions struct {
	// Proxies are the networks of the trusted proxies in front: only what they add to X-Forwarded-For counts. Without
	// proxies the header is ignored.
	Proxies []netip.Prefix
	// IPv6Bits is the length of the prefix of an IPv6 address that forms the key, 1 to 128. The default is 64: a
	// client usually has at least that network, and could use a new address for every request.
	IPv6Bits int
}

// ClientAddress counts requests by the address of the client, which is the peer of the connection. If the peer is a
// proxy, X-Forwarded-For is read from its end, up to the first address that is not a proxy. Everything before it could
// be forged and is not read. If a proxy added something that is not an address, the proxy itself counts as the client.
func ClientAddress(o AddressOptions) KeyFunc {
	if o.IPv6Bits < 1 || o.IPv6Bits > 128 {
		o.IPv6Bits = 64
	}
	return func(r *http.Request) (string, error) {
		at, ok := address(r.RemoteAddr)
		if !ok {
			return "", &invalid.Error{
				Field: "remote address", Value: clip.Quote(r.RemoteAddr, 80),
				Reason: "is not an address, but requests are counted by it",
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

// client reads the header from its end, as long as the address before is a proxy.
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

// address parses an address with or without a port. IPv4 addresses in IPv6 form are converted, and zones are dropped.
func address(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	at, err := netip.ParseAddr(s)
	return at.Unmap().WithZone(""), err == nil
}
