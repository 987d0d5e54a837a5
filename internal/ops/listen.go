package ops

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Listen says where a server listens, and how it is protected.
type Listen struct {
	// Addr is host:port. Port 0 takes a free one.
	Addr string
	// Flag is what errors call the flag that named it: --listen if it is empty.
	Flag string
	// TLSCert and TLSKey are PEM files. Both or none.
	TLSCert, TLSKey string
	// TLSClientCA is a PEM file of authorities: only clients with a certificate of theirs are served. Empty asks for none.
	TLSClientCA string
	// Insecure allows to listen beyond loopback without TLS.
	Insecure bool
	// Bound is told where it listens, before anybody is served. Targets must be kept from there; see egress.Guard.Protect.
	Bound func(net.Addr)
	// Hosts are names by which requests may come, besides localhost, addresses, and the name in Addr.
	Hosts []string
	// Socket is the path of a Unix socket at which the same is served; empty is none. See ServerOptions.ConnContext.
	Socket string
}

// Names are those of Hosts and, if it is one, of Addr.
func (l Listen) Names() []string {
	host, _, err := net.SplitHostPort(l.Addr)
	if _, notAddr := netip.ParseAddr(host); err != nil || host == "" || notAddr == nil {
		return l.Hosts
	}
	return append(slices.Clone(l.Hosts), host)
}

// ErrInsecure is wrapped by the refusal to listen beyond loopback in the clear.
var ErrInsecure = errors.New("refused to listen beyond loopback without TLS")

// bind opens the listener, with each connection held by between.
func (l Listen) bind(between func(net.Listener) net.Listener, certs *Certificates) (net.Listener, error) {
	flag := cmp.Or(l.Flag, "--listen")
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return nil, Misuse(fmt.Errorf("%s %q: want HOST:PORT, such as 127.0.0.1:8080: %w", flag, l.Addr, err))
	}
	if l.TLSCert == "" && !l.Insecure && !loopback(host) {
		return nil, Misuse(fmt.Errorf("%s %s: %w: anybody who can reach it could append jobs and change queues; "+
			"give --tls-cert and --tls-key, or --insecure if the network is trusted", flag, l.Addr, ErrInsecure))
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.Addr) // it does not block
	if err != nil {
		return nil, BindError(flag, l.Addr, err)
	}
	if l.Bound != nil {
		l.Bound(ln.Addr())
	}
	ln = between(ln)
	if certs != nil { // outermost: net/http speaks HTTP/2 only to a connection that it sees is TLS
		ln = tls.NewListener(ln, certs.outer())
	}
	return ln, nil
}

// BindError returns the error of a listener that could not be opened at the address that a flag names. Where another
// program has the port it says so: most often that is "penstock up" in another terminal.
func BindError(flag, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(`%s %s: another program listens there, perhaps "penstock up" or a second copy of this one; `+
			"stop it, or give %s another port: %w", flag, addr, flag, err)
	}
	return fmt.Errorf("%s %s: %w", flag, addr, err)
}

// Local reports whether only this machine can reach it.
func (l Listen) Local() bool {
	host, _, err := net.SplitHostPort(l.Addr)
	return err == nil && loopback(host)
}

// loopback reports whether only this machine can reach a host. A name other than
// localhost may resolve to anything.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
