package redisq

import "strings"

// A process assembles a script while its first caller waits, and regular expressions would take ten times as long as
// what is here.

// replaceWords returns a script with its names and numbers replaced, wherever they are.
func replaceWords(script string, with func(word string) string) string {
	return replace(script, with, func(rest string) int { return run(rest, isWord) })
}

// replaceTokens returns a script with its tokens replaced: names and numbers, with the dots in them; texts in quotes;
// comments.
func replaceTokens(script string, with func(token string) string) string {
	return replace(script, with, func(rest string) int {
		switch {
		case strings.HasPrefix(rest, "--"):
			return run(rest, func(c byte) bool { return c != '\n' })
		case rest[0] == '\'' || rest[0] == '"':
			return quoted(rest)
		}
		return run(rest, func(c byte) bool { return c == '.' || isWord(c) })
	})
}

// replace replaces the parts of a script that are found. find returns the length of the part with which the rest of the
// script begins, or 0.
func replace(script string, with func(part string) string, find func(rest string) int) string {
	var b strings.Builder
	b.Grow(len(script))
	for len(script) > 0 {
		n := find(script)
		if n > 0 {
			b.WriteString(with(script[:n]))
		} else {
			n = 1
			b.WriteByte(script[0])
		}
		script = script[n:]
	}
	return b.String()
}

// quoted returns the length of the text in quotes with which a script begins, or 0 if its line does not end it.
func quoted(script string) int {
	for i := 1; i < len(script) && script[i] != '\n'; i++ {
		switch script[i] {
		case script[0]:
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

func run(s string, of func(byte) bool) (n int) {
	for n < len(s) && of(s[n]) {
		n++
	}
	return n
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
