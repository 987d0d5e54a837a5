package ops

import "errors"

// ExitMisuse is the exit code of a program with an invalid command line, environment or file. Restarting does not help.
const ExitMisuse = 2

type misuse struct{ err error }

func (m *misuse) Error() string { return m.err.Error() }
func (m *misuse) Unwrap() error { return m.err }

// Misuse marks an error that the user must fix in the command line, the environment or a file. The program then exits
// with [ExitMisuse]. A nil error stays nil.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return &misuse{err}
}

// IsMisuse reports whether err is or wraps an error from [Misuse].
func IsMisuse(err error) bool {
	var m *misuse
	return errors.As(err, &m)
}
