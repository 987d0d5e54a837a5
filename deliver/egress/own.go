package egress

import (
	"net"
	"net/netip"
	"sync"
)

// listeners are the addresses where this process listens.
type listeners struct {
	mu sync.RWMutex
	at []netip.AddrPort
}

// Protect refuses all connections to an address where this process listens. Otherwise a client that may name targets
// could use this process's own API. Addresses other than TCP are ignored.
func (g *Guard) Protect(listener net.Addr) {
	tcp, ok := listener.(*net.TCPAddr)
	if !ok {
		return
	}
	at := tcp.AddrPort()
	g.own.mu.Lock()
	defer g.own.mu.Unlock()
	g.own.at = append(g.own.at, netip.AddrPortFrom(at.Addr().WithZone("").Unmap(), at.Port()))
}

// listensAt reports whether a connection to an address would reach this process.
func (g *Guard) listensAt(addr netip.Addr, port uint16) bool {
	if g == nil {
		return false
	}
	g.own.mu.RLock()
	defer g.own.mu.RUnlock()
	for _, own := range g.own.at {
		if own.Port() != port {
			continue
		}
		// Connecting to 0.0.0.0 or :: reaches this machine; listening there means all of its addresses.
		if addr == own.Addr() || addr.IsUnspecified() || own.Addr().IsUnspecified() && ofThisMachine(addr) {
			return true
		}
	}
	return false
}

// ofThisMachine reports whether an address belongs to this machine now. Addresses come and go.
func ofThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // it may be
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}
