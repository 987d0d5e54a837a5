// Package misuse marks errors that whoever called the program must mend: in its command line, its environment, or a
// file that it was given. Every program ends with ExitCode then.
package misuse

import "errors"

// ExitCode is that of a program whose command line or files cannot be understood. To start it again does not help.
const ExitCode = 2

type marked struct{ err error }

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

// Of marks an error; nil stays nil.
func Of(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err}
}

// Is reports whether an error was marked, or wraps one that was.
func Is(err error) bool {
	var m *marked
	return errors.As(err, &m)
}
