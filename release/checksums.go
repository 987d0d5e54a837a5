package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checksumsName is the file with the checksums of all others, in the form of sha256sum.
const checksumsName = "SHA256SUMS"

// writeChecksums writes the checksums of the files in dir that a release page offers: those that are in no subfolder.
// Programs in bin/ are named by the SBOMs, and images by their digests.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		sum, err := sha256File(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&lines, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumsName), lines.Bytes(), 0o644)
}

// sha256File returns the SHA-256 of a file in hexadecimal.
func sha256File(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
