package secrets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue/names"
)

// Flag is the flag that says where a secret may be sent, for errors. Extension is the extension of the file that says
// the same.
const (
	Flag      = "--secret-allow"
	Extension = ".allow"
)

const (
	maxAllowBytes = 64 << 10
	// insecure stands before a host to which a secret may be sent without TLS.
	insecure = "insecure:"
)

// Ports that need not be given, with and without TLS.
var (
	usual         = []uint16{443, 465, 587}
	usualInsecure = []uint16{80, 25, 587}
)

// Allow is a rule about where a secret may be sent: to these hosts, with the jobs of these queues.
type Allow struct {
	name   string
	hosts  []host
	queues []string // patterns; none means any queue
}

// host is a host, or all hosts in a domain, to which a secret may be sent.
type host struct {
	name     string     // in lower case; "*.example.com" is kept as ".example.com"
	addr     netip.Addr // instead of a name
	port     uint16     // 0 means one of the usual ports
	insecure bool       // also without TLS
}

// Errors about a rule do not quote it: it may contain the secret itself by mistake.
var (
	errHost = errors.New("is not a host; write one such as api.example.com, api.example.com:8443 or *.example.com, " +
		insecure +
		"HOST:PORT if the secret may be sent there without TLS, or queue: and a queue such as billing or bill*")
	errNowhere = errors.New("the secret is not sent anywhere")
)

// ParseAllow parses NAME=HOST[,HOST...][;QUEUE[,QUEUE...]]. A HOST has the form of a line in an .allow file, and a
// QUEUE the form that follows "queue:" there.
func ParseAllow(text string) (Allow, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || !isSecretName(name) {
		return Allow{}, errors.New(
			"must be NAME=HOST[,HOST...][;QUEUE[,QUEUE...]], such as API_TOKEN=api.example.com;billing",
		)
	}
	a := Allow{name: name}
	hosts, queues, _ := strings.Cut(rest, ";")
	for item := range strings.SplitSeq(hosts, ",") {
		if err := a.allowHost(strings.TrimSpace(item)); err != nil {
			return Allow{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if queues == "" {
		return a, nil
	}
	for item := range strings.SplitSeq(queues, ",") {
		if err := a.allowQueue(strings.TrimSpace(item)); err != nil {
			return Allow{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return a, nil
}

// parseAllowFile parses an .allow file, whose lines are hosts, or "queue:" and a queue. It ignores empty lines and
// lines that begin with #. Its errors name the file and the line.
func parseAllowFile(file, name, text string) (Allow, error) {
	a := Allow{name: name}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var err error
		if pattern, ok := strings.CutPrefix(line, "queue:"); ok {
			err = a.allowQueue(strings.TrimSpace(pattern))
		} else {
			err = a.allowHost(line)
		}
		if err != nil {
			return Allow{}, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if len(a.hosts) == 0 {
		return Allow{}, fmt.Errorf(
			"%s:%d: names no host to which the secret may be sent; write one per line, such as api.example.com",
			file, max(n, 1),
		)
	}
	return a, nil
}

func (a *Allow) allowHost(item string) error {
	text, plain := strings.CutPrefix(item, insecure)
	h := host{insecure: plain}
	name := text
	if _, err := netip.ParseAddr(text); err != nil && strings.Contains(text, ":") {
		var port string
		if name, port, err = net.SplitHostPort(text); err != nil {
			return errHost
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("has no valid port; ports are 1 to 65535")
		}
		h.port = uint16(n)
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		h.addr = addr.Unmap()
	} else if h.name = canonical(name); !isHostPattern(h.name) {
		return errHost
	}
	h.name = strings.TrimPrefix(h.name, "*")
	a.hosts = append(a.hosts, h)
	return nil
}

func (a *Allow) allowQueue(pattern string) error {
	if name := strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "."); names.Validate(name) != nil &&
		pattern != "*" {
		return errors.New(
			"is not a queue; write a name such as billing, which includes its children, or a prefix such as bill*",
		)
	}
	a.queues = append(a.queues, pattern)
	return nil
}

// lets reports whether the secret may be sent to a host with the jobs of a queue.
func (a *Allow) lets(name string, to setting.Host) bool {
	return slices.ContainsFunc(a.hosts, func(h host) bool { return h.is(to) }) &&
		(len(a.queues) == 0 || slices.ContainsFunc(a.queues, func(pattern string) bool { return matches(pattern, name) }))
}

// matches reports whether a queue matches a pattern: a name, whose children match too, or a prefix and *.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern || strings.HasPrefix(name, pattern+".")
}

func (h *host) is(to setting.Host) bool {
	secure := to.TLS || isLoopback(to.Name) // the traffic does not leave this machine
	switch {
	case !secure && !h.insecure:
		return false
	case h.port != 0 && h.port != to.Port:
		return false
	case h.port == 0 && !slices.Contains(usual, to.Port) && !(h.insecure && slices.Contains(usualInsecure, to.Port)):
		return false
	}
	if addr, err := netip.ParseAddr(to.Name); err == nil {
		return h.addr == addr.Unmap()
	}
	name := canonical(to.Name)
	return !h.addr.IsValid() && (h.name == name || strings.HasPrefix(h.name, ".") && strings.HasSuffix(name, h.name))
}

// wanted returns the line that would allow a secret to be sent to a host.
func wanted(to setting.Host) string {
	text := canonical(to.Name)
	secure := to.TLS || isLoopback(to.Name)
	if !secure || !slices.Contains(usual, to.Port) {
		text = net.JoinHostPort(text, strconv.Itoa(int(to.Port)))
	}
	if !secure {
		text = insecure + text
	}
	return text
}

// refusal returns an error for a secret that may not be sent to a host, and says what would allow it.
func refusal(name, queueName string, to setting.Host, known bool) error {
	may := "may not be sent anywhere yet"
	if known {
		may = "may not be sent to " + net.JoinHostPort(
			to.Name, strconv.Itoa(int(to.Port)),
		) + " with the jobs of the queue " + queueName
		if !to.TLS && !isLoopback(to.Name) {
			may += " without verified TLS"
		}
	}
	want := wanted(to)
	return fmt.Errorf("the secret %s %s: to allow it, write the line %s into the file %s%s in the secrets directory, or "+
		"start ingress and drainer with %s '%s=%s;%s'",
		name, may, want, name, Extension, Flag, name, want, queueName)
}

func isHostPattern(name string) bool {
	name = strings.TrimPrefix(name, "*.")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// canonical returns a host name in the form in which names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback() || canonical(name) == "localhost"
}
