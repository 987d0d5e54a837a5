// Package strictjson reads what people write in JSON: unknown and repeated names, wrong types, nulls and what follows
// the document are errors that name the field.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// Document is a kind of thing that people write in JSON, and that is read strictly.
type Document struct {
	Name string // of the whole, in errors
	Of   string // what its fields are of
	Most int    // bytes
	// Wants says in words what a field is, by its name, where its type does not say it well.
	Wants map[string]string
	// Zeroless reports whether a field is one that must not be 0, because its zero value says something else.
	Zeroless func(path string) bool
}

// Read reads data into what has the defaults, and returns which fields are given, by their dotted paths.
func (d Document) Read(data []byte, into any) (given map[string]bool, err error) {
	if len(data) > d.Most {
		return nil, invalid.Errorf(d.Name, "", "has %d bytes, the limit is %d", len(data), d.Most)
	}
	var deep *jsondepth.Error
	if errors.As(jsondepth.Check(data, jsondepth.Max), &deep) {
		return nil, invalid.Errorf(cmp.Or(deep.Field, d.Name), "", "%v", deep)
	}
	// Names that are given twice, and bad UTF-8, are found by Unmarshal.
	in := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if in.PeekKind() != '{' {
		if _, err := in.ReadValue(); err != nil {
			return nil, d.fieldErr(err)
		}
		return nil, invalid.Errorf(d.Name, "", "must be a JSON object")
	}
	// First of all: then each path that is made below is one of a known field, and all of them together are about as
	// long as data. Those that somebody makes up could be its length squared.
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return nil, d.fieldErr(err)
	}
	return d.given(in)
}

// given walks through a document of known fields and returns their dotted paths,
// down to those of deliver, which is its target's business. A null is an error:
// in YAML it is what a forgotten value looks like.
func (d Document) given(in *jsontext.Decoder) (map[string]bool, error) {
	given := make(map[string]bool, 64)
	var at place
	for {
		t, err := in.ReadToken()
		if err != nil {
			return nil, d.fieldErr(err)
		}
		switch kind := t.Kind(); {
		case at.isName(kind):
			at.name(t.String())
			given[string(at.path)] = true
			if string(at.path) == "deliver" {
				if err := in.SkipValue(); err != nil {
					return nil, d.fieldErr(err)
				}
				at.value()
			}
		case kind == '}' || kind == ']':
			if at.leave(); len(at.within) == 0 {
				return given, nil
			}
			at.value()
		case kind == 'n':
			return nil, invalid.Errorf(d.field(in.StackPointer()), "", "is null; leave it out for the default")
		case kind == '0' && t.String() == "0" && d.Zeroless != nil && d.Zeroless(string(at.path)):
			return nil, invalid.Errorf(d.field(in.StackPointer()), "", "is 0, must be at least 1; leave it out for no limit")
		case kind == '{' || kind == '[':
			at.enter(kind == '[')
		default:
			at.value()
		}
	}
}

// place is where a walk through JSON is, by a dotted path. A decoder knows that too, but makes it anew for each token
// that is asked about.
type place struct {
	path   []byte
	within []container // the innermost last
}

type container struct {
	from  int // of path: the length of the container's own
	index int // of the next value of a list; -1 of an object whose next token is a name, -2 of one whose value comes
}

const (
	nameNext  = -1
	valueNext = -2
)

func (p *place) isName(kind jsontext.Kind) bool {
	n := len(p.within)
	return kind == '"' && n > 0 && p.within[n-1].index == nameNext
}

func (p *place) name(name string) {
	c := &p.within[len(p.within)-1]
	p.to(c, name)
	c.index = valueNext
}

func (p *place) to(c *container, name string) {
	if p.path = p.path[:c.from]; c.from > 0 {
		p.path = append(p.path, '.')
	}
	p.path = append(p.path, name...)
}

// enter goes into an object or a list.
func (p *place) enter(list bool) {
	p.within = append(p.within, container{from: len(p.path), index: nameNext})
	if list {
		c := &p.within[len(p.within)-1]
		c.index = 0
		p.to(c, "0")
	}
}

// leave goes out of it again.
func (p *place) leave() {
	n := len(p.within) - 1
	p.path, p.within = p.path[:p.within[n].from], p.within[:n]
}

// value is behind a value.
func (p *place) value() {
	c := &p.within[len(p.within)-1]
	if c.index == valueNext {
		c.index = nameNext
		return
	}
	c.index++
	p.to(c, strconv.Itoa(c.index))
}

// dotted turns a JSON pointer into the form in which fields are named.
func dotted(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// field names one in an error.
func (d Document) field(p jsontext.Pointer) string {
	return cmp.Or(jsondepth.ShortPath(dotted(p)), d.Name)
}

// fieldErr turns an error of the JSON package into an *invalid.Error.
func (d Document) fieldErr(err error) *invalid.Error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		field := d.field(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return invalid.Errorf(field, "", "is given twice")
		}
		return invalid.Errorf(field, "", "is not valid JSON near byte %d: %v", syntactic.ByteOffset, syntactic.Err)
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return invalid.Errorf(d.Name, "", "is not valid JSON: %v", err) // io.EOF, of nothing at all
	}
	field := d.field(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return invalid.Errorf(field, "", "is not a field of %s%s", d.Of,
			invalid.DidYouMean(semantic.JSONPointer.LastToken(), invalid.Members(semantic.GoType)))
	}
	if (semantic.JSONKind == '"' || semantic.JSONKind == 0 || semantic.GoType == bytesType) && semantic.Err != nil &&
		textual(semantic.GoType) {
		return invalid.Errorf(field, "", "%v", semantic.Err)
	}
	return invalid.Errorf(
		field, string(semantic.JSONValue), "must be %s",
		cmp.Or(d.Wants[semantic.JSONPointer.LastToken()], wanted(semantic.GoType)),
	)
}

var (
	rateType     = reflect.TypeFor[leaky.Rate]()
	durationType = reflect.TypeFor[unit.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	bytesType    = reflect.TypeFor[unit.Bytes]()
)

func textual(t reflect.Type) bool {
	return t == bytesType || reflect.PointerTo(t).Implements(textType)
}

// wanted says in words what a Go type is in JSON.
func wanted(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch {
	case t == rateType:
		return `a string such as "14/s"`
	case t == durationType:
		return `a string such as "30s"`
	case t == bytesType:
		return `a size such as "64MiB", or a number of bytes`
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	}
	return fmt.Sprintf("a %s", t.Kind())
}
