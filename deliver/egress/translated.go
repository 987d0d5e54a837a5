package egress

import "net/netip"

// inside returns the IPv4 addresses inside an IPv6 address, to which a translator or tunnel may forward packets. what
// is the block of the address, nil if it is public.
func inside(addr netip.Addr, what *block) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	var found []netip.Addr
	if what != nil && what.inside != nil {
		found = what.inside(b)
	}
	if isISATAP(b) { // in any network, even public
		found = append(found, v4(b[12:]))
	}
	return found
}

func v4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// isISATAP checks the interface identifier (RFC 5214, 6.1).
func isISATAP(b [16]byte) bool {
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// atEnd returns the address behind a prefix of 96 bits (RFC 6052, 2.2), such as the well-known prefix of NAT64.
func atEnd(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[12:])} }

// anywhere returns the addresses at all places of RFC 6052, 2.2, behind prefixes of 48 to 96 bits: only the translator
// knows the length of its prefix. A place that begins with 0 is skipped; it is the padding of an address elsewhere.
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

// of6to4 returns the address inside a 6to4 address (RFC 3056, 2).
func of6to4(b [16]byte) []netip.Addr { return []netip.Addr{v4(b[2:6])} }

// ofTeredo returns the address of the server and, with inverted bits, of the client (RFC 4380, 4).
func ofTeredo(b [16]byte) []netip.Addr {
	return []netip.Addr{v4(b[4:8]), v4([]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
}
