package queue

import (
	"context"
	"unicode"
	"unicode/utf8"
)

// MaxByBytes is the longest name of who makes a change.
const MaxByBytes = 128

type byKey struct{}

// WithBy names who makes the changes whose calls get the context, such as "ann@desk": Put,
// Delete, Rollback, Pause and Resume keep it with what they record. The name is believed, and
// decides nothing.
//
// It is in the context because it is of the request and not of the change: whoever knows
// the caller puts it there once, and what stands between need not pass it on.
func WithBy(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, byKey{}, by)
}

// By returns who makes a change, empty if nobody said. Its error is a *FieldError.
func By(ctx context.Context) (string, error) {
	by, _ := ctx.Value(byKey{}).(string)
	return by, ValidateBy(by)
}

// ValidateBy checks the name of who makes a change. Its error is a *FieldError.
func ValidateBy(by string) error {
	if len(by) > MaxByBytes {
		return fieldErr("by", by, "has %d bytes, the limit is %d", len(by), MaxByBytes)
	}
	if !utf8.ValidString(by) {
		return fieldErr("by", by, "is not UTF-8")
	}
	for _, c := range by {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return fieldErr("by", by, "has a control character")
		}
	}
	return nil
}
