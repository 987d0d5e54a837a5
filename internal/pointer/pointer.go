// Package pointer finds the values to which JSON pointers (RFC 6901) lead, in a text that passes in parts.
package pointer

import (
	"strconv"
	"strings"
)

// Limits of a pointer.
const (
	MaxBytes = 256
	MaxDepth = 16 // tokens
)

// Pointer is the tokens of a JSON pointer: names of objects, and indices of arrays.
type Pointer []string

// Parse reads a pointer. If the text is not a usable pointer, it returns why, for the error of a field.
func Parse(text string) (p Pointer, fault string) {
	switch {
	case !strings.HasPrefix(text, "/"):
		return nil, "is not a JSON pointer: it begins with /, such as /usage/total_tokens"
	case len(text) > MaxBytes:
		return nil, "has " + strconv.Itoa(len(text)) + " bytes, the limit is " + strconv.Itoa(MaxBytes)
	case strings.Count(text, "/") > MaxDepth:
		return nil, "leads deeper than " + strconv.Itoa(MaxDepth) + " levels"
	}
	for i := range len(text) {
		if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return nil, "is not a JSON pointer: ~ is written ~0, and / in a name ~1"
		}
	}
	p = strings.Split(text[1:], "/")
	for i, token := range p {
		p[i] = unescaped.Replace(token)
	}
	return p, ""
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")
