package auth

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type peerKey struct{}

// WithPeer is for http.Server.ConnContext: requests that come over a Unix socket prove by it which user sends them.
// root, and the user that this process runs as, are the operator.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	for {
		if unix, ok := c.(*net.UnixConn); ok {
			if uid, err := peerOf(unix); err == nil {
				return peerContext(ctx, uid)
			}
			return ctx
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		c = outer.NetConn()
	}
}

func peerContext(ctx context.Context, uid uint32) context.Context {
	return context.WithValue(ctx, peerKey{}, uid)
}

func uidText(uid int) string { return strconv.Itoa(uid) }

// byConnection says who sends a request that has no Authorization header.
func (a *Authority) byConnection(r *http.Request) (*Identity, error) {
	if uid, ok := r.Context().Value(peerKey{}).(uint32); ok {
		name := ByUnix + uidText(int(uid))
		if uid == 0 || int64(uid) == int64(os.Geteuid()) {
			return Operator(name), nil
		}
		return a.bySubject(r.Context(), []string{name})
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return nil, refuse(Missing, "")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if !time.Now().Before(leaf.NotAfter) { // it was good when the connection was made
		return nil, refuse(Expired, "the certificate of the connection has; connect anew with another")
	}
	id, err := a.bySubject(r.Context(), certificateNames(leaf))
	if err != nil {
		return nil, err
	}
	id.expires = id.bound(leaf.NotAfter)
	return id, nil
}

// certificateNames are the subjects of a certificate, the most exact first. The common name counts only where there is
// no other: whoever signs certificates looks after those.
func certificateNames(c *x509.Certificate) (names []string) {
	add := func(name string) {
		if name = ByCertificate + name; ValidateSubjectName(name) == nil {
			names = append(names, name)
		}
	}
	for _, uri := range c.URIs {
		add(uri.String())
	}
	for _, name := range c.DNSNames {
		add(strings.ToLower(name))
	}
	if len(c.URIs) == 0 && len(c.DNSNames) == 0 && len(c.EmailAddresses) == 0 && len(c.IPAddresses) == 0 {
		add(c.Subject.CommonName)
	}
	return names
}
