package setting

import (
	"strconv"
	"strings"
	"unicode"
)

// Limits of Patterns.
const (
	maxPatterns     = 100
	maxPatternBytes = 320
)

// Patterns are the values that a job may choose instead of the target's own. In a pattern * matches any text. Case is
// ignored.
type Patterns []string

// Match reports whether one of the patterns matches a text.
func (p Patterns) Match(text string) bool {
	text = strings.ToLower(text)
	for _, pattern := range p {
		if matches(strings.ToLower(pattern), text) {
			return true
		}
	}
	return false
}

// Check checks the patterns. at is their field. proper, which may be nil, returns what is wrong with a pattern, to
// follow its name in the error.
func (p Patterns) Check(at string, proper func(pattern string) (fault string)) error {
	if len(p) > maxPatterns {
		return Error(at, "", "are "+strconv.Itoa(len(p))+", the limit is "+strconv.Itoa(maxPatterns))
	}
	for i, pattern := range p {
		at := at + "[" + strconv.Itoa(i) + "]"
		if pattern == "" || len(pattern) > maxPatternBytes || strings.ContainsFunc(pattern, unicode.IsControl) {
			return Error(at, pattern, "must have 1 to "+strconv.Itoa(maxPatternBytes)+" bytes without control characters")
		}
		if proper == nil {
			continue
		}
		if fault := proper(pattern); fault != "" {
			return Error(at, pattern, fault)
		}
	}
	return nil
}

// matches matches each part between stars at its first possible place, which leaves the most for the rest.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
