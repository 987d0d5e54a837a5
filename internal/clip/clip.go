// Package clip shortens texts for display.
package clip

import (
	"fmt"
	"unicode/utf8"
)

// Quote quotes s for an error message. If s is longer than n bytes, it is cut, and its length is added.
func Quote(s string, n int) string {
	if len(s) <= n {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:n], len(s))
}

// Text cuts a text to at most n bytes, between characters.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
