// Package invalid has the error of bad input: the field, its value, what is wrong, and how to fix it.
package invalid

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
)

// Error is the error of an unusable input.
type Error struct {
	Field  string // as written in the API, such as "retry.max_attempts"
	Value  string // shortened; may be empty
	Reason string // what is wrong, and how to fix it
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.Field, e.Value, e.Reason)
}

// Errorf returns an Error. Long values are cut.
func Errorf(field, value, reason string, args ...any) *Error {
	e := &Error{Field: field, Reason: fmt.Sprintf(reason, args...)}
	if value != "" {
		e.Value = clip.Quote(value, 80)
	}
	return e
}

// In turns a non-nil error into the error of a field: In("burst", err).
func In(field string, err error) error {
	if err == nil {
		return nil
	}
	return Errorf(field, "", "%v", err)
}

// Range checks that a number is from low to high. Its error is an *Error.
func Range(field string, v, low, high int64) error {
	if v < low || v > high {
		return Errorf(field, "", "is %d, must be from %d to %d", v, low, high)
	}
	return nil
}

// Span checks that a duration is from low to high, in whole microseconds. Its error is an *Error.
func Span(field string, v, low, high time.Duration) error {
	if v < low || v > high || v%time.Microsecond != 0 {
		return Errorf(field, "", "is %v, must be from %v to %v in whole microseconds", v, low, high)
	}
	return nil
}
