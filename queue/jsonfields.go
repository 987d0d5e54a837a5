package queue

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/jsondepth"
)

// document is a kind of thing that people write in JSON, and that is read strictly.
type document struct {
	name  string // of the whole, in errors
	of    string // what its fields are of
	most  int    // bytes
	wants map[string]string
	// zeroless reports whether a field is one that must not be 0, because its zero value says something else.
	zeroless func(path string) bool
}

// read reads data into what has the defaults, and returns which fields are given, by their dotted paths.
func (d document) read(data []byte, into any) (given map[string]bool, err error) {
	if len(data) > d.most {
		return nil, FieldErrorf(d.name, "", "has %d bytes, the limit is %d", len(data), d.most)
	}
	var deep *jsondepth.Error
	if errors.As(jsondepth.Check(data, jsondepth.Max), &deep) {
		return nil, FieldErrorf(cmp.Or(deep.Field, d.name), "", "%v", deep)
	}
	// Names that are given twice, and bad UTF-8, are found by Unmarshal.
	in := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if in.PeekKind() != '{' {
		if _, err := in.ReadValue(); err != nil {
			return nil, d.fieldErr(err)
		}
		return nil, FieldErrorf(d.name, "", "must be a JSON object")
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
func (d document) given(in *jsontext.Decoder) (map[string]bool, error) {
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
			return nil, FieldErrorf(d.field(in.StackPointer()), "", "is null; leave it out for the default")
		case kind == '0' && t.String() == "0" && d.zeroless != nil && d.zeroless(string(at.path)):
			return nil, FieldErrorf(d.field(in.StackPointer()), "", "is 0, must be at least 1; leave it out for no limit")
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
func (d document) field(p jsontext.Pointer) string {
	return cmp.Or(jsondepth.ShortPath(dotted(p)), d.name)
}

// fieldErr turns an error of the JSON package into a *FieldError.
func (d document) fieldErr(err error) *FieldError {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		field := d.field(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return FieldErrorf(field, "", "is given twice")
		}
		return FieldErrorf(field, "", "is not valid JSON near byte %d: %v", syntactic.ByteOffset, syntactic.Err)
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return FieldErrorf(d.name, "", "is not valid JSON: %v", err) // io.EOF, of nothing at all
	}
	field := d.field(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return FieldErrorf(field, "", "is not a field of %s", d.of)
	}
	if (semantic.JSONKind == '"' || semantic.JSONKind == 0 || semantic.GoType == bytesType) && semantic.Err != nil &&
		textual(semantic.GoType) {
		return FieldErrorf(field, "", "%v", semantic.Err)
	}
	return FieldErrorf(
		field, string(semantic.JSONValue), "must be %s",
		cmp.Or(d.wants[semantic.JSONPointer.LastToken()], wanted(semantic.GoType)),
	)
}

var (
	rateType     = reflect.TypeFor[leaky.Rate]()
	durationType = reflect.TypeFor[Duration]()
	quotaType    = reflect.TypeFor[Quota]()
	bytesType    = reflect.TypeFor[Bytes]()
)

func textual(t reflect.Type) bool {
	return t == rateType || t == durationType || t == quotaType || t == bytesType
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
	case t == quotaType:
		return `a string such as "50000/d"`
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
