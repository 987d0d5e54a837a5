// Package secrets resolves ${secret:NAME} in the settings of targets, so that a queue's spec, which many people can
// read, contains no secrets.
//
// A secret is the file of that name in the secrets directory, or else the environment variable PENSTOCK_SECRET_NAME. No
// other variable can be reached. A secret is sent only where its owner allows it (see Allow). Otherwise a client that
// may name targets could have any secret sent to itself.
package secrets

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

const (
	envPrefix = "PENSTOCK_SECRET_"
	envOfFlag = "ALLOW" // not a secret: with the prefix it is the variable of Flag
	maxBytes  = 64 << 10
)

var (
	reference = regexp.MustCompile(`\$\{([^}]*)\}?`)
	named     = regexp.MustCompile(`^\$\{secret:([A-Za-z0-9_-]{1,64})\}$`)
	proper    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Source provides secrets, and knows where they may be sent. The zero Source has the secrets of the environment, which
// may be sent nowhere.
type Source struct {
	// Dir is a directory with a file for each secret, which has its name. A line end at the end of the file does not
	// belong to the secret. The file NAME.allow says where the secret may be sent. Empty means no directory.
	Dir string
	// Allow has further rules about where secrets may be sent.
	Allow []Allow
}

// Validate reads all .allow files. Its error names file and line.
func (s Source) Validate() error {
	if s.Dir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("secrets directory: %w", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), Extension); ok && isSecretName(name) {
			if _, _, err := s.allowFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check checks the references in a text. The secrets need not exist here. Its error is an *invalid.Error.
func Check(at, text string) error {
	for _, r := range reference.FindAllString(text, -1) {
		if !named.MatchString(r) {
			return &invalid.Error{
				Field: at, Value: clip.Quote(r, 80),
				Reason: "is not a reference to a secret; write ${secret:NAME}, with a NAME of letters, digits, _ and -. " +
					"Other environment variables cannot be used",
			}
		}
	}
	return nil
}

// None checks that a text has no reference, for fields in which references are not resolved. Its error is an
// *invalid.Error.
func None(at, text string) error {
	if r := reference.FindString(text); r != "" {
		return &invalid.Error{
			Field: at, Value: clip.Quote(r, 80),
			Reason: "refers to a secret, but this field cannot use secrets; write the value itself",
		}
	}
	return nil
}

// IsReference reports whether a text is exactly one reference to a secret.
func IsReference(text string) bool { return named.MatchString(text) }

// References returns the references in a text.
func References(text string) []string { return reference.FindAllString(text, -1) }

// Names returns the names of the secrets to which a text refers.
func Names(text string) (names []string) {
	for _, r := range References(text) {
		if m := named.FindStringSubmatch(r); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// Permit checks that the secrets in a queue's target may be sent where the target sends them. They need not exist here.
// Its error is an *invalid.Error that says what would allow it.
func (s Source) Permit(queueName string, uses ...setting.Use) error {
	for _, use := range uses {
		for _, r := range References(use.Text) {
			if m := named.FindStringSubmatch(r); m != nil {
				if err := s.permit(m[1], queueName, use.To); err != nil {
					return &invalid.Error{Field: use.Field, Reason: "refers to a secret that it may not use: " + err.Error()}
				}
			}
		}
	}
	return nil
}

// Expand replaces the references in a text of a queue's target, if the secrets may be sent where it is sent. values are
// the secrets, for a Hider. Secrets and rules are read each time, so that changes take effect at once. The error is an
// *Error; it names the missing secret, or says what would allow it, and never shows a secret.
func (s Source) Expand(queueName string, use setting.Use) (expanded string, values []string, err error) {
	if !strings.Contains(use.Text, "${") {
		return use.Text, nil, nil
	}
	var failed error
	expanded = reference.ReplaceAllStringFunc(use.Text, func(r string) string {
		m := named.FindStringSubmatch(r)
		if m == nil {
			failed = cmp.Or(failed, fmt.Errorf("%s is not a reference to a secret", clip.Quote(r, 80)))
			return ""
		}
		value, err := s.get(m[1])
		if err == nil {
			err = s.permit(m[1], queueName, use.To)
		}
		failed = cmp.Or(failed, err)
		values = append(values, value)
		return value
	})
	if failed != nil {
		return "", nil, &Error{failed}
	}
	return expanded, values, nil
}

// permit checks that a secret may be sent to hosts with the jobs of a queue.
func (s Source) permit(name, queueName string, to []setting.Host) error {
	rules := slices.DeleteFunc(slices.Clone(s.Allow), func(a Allow) bool { return a.name != name })
	file, found, err := s.allowFile(name)
	if err != nil {
		return err
	}
	if found {
		rules = append(rules, file)
	}
	if len(to) == 0 {
		return errNowhere
	}
	for _, host := range to {
		if !slices.ContainsFunc(rules, func(a Allow) bool { return a.lets(queueName, host) }) {
			return refusal(name, queueName, host, len(rules) > 0)
		}
	}
	return nil
}

// allowFile reads the .allow file of a secret, if it exists.
func (s Source) allowFile(name string) (Allow, bool, error) {
	if s.Dir == "" {
		return Allow{}, false, nil
	}
	text, err := read(filepath.Join(s.Dir, name+Extension), maxAllowBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Allow{}, false, nil
	case err != nil:
		return Allow{}, false, fmt.Errorf("the .allow file of the secret %s cannot be read: %w", name, err)
	}
	a, err := parseAllowFile(name+Extension, name, text)
	return a, err == nil, err
}

// Error is why a secret cannot be used. Only the operator can fix it.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func (s Source) get(name string) (string, error) {
	if s.Dir != "" {
		value, err := read(filepath.Join(s.Dir, name), maxBytes)
		switch {
		case err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
		}
	}
	if value, ok := os.LookupEnv(envPrefix + name); ok && name != envOfFlag {
		return value, nil
	}
	return "", fmt.Errorf(
		"there is no secret %s: give it as a file of that name in the secrets directory, or as the variable %s%s", name,
		envPrefix, name,
	)
}

// read reads a file of at most that many bytes. It does not rely on the reported size.
func read(path string, most int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return string(b), err
}

func isSecretName(name string) bool { return proper.MatchString(name) }
