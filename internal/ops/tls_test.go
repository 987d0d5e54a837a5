package ops_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, typ string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private), roots
}

// Over TLS, clients get HTTP/2 if they support it, and MaxConnections still applies.
func TestTLS(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	from := make(chan string, 100) // who was served
	s, _ := runningAt(t, ops.Listen{Addr: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile},
		http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr },
		), ops.ServerOptions{MaxConnections: 2})
	client := func(http2 bool) *http.Transport {
		tr := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2,
		}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	ask := func(tr *http.Transport) (proto string, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
		if err != nil {
			return "", err
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.Proto, err
	}
	first, second, third := client(true), client(false), client(true)
	if proto, err := ask(first); err != nil || proto != "HTTP/2.0" {
		t.Fatalf("a client of HTTP/2: %s, %v", proto, err)
	}
	one := <-from
	if proto, err := ask(second); err != nil || proto != "HTTP/1.1" {
		t.Fatalf("a client of HTTP/1.1: %s, %v", proto, err)
	}
	<-from

	type answer struct {
		proto string
		err   error
	}
	served := make(chan answer, 1)
	go func() {
		proto, err := ask(third)
		served <- answer{proto, err}
	}()
	// Open connections are still served, with many requests each; the next connection waits.
	for deadline := time.Now().Add(200 * time.Millisecond); time.Now().Before(deadline); {
		if proto, err := ask(first); err != nil || proto != "HTTP/2.0" {
			t.Fatalf("again: %s, %v", proto, err)
		}
		if addr := <-from; addr != one {
			t.Fatalf("a third connection, %s, was served beside two", addr)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		first.CloseIdleConnections() // again, should the last request not have been put away yet
		select {
		case a := <-served:
			if a.err != nil || a.proto != "HTTP/2.0" {
				t.Errorf("when one had ended: %s, %v", a.proto, a.err)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("when one had ended, the next was not served")
		}
	}
}
