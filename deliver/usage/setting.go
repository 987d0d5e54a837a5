package usage

import (
	"encoding/json"
	"maps"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/pointer"
	"github.com/penstock/penstock/queue"
)

// Limits of a Setting.
const (
	MaxPointers    = 4 // of a unit
	maxHeaderBytes = 128
)

// Setting says, by unit, where answers state what a call has used.
type Setting map[string]Source

// Source is where answers state the actual cost of a call in one unit.
type Source struct {
	// Pointer leads to a number in a JSON body, or in the events of a stream.
	Pointer Pointers `json:"pointer,omitempty"`
	// Header is the name of a header.
	Header string `json:"header,omitempty"`
}

// Pointers are JSON pointers (RFC 6901). The first that leads to a value counts. A single one may be written as a
// string.
type Pointers []string

// Wants implements setting.Wanting.
func (Pointers) Wants() string {
	return `a JSON pointer such as "/usage/total_tokens", or a list of up to ` + strconv.Itoa(MaxPointers)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pointers) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var one string
		err := json.Unmarshal(text, &one)
		*p = Pointers{one}
		return err
	}
	var list []string
	err := json.Unmarshal(text, &list)
	*p = list
	return err
}

// Plan is a checked Setting. It knows what the calls of its queue use on average.
type Plan struct {
	units    []unit
	paths    []pointer.Pointer
	averages averages
}

// unit is where a unit's number is: in a header, or where some of the plan's paths lead.
type unit struct {
	name   string
	header string
	first  int // of its paths
	paths  int
}

// Plan checks a setting. at is its field. The Plan is nil if the setting is empty. Errors: an *invalid.Error.
func (s Setting) Plan(at string) (*Plan, error) {
	if len(s) == 0 {
		return nil, nil
	}
	if len(s) > queue.MaxCosts {
		return nil, setting.Error(at, "", "has "+strconv.Itoa(len(s))+" units, the limit is "+strconv.Itoa(queue.MaxCosts))
	}
	p := &Plan{}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if err := queue.ValidateUnit(at, name); err != nil {
			return nil, err
		}
		if name == queue.UnitJobs {
			return nil, setting.Error(at+"."+name, "", "is not read from answers: the cost in jobs is known before the call")
		}
		source := s[name]
		if err := source.check(at + "." + name); err != nil {
			return nil, err
		}
		p.units = append(p.units, unit{
			name: name, header: textproto.CanonicalMIMEHeaderKey(source.Header), first: len(p.paths),
			paths: len(source.Pointer),
		})
		for _, text := range source.Pointer {
			path, _ := pointer.Parse(text) // checked
			p.paths = append(p.paths, path)
		}
	}
	return p, nil
}

func (s *Source) check(at string) error {
	switch {
	case s.Header == "" && len(s.Pointer) == 0:
		return setting.Error(at, "", "needs a pointer such as /usage/total_tokens, or a header such as x-tokens-used")
	case s.Header != "" && len(s.Pointer) > 0:
		return setting.Error(at, "", "has a pointer and a header; leave one of them out")
	case s.Header != "":
		if len(s.Header) > maxHeaderBytes || strings.IndexFunc(s.Header, notToken) >= 0 {
			return setting.Error(at+".header", s.Header, "is not the name of a header, such as x-tokens-used")
		}
		return nil
	case len(s.Pointer) > MaxPointers:
		return setting.Error(
			at+".pointer", "", "has "+strconv.Itoa(len(s.Pointer))+" pointers, the limit is "+strconv.Itoa(MaxPointers),
		)
	}
	for _, text := range s.Pointer {
		if _, fault := pointer.Parse(text); fault != "" {
			return setting.Error(at+".pointer", text, fault)
		}
	}
	return nil
}

// notToken reports whether a header name cannot have a character (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}
