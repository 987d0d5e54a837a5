package queue

import (
	"bytes"
	"sync/atomic"

	"github.com/penstock/penstock/queue/names"
)

// SpecParser is ParseSpec for many specs, most of which say the same but for the name. What it returns shares what it
// points to, and must not be changed. It may be used by many goroutines; its zero value is ready.
type SpecParser struct{ last atomic.Pointer[parsedSpec] }

// parsedSpec is a spec, and its text behind the name.
type parsedSpec struct {
	rest []byte
	spec Spec
}

// Parse is ParseSpec.
func (p *SpecParser) Parse(text []byte) (Spec, error) {
	name, rest := cutName(text)
	if name == "" || len(text) > MaxSpecBytes {
		return ParseSpec(text)
	}
	if l := p.last.Load(); l != nil && bytes.Equal(l.rest, rest) {
		s := l.spec
		s.Name = name
		if err := s.Validate(); err != nil { // the name's part in it
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

// cutName returns the name of a spec that begins with it, as EncodeSpec writes it, and what follows; otherwise nothing.
func cutName(text []byte) (name string, rest []byte) {
	after, ok := bytes.CutPrefix(text, nameBegins)
	before, rest, found := bytes.Cut(after, []byte{'"'})
	if !ok || !found || names.Validate(string(before)) != nil {
		return "", nil
	}
	return string(before), rest
}
