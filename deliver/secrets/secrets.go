// Package secrets resolves ${secret:NAME} in the settings of targets, so that a queue's spec, which many
// can read, has none of the secrets in it.
//
// It promises that only secrets are resolved: the file of that name in the secrets directory, or else the variable
// PENSTOCK_SECRET_NAME. No other variable of the environment can be reached.
package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/penstock/penstock/queue"
)

const (
	envPrefix = "PENSTOCK_SECRET_"
	maxBytes  = 64 << 10
)

var (
	reference = regexp.MustCompile(`\$\{([^}]*)\}?`)
	named     = regexp.MustCompile(`^\$\{secret:([A-Za-z0-9_-]{1,64})\}$`)
)

// Source is where secrets are. The zero Source has those of the environment.
type Source struct {
	// Dir has a file for each secret, named as it; a line's end at the end of the file is no
	// part of it. Empty is none.
	Dir string
}

// Check checks the references in a text, which need not exist here. Its error is a *queue.FieldError.
func Check(at, text string) error {
	for _, r := range reference.FindAllString(text, -1) {
		if !named.MatchString(r) {
			return &queue.FieldError{Field: at, Value: queue.Shorten(r, 80), Reason: "is no reference to a secret; write ${secret:NAME}, with a NAME of letters, digits, _ and -. " +
				"Nothing else of the environment can be referred to"}
		}
	}
	return nil
}

// None checks that a text, of a field in which none is put in place, has no reference. Its error is a *queue.FieldError.
func None(at, text string) error {
	if r := reference.FindString(text); r != "" {
		return &queue.FieldError{Field: at, Value: queue.Shorten(r, 80), Reason: "refers to a secret, and none is put in place here; write what shall stand there itself"}
	}
	return nil
}

// IsReference reports whether a text is nothing but a reference to a secret.
func IsReference(text string) bool { return named.MatchString(text) }

// References returns the references in a text.
func References(text string) []string { return reference.FindAllString(text, -1) }

// Expand replaces the references in a text. Its error names the secret that is missing, and
// never shows one; it is an *Error. A secret is read each time, so that one that was changed is used at once.
func (s Source) Expand(text string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var failed error
	expanded := reference.ReplaceAllStringFunc(text, func(r string) string {
		m := named.FindStringSubmatch(r)
		if m == nil {
			failed = cmp.Or(failed, fmt.Errorf("%s is no reference to a secret", queue.Shorten(r, 80)))
			return ""
		}
		value, err := s.get(m[1])
		failed = cmp.Or(failed, err)
		return value
	})
	if failed != nil {
		return "", &Error{failed}
	}
	return expanded, nil
}

// Error is why a secret cannot be used. It is the operator's to mend, whoever set the target.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func (s Source) get(name string) (string, error) {
	if s.Dir != "" {
		value, err := os.ReadFile(filepath.Join(s.Dir, name))
		switch {
		case err == nil && len(value) > maxBytes:
			return "", fmt.Errorf("the secret %s has %d bytes, the limit is %d", name, len(value), maxBytes)
		case err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
		}
	}
	if value, ok := os.LookupEnv(envPrefix + name); ok {
		return value, nil
	}
	return "", fmt.Errorf("there is no secret %s: give it as a file of that name in the secrets directory, or as the variable %s%s", name, envPrefix, name)
}
