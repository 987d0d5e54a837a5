package archive_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/test/keytest"
)

func readPair(t *testing.T) (ed25519.PrivateKey, ed25519.PublicKey) {
	t.Helper()
	signing, public := keytest.Pair(t)
	key, err := archive.ReadSigningKey(signing)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := archive.ReadPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, pub
}

// What was signed is taken, by whoever asks for the key and who does not. What was cut, altered, signed by somebody
// else or not at all is refused, also when its checksum is right.
func TestSigned(t *testing.T) {
	key, pub := readPair(t)
	other, otherPub := readPair(t)
	e, _ := newStore(t)
	put(t, e, "a", "14/s")
	add(t, e, job("a", 1), job("a", 2))
	file, _ := export(t, e, archive.ExportOptions{Sign: key})
	unsigned, _ := export(t, e, archive.ExportOptions{})
	by := func(what, text string, pub ed25519.PublicKey, want string) {
		t.Helper()
		_, err := archive.Verify(t.Context(), strings.NewReader(text), pub)
		var d *archive.Damaged
		refused := errors.As(err, &d) && strings.Contains(err.Error(), want) &&
			strings.Contains(err.Error(), "Nothing was changed")
		if want == "" && err != nil || want != "" && !refused {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	by("as it was signed", string(file), pub, "")
	by("without a key", string(file), nil, "")
	by("not signed", string(unsigned), pub, "is not signed")
	by("by another key", string(file), otherPub, "but by another")
	resigned, _ := export(t, e, archive.ExportOptions{Sign: other})
	by("signed by somebody else", string(resigned), pub, "but by another")

	lines := strings.SplitAfter(strings.TrimSuffix(string(file), "\n"), "\n")
	signature := lines[len(lines)-1] + "\n"
	body := lines[:len(lines)-1]
	by("cut off", strings.Join(body, ""), pub, "is not signed")
	by("cut off, and no key asked for", strings.Join(body, ""), nil, "")
	other99 := slices.Clone(body)
	other99[1] = strings.Replace(other99[1], `"rate":"14/s"`, `"rate":"99/s"`, 1)
	altered := summed(other99, "", "")
	by("altered, with its checksum", altered+signature, pub, "was altered")
	by("altered, with its checksum, and no key asked for", altered+signature, nil, "")
	theirs := strings.SplitAfter(strings.TrimSuffix(string(resigned), "\n"), "\n")
	named := strings.Replace(theirs[len(theirs)-1], archive.KeyName(otherPub), archive.KeyName(pub), 1) + "\n"
	by("signed by somebody else under the name of the key", strings.Join(body, "")+named, pub, "was altered")
	by("two signatures", string(file)+signature, pub, "continues after its signature")
	by("a signature of nothing", strings.Join(body, "")+`{"signature":null}`+"\n", pub, "invalid signature")
	by("an empty signature", strings.Join(body, "")+`{"signature":{"key":"","ed25519":""}}`+"\n", pub, "but by another")
	for n := range file {
		if _, err := archive.Verify(t.Context(), bytes.NewReader(file[:n]), pub); err == nil {
			t.Fatalf("cut at %d of %d it is taken", n, len(file))
		}
	}
	for n := 0; n < len(file); n += 7 {
		bad := slices.Clone(file)
		bad[n] ^= 1
		if _, err := archive.Verify(t.Context(), bytes.NewReader(bad), pub); err == nil {
			t.Fatalf("altered at %d of %d it is taken", n, len(file))
		}
	}
}

// Files without a valid key are refused, and errors do not quote them.
func TestKeyFiles(t *testing.T) {
	signing, public := keytest.Pair(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(weak)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(signing)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"none":        {filepath.Join(t.TempDir(), "none"), "no such file"},
		"empty":       {keytest.File(t, ""), "no PEM key"},
		"a directory": {t.TempDir(), "directory"},
		"endless":     {"/dev/zero", "longer than"},
		"public":      {public, "found a PUBLIC KEY"},
		"rsa":         {keytest.File(t, keytest.PEM("PRIVATE KEY", der)), "not an ed25519 key"},
		"encrypted":   {keytest.File(t, keytest.PEM("ENCRYPTED PRIVATE KEY", der)), "encrypted"},
		"noise":       {keytest.File(t, keytest.PEM("PRIVATE KEY", []byte("hidden"))), "invalid PRIVATE KEY"},
		"two":         {keytest.File(t, string(text)+string(text)), "exactly one key"},
	} {
		_, err := archive.ReadSigningKey(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := archive.ReadPublicKey(signing); err == nil || !strings.Contains(err.Error(), "found a PRIVATE KEY") {
		t.Errorf("a private key as a public one: %v", err)
	}
}
