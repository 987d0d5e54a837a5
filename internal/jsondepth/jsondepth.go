// Package jsondepth bounds how deep JSON from outside may be nested, before anything parses it.
package jsondepth

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Max is how deep JSON may be nested that comes from outside, whatever it is: specs, rules, jobs with their
// payloads. It is far beyond what anybody writes, and so little that no reader's stack or path of names grows with
// what somebody sends.
const Max = 64

// Error says that JSON is nested too deep.
type Error struct {
	// Field is the beginning of the path to the place, as in deliver.http.headers; empty at the outermost level.
	Field string
	// Offset is that of the bracket that is one too many.
	Offset int
	Most   int
}

func (e *Error) Error() string {
	return fmt.Sprintf("is nested deeper than %d levels, at byte %d", e.Most, e.Offset)
}

// Check returns an *Error if text opens more than so many levels of objects and lists. It reads up to there
// and allocates nothing, so it can stand before every parser. That text is JSON is for the parser to say.
func Check(text []byte, most int) error {
	// What has no more brackets than that, as most texts do, needs no closer look; counting is many times as fast.
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
			depth-- // below 0 it is no JSON, and the parser will not come to what follows
		}
	}
	return nil
}

// stringEnd is where the string ends that text begins with, or where text does if the string does not.
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

// pathAt is the path to where text ends, or as much of it as serves to find the place.
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

// ShortPath keeps a path that the sender made up from filling an error.
func ShortPath(path string) string {
	const most = 120
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most], "") + "..."
}
