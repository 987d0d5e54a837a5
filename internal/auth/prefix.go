package auth

import (
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Everything is the prefix of all names. Only operators can have it.
const Everything = "*"

// MaxPrefixes is the maximum number of prefixes of an app.
const MaxPrefixes = 32

// ValidatePrefix checks a prefix of queue and rule names. "acme-*" is every name with that beginning; "ses.otp" or
// "acme" is that name and its children. Its error is an *invalid.Error.
func ValidatePrefix(field, prefix string) error {
	stem, _ := strings.CutSuffix(prefix, "*")
	// A stem may end in the dot before the children's names, where a name cannot end.
	if prefix == stem && names.Validate(stem) == nil || prefix != stem && names.Validate(stem+"x") == nil &&
		stem != "" {
		return nil
	}
	return &invalid.Error{
		Field: field, Value: clip.Quote(prefix, 80),
		Reason: "must be a name of a-z 0-9 _ - with at most one dot, or the beginning of a name followed by *, such as " +
			"acme-*",
	}
}

// within reports whether a name has a prefix.
func within(prefix, name string) bool {
	if stem, star := strings.CutSuffix(prefix, "*"); star {
		return strings.HasPrefix(name, stem)
	}
	return strings.HasPrefix(name, prefix) && (len(name) == len(prefix) || name[len(prefix)] == '.')
}

// covers reports whether all names of inner are names of outer.
func covers(outer, inner string) bool {
	stem, star := strings.CutSuffix(inner, "*")
	if !star {
		return within(outer, inner)
	}
	if of, star := strings.CutSuffix(outer, "*"); star {
		return strings.HasPrefix(stem, of)
	}
	return strings.HasPrefix(stem, outer+".")
}

// overlap reports whether two prefixes have names in common.
func overlap(a, b string) bool { return covers(a, b) || covers(b, a) }

// withinAny reports whether a name is valid and has one of the prefixes.
func withinAny(prefixes []string, name string) bool {
	for _, p := range prefixes {
		if within(p, name) {
			return names.Validate(name) == nil
		}
	}
	return false
}

func coveredByAny(prefixes []string, inner string) bool {
	for _, p := range prefixes {
		if covers(p, inner) {
			return true
		}
	}
	return false
}
