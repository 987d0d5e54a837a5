package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/penstock/penstock/internal/cli/outfile"
)

// MaxToken is the maximum length of a token in bytes. Tokens of Penstock are much shorter; JWTs may have many claims.
const MaxToken = 16 << 10

// Private returns an error if others can read or change a file. The error says how to fix that.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // modes mean nothing there
		return fmt.Errorf(
			"%s has mode %04o, so others on this machine can read its tokens: chmod 600 %s, and replace tokens that may have "+
				"been read (penstock token rotate)", path, mode, path,
		)
	}
	return nil
}

// ReadToken reads a file that contains only a token.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer func() { _ = f.Close() }()
	token, err := Read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// Read reads a token up to the end of r. Errors do not quote it.
func Read(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxToken+1))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return Check(string(text))
}

// Check returns a token without the space around it.
func Check(text string) (string, error) {
	token := strings.TrimSpace(text)
	switch {
	case token == "":
		return "", errors.New("no token found")
	case len(text) > MaxToken:
		return "", fmt.Errorf("not a token: longer than %d bytes", MaxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("not a token: must be one word of visible ASCII")
	}
	return token, nil
}

// WriteToken writes a token to a new private file, or to a pipe or device. An existing file is an error.
func WriteToken(ctx context.Context, path, token string) error {
	err := outfile.Create(ctx, path, func(w io.Writer) error {
		_, err := io.WriteString(w, token+"\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	return nil
}
