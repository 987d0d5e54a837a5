package cli

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

// writeKeys writes a key pair as openssl does, and returns the paths.
func writeKeys(t *testing.T) (signing, public string) {
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
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("sign.pem", "PRIVATE KEY", private), write("verify.pem", "PUBLIC KEY", shown)
}

// With --verify an archive that is not signed, or was altered, changes nothing: not even a store is made.
func TestSignedExport(t *testing.T) {
	signing, public := writeKeys(t)
	_, other := writeKeys(t)
	dir, file, plain := storeOf(t, 7), filepath.Join(t.TempDir(), "signed"), filepath.Join(t.TempDir(), "unsigned")
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--sign", signing, "--output", file)
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--output", plain)
	to := filepath.Join(t.TempDir(), "new")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := filepath.Join(t.TempDir(), "altered")
	if err := os.WriteFile(altered, bytes.Replace(text, []byte(`"q"`), []byte(`"p"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitUsage, "", "is not signed", "import", "--store", to, "--init", "--verify", public, "-f", plain)
	expect(t, ExitUsage, "", "with another", "import", "--store", to, "--init", "--verify", other, "-f", file)
	expect(t, ExitUsage, "", "Nothing was changed", "import", "--store", to, "--init", "--verify", public, "-f", altered)
	expect(t, ExitUsage, "", "--verify: ", "import", "--store", to, "--init", "--verify", signing, "-f", file)
	expect(t, ExitUsage, "", "--sign: ", "export", "--store", dir, "--sign", public, "--output", file)
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
	expect(t, ExitDone, "7 placed", "", "import", "--store", to, "--init", "--verify", public, "-f", file)
	expect(t, ExitDone, "7 there already", "", "import", "--store", to, "-f", file)
}
