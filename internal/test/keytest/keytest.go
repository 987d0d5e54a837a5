// Package keytest makes keys to sign with, and says where secrets may go, for tests.
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

// Pair writes a key pair as openssl does, and returns the paths.
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

// PEM is b in a block of a kind.
func PEM(kind string, b []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
}

// File writes text to a file of its own, and returns the path.
func File(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Allow says where secrets may go; of a URL its host and port count.
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
