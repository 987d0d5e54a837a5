package egress

import "net/netip"

// inside returns the IPv4 addresses that an IPv6 address has inside of it, to one of which a packet would be carried
// on by a translator or a tunnel. what is the block that it is in, nil if it is public.
func inside(addr netip.Addr, what *block) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	var found []netip.Addr
	if what != nil && what.inside != nil {
		found = what.inside(b)
	}
	if isISATAP(b) { // in any network, public ones too
		found = append(found, v4(b[12:]))
	}
	return found
}

func v4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// isISATAP goes by the interface's identifier (RFC 5214, 6.1).
func isISATAP(b [16]byte) bool {
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// atEnd is where RFC 6052, 2.2 has the address behind a prefix of 96 bits, as the well-known one of NAT64 is.
func atEnd(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[12:])} }

// anywhere are all places where RFC 6052, 2.2 has the address behind a prefix of 48 to 96 bits: what length it has
// only the translator knows, so all are judged. What begins with 0 is no address that packets are carried to, but the
// zeros that fill up one of another length.
func anywhere(b [16]byte) (found []netip.Addr) {
	for _, place := range [][]byte{
		{b[6], b[7], b[9], b[10]},   // behind 48
		{b[7], b[9], b[10], b[11]},  // 56
		{b[9], b[10], b[11], b[12]}, // 64
		b[12:],                      // 96
	} {
		if place[0] != 0 {
			found = append(found, v4(place))
		}
	}
	return found
}

// of6to4 is RFC 3056, 2.
func of6to4(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[2:6])} }

// ofTeredo are the server's and, with all bits turned, the client's (RFC 4380, 4).
func ofTeredo(b [16]byte) []netip.Addr {
	return []netip.Addr{v4(b[4:8]), v4([]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
}
