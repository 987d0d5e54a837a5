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

// MaxToken is the longest token that is read, in bytes. Those of Penstock are much shorter; those of others may have
// many claims.
const MaxToken = 16 << 10

// Private says whether nobody but its owner can read or change a file. The error says how to make it so.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the file of a token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // where modes say nothing
		return fmt.Errorf(
			"%s has mode %04o, so others on this machine may have its tokens: chmod 600 %s, and if they may have been read, "+
				"replace them (penstock token rotate)", path, mode, path,
		)
	}
	return nil
}

// ReadToken reads a file that has a token and nothing else.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file of a token: %w", err)
	}
	defer func() { _ = f.Close() }()
	token, err := Read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// Read reads a token to the end of r. No error quotes it.
func Read(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxToken+1))
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	return Check(string(text))
}

// Check returns a text without the space around it if it may be a token.
func Check(text string) (string, error) {
	token := strings.TrimSpace(text)
	switch {
	case token == "":
		return "", errors.New("there is no token in it")
	case len(text) > MaxToken:
		return "", fmt.Errorf("a token has at most %d bytes", MaxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("a token is one word of visible ASCII, on one line: something else is in it")
	}
	return token, nil
}

// WriteToken makes a file with a token that only its owner can read, or writes the token to a pipe or device. A file
// that exists is an error.
func WriteToken(ctx context.Context, path, token string) error {
	err := outfile.Create(ctx, path, func(w io.Writer) error {
		_, err := io.WriteString(w, token+"\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("the file of a token: %w", err)
	}
	return nil
}
