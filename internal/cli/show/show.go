// Package show formats text from others safely for a terminal, a table or JSON, and values for people.
//
// It promises that its output moves no cursor, reverses no text and hides nothing: it replaces every character that
// does not print by an escape, such as \u202e. In JSON the escape has the same meaning. It does not guess which
// characters are harmless.
package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s on one line. Tabs and line ends become spaces; other characters that do not print become escapes.
func Text(s string) string { return replaced(s, "") }

// Lines returns Text of each line.
func Lines(s string) string { return replaced(s, "\n") }

// JSON returns JSON with escapes for all characters that do not print. Its strings keep their meaning.
func JSON(b []byte) []byte { return []byte(replaced(string(b), "\n\r\t")) }

// replaced keeps the characters that print, and those in kept.
func replaced(s, kept string) string {
	prints := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(kept, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !prints(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // invalid UTF-8
			b.WriteRune(utf8.RuneError)
		case prints(r):
			b.WriteRune(r)
		case r == '\t', r == '\n', r == '\r':
			b.WriteByte(' ')
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Quoted returns s quoted as one word for a shell.
func Quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Wrapped breaks a text at spaces into lines of at most width characters. A longer word stays whole.
func Wrapped(s string, width int) (lines []string) {
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
		} else {
			lines[last] += " " + word
		}
	}
	return lines
}
