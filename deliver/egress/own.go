package egress

import (
	"net"
	"net/netip"
	"sync"
)

// listeners are where this process listens.
type listeners struct {
	mu sync.RWMutex
	at []netip.AddrPort
}

// Protect keeps every connection from an address where this process listens: who may name a target could otherwise do
// all that can be done there. Addresses that are not of TCP are left alone.
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

// listensAt reports whether a connection to an address would be one to this very process.
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
		// To connect to 0.0.0.0 or :: is to connect to this machine; to listen there is to listen at all of its
		// addresses.
		if addr == own.Addr() || addr.IsUnspecified() || own.Addr().IsUnspecified() && ofThisMachine(addr) {
			return true
		}
	}
	return false
}

// ofThisMachine reports whether an address is one of this machine's, as they are now: they come and go.
func ofThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // nobody can say that it is not
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}
