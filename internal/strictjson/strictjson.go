// Package strictjson parses JSON that people write. Unknown and repeated names, wrong types, nulls and trailing data
// are errors that name the field.
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

// Document describes a kind of JSON document.
type Document struct {
	Name string // of the document, in errors
	Of   string // owner of its fields, in errors
	Most int    // maximum bytes
	// Wants describes fields by name if their types do not describe them well.
	Wants map[string]string
	// Zeroless returns why a field must not be 0, because its zero value means something else; "" if it may.
	Zeroless func(path string) string
}

// Read parses data into a value that has the defaults, and returns which fields were given, by their dotted paths.
func (d Document) Read(data []byte, into any) (given map[string]bool, err error) {
	if len(data) > d.Most {
		return nil, invalid.Errorf(d.Name, "", "has %d bytes, the limit is %d", len(data), d.Most)
	}
	var deep *jsondepth.Error
	if errors.As(jsondepth.Check(data, jsondepth.Max), &deep) {
		return nil, invalid.Errorf(cmp.Or(deep.Field, d.Name), "", "%v", deep)
	}
	// Unmarshal finds repeated names and bad UTF-8.
	in := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if in.PeekKind() != '{' {
		if _, err := in.ReadValue(); err != nil {
			return nil, d.fieldErr(err)
		}
		return nil, invalid.Errorf(d.Name, "", "must be a JSON object")
	}
	// Unmarshal comes first: then the paths below are of known fields only, and all of them together are about as long
	// as data. Arbitrary paths could take the square of its length.
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return nil, d.fieldErr(err)
	}
	return d.given(in)
}

// given walks through a document of known fields and returns their dotted paths, except those within deliver, which is
// up to its target. A null is an error: in YAML it is what a forgotten value looks like.
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
		case kind == '0' && t.String() == "0" && d.Zeroless != nil && d.Zeroless(string(at.path)) != "":
			return nil, invalid.Errorf(d.field(in.StackPointer()), "", "is 0, %s", d.Zeroless(string(at.path)))
		case kind == '{' || kind == '[':
			at.enter(kind == '[')
		default:
			at.value()
		}
	}
}

// place is the position of a walk through JSON, as a dotted path. A decoder knows it, too, but builds it anew for each
// request.
type place struct {
	path   []byte
	within []container // the innermost last
}

type container struct {
	from  int // length of the container's own path
	index int // of the next value of a list; in an object nameNext or valueNext
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

// enter enters an object or a list.
func (p *place) enter(list bool) {
	p.within = append(p.within, container{from: len(p.path), index: nameNext})
	if list {
		c := &p.within[len(p.within)-1]
		c.index = 0
		p.to(c, "0")
	}
}

// leave leaves it again.
func (p *place) leave() {
	n := len(p.within) - 1
	p.path, p.within = p.path[:p.within[n].from], p.within[:n]
}

// value passes a value.
func (p *place) value() {
	c := &p.within[len(p.within)-1]
	if c.index == valueNext {
		c.index = nameNext
		return
	}
	c.index++
	p.to(c, strconv.Itoa(c.index))
}

// dotted converts a JSON pointer to the dotted form of fields.
func dotted(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// field names a field in an error.
func (d Document) field(p jsontext.Pointer) string {
	return cmp.Or(jsondepth.ShortPath(dotted(p)), d.Name)
}

// fieldErr converts an error of the JSON package to an *invalid.Error.
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
		return invalid.Errorf(d.Name, "", "is not valid JSON: %v", err) // io.EOF if there is no data
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

// wanted describes the JSON form of a Go type.
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
