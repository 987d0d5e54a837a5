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

// Listen is the address of a server and its protection.
type Listen struct {
	// Addr is host:port. Port 0 picks a free port.
	Addr string
	// Flag is the name of the flag for Addr in error messages. The default is --listen.
	Flag string
	// TLSCert and TLSKey are PEM files. Set both or neither.
	TLSCert, TLSKey string
	// TLSClientCA is a PEM file of authorities. If set, clients must have a certificate signed by one of them.
	TLSClientCA string
	// Insecure allows listening beyond loopback without TLS.
	Insecure bool
	// Bound is called with the address before the first request. Targets must not reach it; see egress.Guard.Protect.
	Bound func(net.Addr)
	// Hosts are allowed host names of requests, besides localhost, IP addresses and the name in Addr.
	Hosts []string
	// Socket is the path of an additional Unix socket; empty opens none. See ServerOptions.ConnContext.
	Socket string
}

// Names returns Hosts and the host of Addr if it is a name.
func (l Listen) Names() []string {
	host, _, err := net.SplitHostPort(l.Addr)
	if _, notAddr := netip.ParseAddr(host); err != nil || host == "" || notAddr == nil {
		return l.Hosts
	}
	return append(slices.Clone(l.Hosts), host)
}

// ErrInsecure is the refusal to listen beyond loopback without TLS.
var ErrInsecure = errors.New("refused to listen beyond loopback without TLS")

// bind opens the listener and wraps it with between, below TLS.
func (l Listen) bind(between func(net.Listener) net.Listener, certs *Certificates) (net.Listener, error) {
	flag := cmp.Or(l.Flag, "--listen")
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return nil, Misuse(fmt.Errorf("%s %q: must be HOST:PORT, for example 127.0.0.1:8080: %w", flag, l.Addr, err))
	}
	if l.TLSCert == "" && !l.Insecure && !loopback(host) {
		return nil, Misuse(fmt.Errorf("%s %s: %w: anyone who can reach it could append jobs and change queues; "+
			"set --tls-cert and --tls-key, or --insecure if you trust the network", flag, l.Addr, ErrInsecure))
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.Addr) // it does not block
	if err != nil {
		return nil, BindError(flag, l.Addr, err)
	}
	if l.Bound != nil {
		l.Bound(ln.Addr())
	}
	ln = between(ln)
	if certs != nil { // outermost: net/http uses HTTP/2 only on a *tls.Conn
		ln = tls.NewListener(ln, certs.outer())
	}
	return ln, nil
}

// BindError wraps the error of opening a listener at the address of a flag. If another program uses the port, the
// error names the likely one: "penstock up" in another terminal.
func BindError(flag, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(`%s %s: another program uses this port, perhaps "penstock up" or a second copy of this one; `+
			"stop it, or set %s to another port: %w", flag, addr, flag, err)
	}
	return fmt.Errorf("%s %s: %w", flag, addr, err)
}

// Local reports whether only this machine can reach the address.
func (l Listen) Local() bool {
	host, _, err := net.SplitHostPort(l.Addr)
	return err == nil && loopback(host)
}

// loopback reports whether only this machine can reach a host. Names other than localhost may resolve to any address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
