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

// WithPeer records the peer of a Unix socket as the caller's identity. It is a ConnContext of http.Server. root, and
// the user of this process, are operators.
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

// howToAuthenticate is for users of any client. The penstock command replaces it by its own advice.
const howToAuthenticate = "send Authorization: Bearer TOKEN; the clients and the penstock command read the token " +
	"from PENSTOCK_TOKEN, or from the file in PENSTOCK_TOKEN_FILE"

// byConnection authenticates a request without an Authorization header.
func (a *Authority) byConnection(r *http.Request) (*Identity, error) {
	if uid, ok := r.Context().Value(peerKey{}).(uint32); ok {
		name := ByUnix + uidText(int(uid))
		if uid == 0 || int64(uid) == int64(os.Geteuid()) {
			return Operator(name), nil
		}
		return a.bySubject(r.Context(), []string{name})
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return nil, refuse(Missing, howToAuthenticate)
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if !time.Now().Before(leaf.NotAfter) { // it was valid when the connection was made
		return nil, refuse(Expired, "the connection's certificate; reconnect with a new one")
	}
	id, err := a.bySubject(r.Context(), certificateNames(leaf))
	if err != nil {
		return nil, err
	}
	id.expires = id.bound(leaf.NotAfter)
	return id, nil
}

// certificateNames returns the subject names of a certificate, the most specific first. The common name counts only if
// there is no other name, since certificate authorities verify those more carefully.
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
