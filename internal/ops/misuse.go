package ops

import "errors"

// ExitMisuse is the exit code of a program whose command line or files cannot be understood. Starting it again does not
// help.
const ExitMisuse = 2

type misuse struct{ err error }

func (m *misuse) Error() string { return m.err.Error() }
func (m *misuse) Unwrap() error { return m.err }

// Misuse marks an error that the caller of the program must fix: in its command line, its environment or a file that
// it was given. The program then ends with [ExitMisuse]. A nil error stays nil.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return &misuse{err}
}

// IsMisuse reports whether err is, or wraps, one that [Misuse] marked.
func IsMisuse(err error) bool {
	var m *misuse
	return errors.As(err, &m)
}
