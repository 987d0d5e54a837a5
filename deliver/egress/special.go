package egress

import "net/netip"

// block is a range of addresses that are not public.
type block struct {
	prefix netip.Prefix
	is     string
	alone  bool                        // only the exact address allows it, not a range or name
	inside func([16]byte) []netip.Addr // the IPv4 addresses that an address leads to; may be nil
}

// blocks are the blocks of IANA's registries that are not globally reachable, or lead elsewhere:
//
//	https://www.iana.org/assignments/iana-ipv4-special-registry
//	https://www.iana.org/assignments/iana-ipv6-special-registry
//	https://www.iana.org/assignments/multicast-addresses
//
// They come after the metadata addresses of clouds. The first block that contains an address counts.
var blocks = []block{
	metadata("169.254.169.254"), // AWS, Azure, Google, Oracle, DigitalOcean, OpenStack
	metadata("169.254.170.2"),   // AWS: the credentials of a container
	metadata("169.254.170.23"),  // AWS: the credentials of a pod
	metadata("fd00:ec2::254"),   // AWS
	metadata("fd00:ec2::23"),    // AWS: the credentials of a pod
	metadata("fd20:ce::254"),    // Google
	metadata("100.100.100.200"), // Alibaba
	metadata("168.63.129.16"),   // Azure: the host; a public address by its number
	metadata("192.0.0.192"),     // Oracle

	reserved("0.0.0.0/8", "an address of this machine"),                         // RFC 791, 3.2
	reserved("10.0.0.0/8", "a private address"),                                 // RFC 1918
	reserved("100.64.0.0/10", "an address inside a provider's network (CGNAT)"), // RFC 6598
	reserved("127.0.0.0/8", "a loopback address"),                               // RFC 1122, 3.2.1.3
	reserved("169.254.0.0/16", "a link-local address"),                          // RFC 3927
	reserved("172.16.0.0/12", "a private address"),                              // RFC 1918
	reserved("192.0.0.0/24", "an address of protocols"),                         // RFC 6890, 2.1
	reserved("192.0.2.0/24", "an address for documentation"),                    // RFC 5737
	reserved("192.88.99.0/24", "a 6to4 relay"),                                  // RFC 7526
	reserved("192.168.0.0/16", "a private address"),                             // RFC 1918
	reserved("198.18.0.0/15", "an address for benchmarks"),                      // RFC 2544
	reserved("198.51.100.0/24", "an address for documentation"),                 // RFC 5737
	reserved("203.0.113.0/24", "an address for documentation"),                  // RFC 5737
	reserved("224.0.0.0/4", "a multicast address"),                              // RFC 5771
	reserved("255.255.255.255/32", "the broadcast address"),                     // RFC 8190
	reserved("240.0.0.0/4", "a reserved address"),                               // RFC 1112, 4
	reserved("::1/128", "a loopback address"),                                   // RFC 4291
	reserved("::/128", "an address of this machine"),                            // RFC 4291
	leads("::/96", "IPv4 written as IPv6", atEnd),                               // RFC 4291, 2.5.5.1
	leads("::ffff:0:0/96", "IPv4 written as IPv6", atEnd),                       // RFC 4291; Unmap is before
	leads("::ffff:0:0:0/96", "IPv4 behind a translator (SIIT)", atEnd),          // RFC 2765, 2.1
	leads("64:ff9b::/96", "IPv4 behind a translator (NAT64)", atEnd),            // RFC 6052
	leads("64:ff9b:1::/48", "IPv4 behind a translator (NAT64)", anywhere),       // RFC 8215
	reserved("100::/64", "an address that discards"),                            // RFC 6666
	leads("2001::/32", "IPv4 inside IPv6 (Teredo)", ofTeredo),                   // RFC 4380
	reserved("2001:2::/48", "an address for benchmarks"),                        // RFC 5180
	reserved("2001::/23", "an address of protocols"),                            // RFC 2928
	reserved("2001:db8::/32", "an address for documentation"),                   // RFC 3849
	leads("2002::/16", "IPv4 inside IPv6 (6to4)", of6to4),                       // RFC 3056
	reserved("3fff::/20", "an address for documentation"),                       // RFC 9637
	reserved("fc00::/7", "a private address"),                                   // RFC 4193
	reserved("fe80::/10", "a link-local address"),                               // RFC 4291
	reserved("fec0::/10", "a private address"),                                  // RFC 3879
	reserved("ff00::/8", "a multicast address"),                                 // RFC 4291, 2.7
}

// globalIPv6 is the only range assigned to global unicast (RFC 4291, 2.4; the registry ipv6-address-space).
var globalIPv6 = netip.MustParsePrefix("2000::/3")

func metadata(addr string) block {
	a := netip.MustParseAddr(addr)
	return block{netip.PrefixFrom(a, a.BitLen()), "where a cloud keeps a machine's credentials", true, nil}
}

func reserved(prefix, is string) block { return block{netip.MustParsePrefix(prefix), is, false, nil} }

func leads(prefix, is string, inside func([16]byte) []netip.Addr) block {
	return block{netip.MustParsePrefix(prefix), is, false, inside}
}

// special returns the block of an address, nil if the address is public.
func special(addr netip.Addr) *block {
	for i := range blocks {
		if blocks[i].prefix.Contains(addr) {
			return &blocks[i]
		}
	}
	if addr.Is6() && !globalIPv6.Contains(addr) {
		return &block{netip.PrefixFrom(addr, addr.BitLen()), "not a global address", false, nil}
	}
	return nil
}
