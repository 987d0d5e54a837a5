package httptarget

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/queue"
)

// authority signs certificates.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	a := &issuer{}
	a.pem, _ = a.issue(t, "an authority", true)
	return a
}

// issue returns a certificate and its key, in PEM.
func (a *issuer) issue(t *testing.T, name string, authority bool) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: authority, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	by, byKey := a.cert, a.key
	if authority {
		by, byKey, a.key = c, k, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &k.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	if authority {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(
		&pem.Block{Type: "PRIVATE KEY", Bytes: raw},
	))
}

// A receiver with a certificate of its own authority, that wants to see one of the sender.
func TestClientCertificate(t *testing.T) {
	ours, theirs := newIssuer(t), newIssuer(t)
	serverCert, serverKey := theirs.issue(t, "receiver.test", false)
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	who := ""
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		who = r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ours.pem))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.Config.ErrorLog = discard()
	s.StartTLS()
	defer s.Close()

	dir := t.TempDir()
	put := func(name string) {
		cert, key := ours.issue(t, name, false)
		for file, text := range map[string]string{"cert": cert, "key": key} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("first")
	strangerCert, strangerKey := theirs.issue(t, "stranger", false)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	// their authority stands in the target itself
	hosts := s.URL + ",insecure:receiver.test:" + port + ",insecure:other.test:" + port
	r := sender(t, Options{Secrets: secrets.Source{Dir: dir, Allow: keytest.Allow(t, "cert="+hosts, "key="+hosts)}})
	deliver := func(settings TLS) error {
		job := jobFor("", "{}")
		raw, err := json.Marshal(map[string]any{"http": map[string]any{"url": s.URL, "tls": settings}})
		if err != nil {
			t.Fatal(err)
		}
		job.Spec.Deliver = raw
		return r.Handle(t.Context(), job, opened())
	}
	good := TLS{CA: theirs.pem, Cert: "${secret:cert}", Key: "${secret:key}", ServerName: "receiver.test"}
	for _, name := range []string{"first", "second"} { // the files are changed, and the next attempt shows the new one
		put(name)
		if err := deliver(good); err != nil || who != name {
			t.Errorf("%v, as %q, want %q", err, who, name)
		}
	}
	for name, change := range map[string]func(*TLS){
		"another authority":   func(x *TLS) { x.CA = ours.pem },
		"the system's":        func(x *TLS) { x.CA = "" },
		"another name":        func(x *TLS) { x.ServerName = "other.test" },
		"the URL's host":      func(x *TLS) { x.ServerName = "" },
		"no certificate":      func(x *TLS) { x.Cert, x.Key = "", "" },
		"a stranger's":        func(x *TLS) { x.Cert, x.Key = strangerCert, strangerKey },
		"a key of another":    func(x *TLS) { x.Key = "${secret:cert}" },
		"a CA that is no PEM": func(x *TLS) { x.CA = "${secret:key}" },
	} {
		bad := good
		change(&bad)
		err := deliver(bad)
		// A receiver refuses a client's certificate only once the handshake is over for the client.
		if v := drain.What(err).Verdict; err == nil || v != queue.Down && v != queue.Hold ||
			strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However many targets have a TLS of their own, connections are kept of a bounded number of them.
func TestManyPools(t *testing.T) {
	ca := newIssuer(t).pem
	r := sender(t, Options{})
	var first *pool
	for i := range 3 * maxPools {
		target := Default()
		target.TLS = &TLS{CA: ca, ServerName: strings.Repeat("a", i%200+1) + strings.Repeat("b", i/200)}
		p, err := r.pools.of(target)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := r.pools.of(target); again != p {
			t.Fatal("not the same pool")
		}
		if first == nil {
			first = p
		}
	}
	if n := len(r.pools.known); n > maxPools {
		t.Errorf("%d pools", n)
	}
	target := Default()
	target.TLS = &TLS{CA: ca, ServerName: "a"}
	if again, _ := r.pools.of(target); again == first {
		t.Error("the oldest was kept")
	}
}
