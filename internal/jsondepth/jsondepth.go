// Package jsondepth limits the nesting of untrusted JSON before anything parses it.
package jsondepth

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Max is the maximum nesting of untrusted JSON: specs, rules, jobs and their payloads. It is far more than anyone
// needs, and small enough that no parser's stack or path of names grows with the input.
const Max = 64

// Error means that JSON is nested too deep.
type Error struct {
	// Field is the start of the path to the place, such as deliver.http.headers; empty at the top level.
	Field string
	// Offset is the position of the bracket that is too deep.
	Offset int
	Most   int
}

func (e *Error) Error() string {
	return fmt.Sprintf("is nested deeper than %d levels, at byte %d", e.Most, e.Offset)
}

// Check returns an *Error if text opens more than most levels of objects and lists. It reads only up to there and
// allocates nothing, so it can run before every parser. It does not check whether text is JSON.
func Check(text []byte, most int) error {
	// Most texts have fewer brackets than that and need no closer look; counting is many times as fast.
	if len(text) <= most || bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= most {
		return nil
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:])
		case '{', '[':
			if depth++; depth > most {
				return &Error{Field: pathAt(text[:i]), Offset: i, Most: most}
			}
		case '}', ']':
			depth-- // below 0 it is not JSON, and no parser gets beyond this
		}
	}
	return nil
}

// stringEnd returns the end of the string at the start of text, or of text if the string is unterminated.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(text)
}

// pathAt returns the path to the end of text, or enough of it to find the place.
func pathAt(text []byte) string {
	const most = 3
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for d.InputOffset() < int64(len(text)) {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	var path []string
	for token := range d.StackPointer().Tokens() {
		if path = append(path, token); len(path) == most {
			break
		}
	}
	return ShortPath(strings.Join(path, "."))
}

// ShortPath cuts a path, which the sender controls, so that it cannot fill an error message.
func ShortPath(path string) string {
	const most = 120
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most], "") + "..."
}
