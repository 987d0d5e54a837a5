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

// Flag is the setting that says where a secret may go, as it is named to people, and Extension ends the name of the
// file beside the secret's that says the same.
const (
	Flag      = "--secret-allow"
	Extension = ".allow"
)

const (
	maxAllowBytes = 64 << 10
	// insecure stands before a host to which a secret may go without TLS.
	insecure = "insecure:"
)

// Ports that need not be named, with TLS and without.
var (
	usual         = []uint16{443, 465, 587}
	usualInsecure = []uint16{80, 25, 587}
)

// Allow says where a secret may go: to these hosts, with the jobs of these queues.
type Allow struct {
	name   string
	hosts  []host
	queues []string // patterns; none is any queue
}

// host is one, or all under a name, to which a secret may go.
type host struct {
	name     string     // in lower case; "*.example.com" is kept as ".example.com"
	addr     netip.Addr // in place of a name
	port     uint16     // 0: a usual one
	insecure bool       // without TLS too
}

// Errors of what says where a secret may go quote nothing of it: somebody may have written the secret itself there.
var (
	errHost = errors.New("is no host; write one such as api.example.com, api.example.com:8443 or *.example.com, " +
		insecure +
		"HOST:PORT if the secret may go there without TLS, or queue: and a queue such as billing or bill*")
	errNowhere = errors.New("a secret that is sent nowhere is of no use")
)

// ParseAllow reads NAME=HOST[,HOST...][;QUEUE[,QUEUE...]], in which a HOST is as a line of a file has it, and a QUEUE
// as behind "queue:" there.
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

// parseAllowFile reads the file of a secret: a host a line, or "queue:" and a queue. Empty lines, and what begins with
// #, say nothing. file is for its errors, which name the line.
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
			"%s:%d: names no host to which the secret may go; write one a line, such as api.example.com", file, max(n, 1),
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
			"is no queue; write one such as billing, which its children are too, or what names begin with, such as bill*",
		)
	}
	a.queues = append(a.queues, pattern)
	return nil
}

// lets reports whether the secret may go to a host with the jobs of a queue.
func (a *Allow) lets(name string, to setting.Host) bool {
	return slices.ContainsFunc(a.hosts, func(h host) bool { return h.is(to) }) &&
		(len(a.queues) == 0 || slices.ContainsFunc(a.queues, func(pattern string) bool { return matches(pattern, name) }))
}

// matches reports whether a queue is one that a pattern means: itself, a child of it, or one that begins so.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern || strings.HasPrefix(name, pattern+".")
}

func (h *host) is(to setting.Host) bool {
	secure := to.TLS || isLoopback(to.Name) // nobody else can listen in on this machine
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

// wanted is what would have to be written for a secret to go to a host.
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

// refusal says that a secret may not go to a host, and what would allow it.
func refusal(name, queueName string, to setting.Host, known bool) error {
	may := "may go nowhere yet"
	if known {
		may = "may not go to " + net.JoinHostPort(
			to.Name, strconv.Itoa(int(to.Port)),
		) + " with the jobs of the queue " + queueName
		if !to.TLS && !isLoopback(to.Name) {
			may += " without TLS that shows who the receiver is"
		}
	}
	want := wanted(to)
	return fmt.Errorf("the secret %s %s: to allow it, write the line %s into the file %s%s of the secrets directory, or "+
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

// canonical is a host's name as it is compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback() || canonical(name) == "localhost"
}
