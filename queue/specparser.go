package queue

import (
	"bytes"
	"sync/atomic"

	"github.com/penstock/penstock/queue/names"
)

// SpecParser is ParseSpec for many specs that mostly differ only in their names. The specs returned share memory and
// must not be changed. It is safe for concurrent use; the zero value is ready.
type SpecParser struct{ last atomic.Pointer[parsedSpec] }

// parsedSpec is a spec and its text after the name.
type parsedSpec struct {
	rest []byte
	spec Spec
}

// Parse does what ParseSpec does.
func (p *SpecParser) Parse(text []byte) (Spec, error) {
	name, rest := cutName(text)
	if name == "" || len(text) > MaxSpecBytes {
		return ParseSpec(text)
	}
	if l := p.last.Load(); l != nil && bytes.Equal(l.rest, rest) {
		s := l.spec
		s.Name = name
		if err := s.Validate(); err != nil { // the name may matter
			return Spec{}, err
		}
		return s, nil
	}
	s, err := ParseSpec(text)
	if err == nil {
		p.last.Store(&parsedSpec{bytes.Clone(rest), s})
	}
	return s, err
}

var nameBegins = []byte(`{"name":"`)

// cutName returns the name at the start of an encoded spec and the rest of the text, or nothing.
func cutName(text []byte) (name string, rest []byte) {
	after, ok := bytes.CutPrefix(text, nameBegins)
	before, rest, found := bytes.Cut(after, []byte{'"'})
	if !ok || !found || names.Validate(string(before)) != nil {
		return "", nil
	}
	return string(before), rest
}
