// Package keytest makes signing keys and rules for secrets, for tests.
package keytest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
)

// Pair writes a key pair in openssl's format, and returns the paths.
func Pair(t *testing.T) (signing, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return File(t, PEM("PRIVATE KEY", private)), File(t, PEM("PUBLIC KEY", shown))
}

// PEM returns b in a PEM block of a kind.
func PEM(kind string, b []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
}

// File writes text to a new file, and returns its path.
func File(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Allow returns rules for where secrets may be sent. Of a URL only host and port count.
func Allow(t *testing.T, rules ...string) (all []secrets.Allow) {
	t.Helper()
	for _, rule := range rules {
		a, err := secrets.ParseAllow(strings.NewReplacer("http://", "", "https://", "").Replace(rule))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}
