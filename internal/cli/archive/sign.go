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

// Signature is the last line of a file that was signed. It is of all lines before it, the trailer included.
type Signature struct {
	// Key names the public key, as KeyName says, for people.
	Key string `json:"key"`
	// Ed25519 is the signature itself.
	Ed25519 []byte `json:"ed25519"`
}

// signedText is what is signed: what it is for, and the digest of the lines.
func signedText(digest []byte) []byte {
	return []byte("penstock archive\n" + hex.EncodeToString(digest))
}

func sign(key ed25519.PrivateKey, digest []byte) *Signature {
	public, _ := key.Public().(ed25519.PublicKey)
	return &Signature{Key: KeyName(public), Ed25519: ed25519.Sign(key, signedText(digest))}
}

// KeyName is a short name of a public key, by which people tell it from others.
func KeyName(key ed25519.PublicKey) string {
	digest := sha256.Sum256(key)
	return hex.EncodeToString(digest[:8])
}

// checkSignature checks that a file is signed with the key that goes with a public one.
func (f *File) checkSignature(digest []byte, key ed25519.PublicKey) error {
	at := f.Trailer.Lines + 2
	switch s := f.Signature; {
	case s == nil:
		return damaged(at, "the file is not signed, and one signed with the key %s is asked for", KeyName(key))
	case s.Key == KeyName(key) && ed25519.Verify(key, signedText(digest), s.Ed25519):
		return nil
	case s.Key != KeyName(key):
		return damaged(at, "the file is not signed with the key %s, but says that it is with another (%.20q)",
			KeyName(key), s.Key)
	}
	return damaged(at, "the signature is not that of the key %s for this file: it was altered since it was signed",
		KeyName(key))
}

// maxKeyFile is longer than any file of one key.
const maxKeyFile = 16 << 10

// ReadSigningKey reads the private key of a file as openssl genpkey -algorithm ed25519 writes it.
func ReadSigningKey(path string) (ed25519.PrivateKey, error) {
	parsed, err := readKey(path, "PRIVATE KEY", x509.ParsePKCS8PrivateKey)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: it has a key of another kind: make one with openssl genpkey -algorithm ed25519",
			path)
	}
	return key, nil
}

// ReadPublicKey reads the public key of a file as openssl pkey -pubout writes it.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	parsed, err := readKey(path, "PUBLIC KEY", x509.ParsePKIXPublicKey)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s: it has a key of another kind: an ed25519 one is needed", path)
	}
	return key, nil
}

// readKey reads the only key of a PEM file. No error shows what is in it.
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
		return nil, fmt.Errorf("%s: it is longer than %d bytes, and so no file of a key", path, maxKeyFile)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%s: it has no key in PEM (-----BEGIN %s-----)", path, kind)
	case block.Type != kind && strings.Contains(block.Type, "ENCRYPTED"):
		return nil, fmt.Errorf("%s: the key is encrypted, and nobody can be asked for its password: use one that is "+
			"not", path)
	case block.Type != kind:
		return nil, fmt.Errorf("%s: it has a %s, and a %s is needed", path, block.Type, kind)
	case strings.TrimSpace(string(rest)) != "":
		return nil, fmt.Errorf("%s: there is more in it than one key", path)
	}
	key, err := parse(block.Bytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: what it has is not a %s", path, kind), err)
	}
	return key, nil
}
