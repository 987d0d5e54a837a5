// Package show makes text that others wrote fit to be shown: on a terminal, in a table, as JSON.
//
// It promises that what it returns moves no cursor, turns no text round and hides nothing: every character that prints
// nothing stands there as an escape such as \u202e, in JSON as one that means the same. It refuses to guess which of
// them are harmless.
package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is one line: tabs and line ends become spaces, what else does not print is replaced visibly.
func Text(s string) string { return replaced(s, "") }

// Lines is Text of each line.
func Lines(s string) string { return replaced(s, "\n") }

// JSON replaces what does not print in a text of JSON, whose strings mean the same afterwards.
func JSON(b []byte) []byte { return []byte(replaced(string(b), "\n\r\t")) }

// replaced leaves alone what prints, and the characters of kept.
func replaced(s, kept string) string {
	prints := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(kept, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !prints(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // no UTF-8
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

// Quoted is one word of a shell.
func Quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Wrapped breaks a text at spaces into lines of so many characters; a longer word stays whole.
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
