package archive

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Signature is the last line of a signed file. It signs all lines before it, the trailer included.
type Signature struct {
	// Key is the KeyName of the public key, for people.
	Key string `json:"key"`
	// Ed25519 is the signature itself.
	Ed25519 []byte `json:"ed25519"`
}

// signedText returns the text to sign: its purpose and the digest of the lines.
func signedText(digest []byte) []byte {
	return []byte("penstock archive\n" + hex.EncodeToString(digest))
}

func sign(key ed25519.PrivateKey, digest []byte) *Signature {
	public, _ := key.Public().(ed25519.PublicKey)
	return &Signature{Key: KeyName(public), Ed25519: ed25519.Sign(key, signedText(digest))}
}

// KeyName returns a short name of a public key, for people.
func KeyName(key ed25519.PublicKey) string {
	digest := sha256.Sum256(key)
	return hex.EncodeToString(digest[:8])
}

// checkSignature verifies the signature of a file with a public key.
func (f *File) checkSignature(digest []byte, key ed25519.PublicKey) error {
	at := f.Trailer.Lines + 2
	switch s := f.Signature; {
	case s == nil:
		return damaged(at, "the file is not signed, but a signature by the key %s is required", KeyName(key))
	case s.Key == KeyName(key) && ed25519.Verify(key, signedText(digest), s.Ed25519):
		return nil
	case s.Key != KeyName(key):
		return damaged(at, "the file is not signed by the key %s, but by another (%.20q)",
			KeyName(key), s.Key)
	}
	return damaged(at, "the signature by the key %s is not valid: the file was altered after it was signed",
		KeyName(key))
}

// maxKeyFile is more than the size of any file with one key.
const maxKeyFile = 16 << 10

// ReadSigningKey reads a private key from a file that openssl genpkey -algorithm ed25519 wrote.
func ReadSigningKey(path string) (ed25519.PrivateKey, error) {
	parsed, err := readKey(path, "PRIVATE KEY", x509.ParsePKCS8PrivateKey)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: not an ed25519 key: create one with openssl genpkey -algorithm ed25519",
			path)
	}
	return key, nil
}

// ReadPublicKey reads a public key from a file that openssl pkey -pubout wrote.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	parsed, err := readKey(path, "PUBLIC KEY", x509.ParsePKIXPublicKey)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s: not an ed25519 key", path)
	}
	return key, nil
}

// readKey reads the only key of a PEM file. Errors do not quote the file.
func readKey(path, kind string, parse func([]byte) (any, error)) (any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeyFile:
		return nil, fmt.Errorf("%s: not a key file: longer than %d bytes", path, maxKeyFile)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%s: no PEM key found (-----BEGIN %s-----)", path, kind)
	case block.Type != kind && strings.Contains(block.Type, "ENCRYPTED"):
		return nil, fmt.Errorf("%s: the key is encrypted: use a key without a password", path)
	case block.Type != kind:
		return nil, fmt.Errorf("%s: found a %s, need a %s", path, block.Type, kind)
	case strings.TrimSpace(string(rest)) != "":
		return nil, fmt.Errorf("%s: must contain exactly one key", path)
	}
	key, err := parse(block.Bytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: invalid %s", path, kind), err)
	}
	return key, nil
}
