package redisq

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func certPair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"redis"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// A URL of rediss names whom to trust and what to show; what is shown is read again for each connection.
func TestCertificatesOfRedis(t *testing.T) {
	cert, key := certPair(t)
	newCert, newKey := certPair(t)
	o, err := ParseURL("rediss://redis:6379?ca=" + cert + "&cert=" + cert + "&key=" + key)
	if err != nil {
		t.Fatal(err)
	}
	o.TLSConfig.ServerName = "redis"
	server, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() []byte {
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		got := make(chan []byte, 1)
		go func() {
			defer close(got)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if s := c.(*tls.Conn); s.Handshake() == nil {
				got <- s.ConnectionState().PeerCertificates[0].Raw
			}
		}()
		c, err := tls.Dial("tcp", ln.Addr().String(), o.TLSConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.Copy(io.Discard, c) // to the end of the handshake
		return <-got
	}
	if string(shown()) != string(server.Certificate[0]) {
		t.Error("it does not show the certificate that it was given")
	}
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if again := shown(); len(again) == 0 || string(again) == string(server.Certificate[0]) {
		t.Error("it shows the certificate that was, after its files changed")
	}
	for url, want := range map[string]string{
		"rediss://h?cert=" + cert:                         "cert and key belong together",
		"rediss://h?cert=/none&key=" + key:                "/none",
		"rediss://h?cert=" + newKey + "&key=" + cert:      "cert ",
		"redis://h?cert=" + cert + "&key=" + key:          "is not known for redis://",
		"rediss+cluster://h:1?ca=" + key + "&key=" + cert: "contains no certificate",
	} {
		if _, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", url, err, want)
		}
	}
}
