package httpio

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
)

// Guard protects everything that a process serves from requests that a web page makes through a visitor's browser:
// across origins, or by DNS rebinding. Other programs send none of the headers that it checks, except Host.
func Guard(next http.Handler, o GuardOptions) http.Handler {
	g := &guard{hosts: newHosts(o.Names), origins: http.NewCrossOriginProtection(), forms: o.Forms}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := g.refuses(r)
		if r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || p != nil && r.ContentLength != 0) {
			// Close after a chunked body: a proxy in between may have seen another end, above all if there was a
			// Content-Length too (RFC 9112 requires closing then). Also after a body that is left unread.
			w.Header()["Connection"] = Closing
		}
		if p != nil {
			if o.Refused != nil {
				o.Refused(r, p)
			}
			p.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// GuardOptions are the settings of a Guard.
type GuardOptions struct {
	// Names are the host names of this server, besides localhost and addresses.
	Names []string
	// Forms is the path below which pages of this server may send forms; elsewhere bodies must be JSON. Empty: nowhere.
	Forms string
	// Refused is called with each refused request, before the answer. Nil: not called.
	Refused func(*http.Request, *Problem)
}

type guard struct {
	hosts   hosts
	origins *http.CrossOriginProtection
	forms   string
	last    atomic.Pointer[string] // the last allowed Host: the next request usually has the same
}

func (g *guard) refuses(r *http.Request) *Problem {
	if last := g.last.Load(); last == nil || *last != r.Host {
		if !g.hosts.allow(r.Host) {
			return &Problem{
				Reason: ReasonMisdirected, Field: "Host",
				Detail: Shorten(r.Host) + " is not a host name of this server; use an IP address or localhost, " +
					"or start it with --host and this name (PENSTOCK_HOST)",
			}
		}
		host := strings.Clone(r.Host) // or the whole header would be kept
		g.last.Store(&host)
	}
	if fromBrowser(r) && (g.origins.Check(r) != nil || foreign(r)) {
		return &Problem{
			Reason: ReasonCrossSite,
			Detail: "web pages of other origins may not send requests to this server",
		}
	}
	if r.Header[setting.HeaderAttempt] != nil && !appends(r) {
		return &Problem{
			Reason: ReasonDelivery,
			Detail: "a drainer delivers a job here; deliveries may only append jobs to a queue",
		}
	}
	if r.ContentLength == 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return nil
	}
	if g.forms != "" && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, g.forms) && fromBrowser(r) {
		return nil // its origin was checked above
	}
	if replays(r) || strings.HasPrefix(r.URL.Path, ProxyPath) { // browsers' requests were checked above
		return nil
	}
	_, p := MediaType(r)
	return p
}

// ProxyPath begins the paths of calls that are passed on to receivers, as in /proxy/QUEUE/PATH. Their bodies may be of
// any type.
const ProxyPath = "/proxy/"

// replays reports whether a request sends a log to replay. Browsers do not let a web page send that type of body to
// another origin unasked.
func replays(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/replay" && slices.Equal(r.Header["Content-Type"], logTypes)
}

var logTypes = []string{MediaLog}

// fromBrowser reports whether a request has headers that reveal its origin.
func fromBrowser(r *http.Request) bool {
	return len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Origin"]) > 0
}

// foreign reports whether a browser makes a request for a page of another origin. The page is not shown the answer, but
// may learn from its timing. Following a link is allowed.
func foreign(r *http.Request) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" ||
				r.Method != http.MethodGet
		}
	}
	return false
}

// appends reports whether a request appends jobs to a queue. It is the only request that a delivery may make. A user
// who may configure a queue chooses where its jobs are delivered, and must not operate another process's queues that
// way.
func appends(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/queues/") &&
		strings.HasSuffix(r.URL.Path, "/jobs")
}

// maxNameBytes is the length of the longest DNS name.
const maxNameBytes = 253

// hosts are the names under which requests are accepted, besides IP addresses.
//
// A web page can have its own name resolve to any address, including this server's, and then counts as the same origin.
// Its name gives it away. A page cannot take on an address this way, so probes and scrapes by address need no setting.
//
// Names under localhost are not accepted by default: not every resolver keeps them on the machine.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := hosts{"localhost": true}
	for _, name := range names {
		h[plainName(name)] = true
	}
	return h
}

// plainName normalizes a host name: lower case, without the dot of the root.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// ValidateHost checks a name given with --host.
func ValidateHost(name string) error {
	bad := func(why string) error { return fmt.Errorf("--host %q: %s", clip.Quote(name, 80), why) }
	plain := plainName(name)
	switch {
	case plain == "":
		return errors.New("--host is empty: give a host name of this server, such as penstock.example.com")
	case strings.Contains(plain, "*"):
		return bad("has a *; give each name, since a name that others can choose lets web pages in")
	case strings.Contains(plain, "/"):
		return bad("is a URL; give only the name, such as penstock.example.com")
	case strings.Contains(plain, ":"):
		return bad("has a port, or is an address; give only the name, without a port (addresses need no --host)")
	case len(plain) > maxNameBytes, strings.Contains(plain, ".."), strings.HasPrefix(plain, "."),
		strings.IndexFunc(plain, notHost) >= 0:
		return bad("is not a host name such as penstock.example.com")
	}
	return nil
}

func notHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// allow reports whether a Host is accepted. Browsers always send one, so an empty Host is accepted.
func (h hosts) allow(hostport string) bool {
	if hostport == "" {
		return true
	}
	name, ok := nameOf(hostport)
	if !ok {
		return false
	}
	if name[0] == '[' || name[len(name)-1] >= '0' && name[len(name)-1] <= '9' { // ends like an address, and hardly a name
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
			return strings.Contains(name, ":") == (name[0] == '[')
		}
	}
	return h[name] || h[plainName(name)]
}

// nameOf returns a Host without its port.
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
