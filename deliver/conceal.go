package deliver

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/setting"
)

// Errors of package net about connections and names, and texts that may be an address.
var (
	connecting = regexp.MustCompile(`\b(dial|read|write|proxyconnect) (tcp|udp)[46]? [^ ]*[0-9a-f:.\]]+: `)
	lookingUp  = regexp.MustCompile(`\blookup ([^ :]+)(?: on [^ ]+)?: `)
	shaking    = regexp.MustCompile(`(?s)TLS handshake with ([^ ]+): .*`)
	addressed  = regexp.MustCompile(`[0-9a-fA-F.:]*[.:][0-9a-fA-F.:]*`)
)

const (
	internalAddress = "an internal address"
	internalName    = "an internal name"
)

// conceal hides the operator's network in an error shown to an app: internal addresses, local ends of connections, DNS
// servers, and the name and certificate of a proxy. Hosts that the target itself names remain.
func conceal(err error, s setting.Setting) error {
	var own []string
	if hosted, ok := s.(setting.Hosted); ok {
		for _, host := range hosted.Hosts() {
			own = append(own, strings.ToLower(strings.Trim(host.Name, "[].")))
		}
	}
	shown := func(name string) string {
		if slices.Contains(own, strings.ToLower(strings.Trim(name, "[]."))) {
			return name
		}
		return internalName
	}
	return httptarget.Veil(err, func(text string) string {
		var refused *egress.Refused
		if errors.As(err, &refused) && !slices.Contains(own, refused.Addr.String()) {
			text = strings.ReplaceAll(text, refused.Error(), shown(refused.Host)+" is at "+internalAddress+
				", to which targets may connect only if the operator allows it")
		}
		text = connecting.ReplaceAllString(text, "$1 $2: ")
		text = lookingUp.ReplaceAllStringFunc(text, func(found string) string {
			return "lookup " + shown(lookingUp.FindStringSubmatch(found)[1]) + ": "
		})
		text = shaking.ReplaceAllStringFunc(text, func(found string) string {
			address := shaking.FindStringSubmatch(found)[1]
			name, _, err := net.SplitHostPort(address)
			if err != nil {
				name = address
			}
			if shown(name) == internalName { // the rest may describe its certificate
				return "TLS handshake with " + internalName + " failed"
			}
			return found
		})
		return addressed.ReplaceAllStringFunc(text, func(found string) string {
			addr, begin, end := addressIn(found)
			if !addr.IsValid() || !egress.IsSpecial(addr) || slices.Contains(own, addr.String()) {
				return found
			}
			return found[:begin] + internalAddress + found[end:]
		})
	})
}

// addressIn returns the first address in a text. A port or the end of a sentence may follow it.
func addressIn(text string) (addr netip.Addr, begin, end int) {
	for begin = 0; ; begin++ {
		for end = len(text); end > begin; end = strings.LastIndexAny(text[:end], ".:") {
			if addr, err := netip.ParseAddr(text[begin:end]); err == nil {
				return addr, begin, end
			}
		}
		next := strings.IndexByte(text[begin:], ':')
		if next < 0 {
			return netip.Addr{}, 0, 0
		}
		begin += next
	}
}
