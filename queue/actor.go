package queue

import (
	"context"
	"unicode"
	"unicode/utf8"
)

// MaxByBytes is the longest name of who makes a change.
const MaxByBytes = 128

type byKey struct{}

// WithBy notes who makes the changes whose calls get the context, such as "ann@desk": what they
// record has it. It is a note and no proof: nothing verifies the name, and it decides nothing.
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
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) { // what would show another name than there is
			return fieldErr("by", by, "has a control character, or one that is not seen")
		}
	}
	return nil
}
