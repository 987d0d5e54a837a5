package ops_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

// said is a log that can be read while it is written.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) times(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}

// secure sends a request over a new connection, and returns the server's certificate.
func secure(s *ops.Server, config *tls.Config) (*x509.Certificate, error) {
	resp, err := (&http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 20 * time.Second,
	}).Get(s.URL())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.TLS.PeerCertificates[0], err
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Changed certificates are used without a restart. Invalid ones are logged once, and the old ones stay.
func TestCertificatesAreReloaded(t *testing.T) {
	certFile, keyFile, first := certificate(t)
	newCert, newKey, second := certificate(t)
	log := &said{}
	s, _ := runningAt(t, ops.Listen{Addr: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile}, hello,
		ops.ServerOptions{CertificateCheck: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))})
	trusting := func(roots *x509.CertPool) *tls.Config {
		return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	if _, err := secure(s, trusting(first)); err != nil {
		t.Fatal(err)
	}
	c := s.Certificates()
	copyFile(t, certFile, newCert) // the key is still the old one's
	until(t, "a pair that does not fit is seen", c.Stale)
	if _, err := secure(s, trusting(first)); err != nil {
		t.Errorf("while the files do not fit: %v", err)
	}
	failed := c.Failed()
	time.Sleep(100 * time.Millisecond) // twenty more looks at what does not fit
	if n := log.times("certificates are invalid"); n != int(failed) || failed != 1 || c.Failed() != 1 {
		t.Errorf("it was logged %d times, and counted %d", n, c.Failed())
	}
	copyFile(t, keyFile, newKey)
	until(t, "the new pair is in use", func() bool { return c.Reloaded() == 1 })
	if _, err := secure(s, trusting(second)); err != nil || c.Stale() {
		t.Errorf("with the new pair: %v, stale %v", err, c.Stale())
	}
	if _, err := secure(s, trusting(first)); err == nil {
		t.Error("the old certificate is still shown")
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	until(t, "a file that is gone is seen", c.Stale)
	if _, err := secure(s, trusting(second)); err != nil {
		t.Errorf("while a file is gone: %v", err)
	}
}

// Only clients of the current authority are served.
func TestClientCertificates(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	mineCert, mineKey, _ := certificate(t)
	otherCert, otherKey, _ := certificate(t)
	authority := t.TempDir() + "/ca.pem"
	copyFile(t, authority, mineCert) // it vouches for itself
	s, _ := runningAt(t, ops.Listen{
		Addr: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile, TLSClientCA: authority,
	}, hello,
		ops.ServerOptions{CertificateCheck: 5 * time.Millisecond})
	as := func(cert, key string) *tls.Config {
		config := &tls.Config{
			RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(8),
		}
		if cert != "" {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return config
	}
	mine, other := as(mineCert, mineKey), as(otherCert, otherKey)
	served := func(who string, config *tls.Config, want bool) {
		t.Helper()
		if _, err := secure(s, config); (err == nil) != want {
			t.Errorf("%s: %v", who, err)
		}
	}
	served("a client of the authority", mine, true)
	served("a client of another", other, false)
	served("a client without a certificate", as("", ""), false)
	copyFile(t, authority, otherCert)
	until(t, "the new authority is in use", func() bool { return s.Certificates().Reloaded() == 1 })
	served("a client of the authority that was, which has a session", mine, false)
	served("a client of the new one", other, true)
}

func TestCertificatesOfBadStarts(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	for _, c := range []struct {
		l    ops.Listen
		want string
	}{
		{ops.Listen{TLSCert: certFile}, "--tls-cert and --tls-key must be given together"},
		{ops.Listen{TLSClientCA: certFile}, "--tls-client-ca needs --tls-cert"},
		{
			ops.Listen{TLSCert: certFile, TLSKey: keyFile, TLSClientCA: keyFile},
			"--tls-client-ca " + keyFile + ": the file contains no certificate",
		},
		{ops.Listen{TLSCert: keyFile, TLSKey: keyFile}, "--tls-cert " + keyFile},
		{ops.Listen{TLSCert: certFile, TLSKey: "/none"}, "/none"},
	} {
		c.l.Addr = "127.0.0.1:0"
		if _, err := ops.NewServer(c.l, ops.ServerOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v does not say %q", c.l, err, c.want)
		}
	}
}
