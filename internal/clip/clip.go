// Package clip shortens texts that people are shown.
package clip

import (
	"fmt"
	"unicode/utf8"
)

// Quote quotes s for an error message, cut to about n bytes, with the true length when it was cut.
func Quote(s string, n int) string {
	if len(s) <= n {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:n], len(s))
}

// Text shortens a text for people to n bytes, between characters.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
