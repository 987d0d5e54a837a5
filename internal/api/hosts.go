package api

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock/penstock/internal/clip"
)

// maxNameBytes is the longest name that DNS has.
const maxNameBytes = 253

// hosts are the names by which requests may come, besides localhost and IP addresses. A web page can have its own
// name resolved to any address, this one too, and is then in its own eyes of one origin with what listens here: its
// name is what gives it away. An address it cannot take on in that way, so probes and scrapes by address need no
// setting.
//
// Names under localhost are none of those that go by themselves: not every resolver keeps them to the machine.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := hosts{"localhost": true}
	for _, name := range names {
		h[plainName(name)] = true
	}
	return h
}

// plainName is a name as it is compared: names are the same in any case, and with the dot of the root.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// ValidateHost checks a name of --host.
func ValidateHost(name string) error {
	bad := func(why string) error { return fmt.Errorf("--host %q: %s", clip.Quote(name, 80), why) }
	plain := plainName(name)
	switch {
	case plain == "":
		return errors.New("--host is empty: give a name by which requests come, such as penstock.example.com")
	case strings.Contains(plain, "*"):
		return bad("has a *; give each name, for any that somebody else can choose lets web pages in")
	case strings.Contains(plain, "/"):
		return bad("is a URL; give the name alone, such as penstock.example.com")
	case strings.Contains(plain, ":"):
		return bad("has a port, or is an address; give the name alone, it goes for every port, and addresses need no --host")
	case len(plain) > maxNameBytes, strings.Contains(plain, ".."), strings.HasPrefix(plain, "."),
		strings.IndexFunc(plain, notHost) >= 0:
		return bad("is no host name, such as penstock.example.com")
	}
	return nil
}

func notHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// allow reports whether a request may come by a Host. None at all has no browser.
func (h hosts) allow(hostport string) bool {
	if hostport == "" {
		return true
	}
	name, ok := nameOf(hostport)
	if !ok {
		return false
	}
	if name[0] == '[' || name[len(name)-1] >= '0' && name[len(name)-1] <= '9' { // as an address ends, and hardly a name
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
			return strings.Contains(name, ":") == (name[0] == '[')
		}
	}
	return h[name] || h[plainName(name)]
}

// nameOf is a Host without its port.
func nameOf(hostport string) (name string, ok bool) {
	name, port := hostport, ""
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && !strings.HasSuffix(hostport, "]") {
		name, port = hostport[:i], hostport[i+1:]
	}
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	bracketed := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")
	return name, name != "" && (bracketed || !strings.ContainsAny(name, ":[]"))
}
