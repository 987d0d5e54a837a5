package queue

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/leaky"
)

// MaxSpecBytes is the longest spec that ParseSpec reads.
const MaxSpecBytes = 2 * MaxDeliverBytes

// ParseSpec reads a spec from JSON and is strict about it: unknown and repeated
// names, wrong types, nulls and anything behind the spec are errors, each a
// *FieldError with the field's dotted path. What is left out gets its default;
// what is written, a zero too, is taken at its word, so that "capacity": 0 is an
// error and not ten thousand. A rate must be given, here or as the first among the limits. The name may be left out,
// for callers who have it from elsewhere; everything else is valid on return.
func ParseSpec(data []byte) (Spec, error) {
	if len(data) > MaxSpecBytes {
		return Spec{}, fieldErr("spec", "", "has %d bytes, the limit is %d", len(data), MaxSpecBytes)
	}
	given, err := givenFields(data)
	if err != nil {
		return Spec{}, err
	}
	var s Spec
	s.Normalize()
	if err := json.Unmarshal(data, &s, json.RejectUnknownMembers(true)); err != nil {
		return Spec{}, jsonFieldErr(err)
	}
	if !given["rate"] && !given["burst"] {
		given["rate"] = s.hoistRate()
	}
	if !given["rate"] {
		return Spec{}, fieldErr("rate", "", `is missing; give one such as "14/s", or "unlimited"`)
	}
	if len(s.Lanes.Overrides) == 0 {
		s.Lanes.Overrides = nil
	}
	if len(s.Limits) == 0 {
		s.Limits = nil
	}
	if len(s.Rules) == 0 {
		s.Rules = nil
	}
	if !given["retry.max_backoff"] {
		s.Retry.MaxBackoff = 0 // its default depends on min_backoff
		def(&s.Retry.MaxBackoff, max(Duration(DefaultMaxBackoff), s.Retry.MinBackoff))
	}
	if given["adapt"] && !s.Adapt.On() {
		return Spec{}, fieldErr("adapt", "", `is empty; give a floor and a ceiling, such as {"floor": "2/s", "ceiling": "20/s"}`)
	}
	if !given["circuit.max_probe"] {
		s.Circuit.MaxProbe = max(Duration(DefaultMaxProbe), s.Circuit.MinProbe) // it depends on min_probe
	}
	if !given["deferred.max_age"] {
		s.Deferred.MaxAge = s.defaultMaxAge() // it depends on retention.for
	}
	check := s
	if !given["name"] {
		check.Name = "unnamed"
	}
	if err := check.Validate(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// hoistRate makes the first rate among the limits that of the spec, if there is one.
func (s *Spec) hoistRate() bool {
	i := slices.IndexFunc(s.Limits, func(l Limit) bool { return !l.Rate.Unlimited() && l.Paced() })
	if i < 0 {
		return false
	}
	s.Rate, s.Burst = s.Limits[i].Rate, max(1, s.Limits[i].Burst)
	s.Limits = slices.Delete(s.Limits, i, i+1)
	return true
}

// givenFields walks through data and returns the dotted paths of its members,
// down to those of deliver, which is its target's business. A null is an error:
// in YAML it is what a forgotten value looks like.
func givenFields(data []byte) (map[string]bool, error) {
	given := make(map[string]bool)
	d := jsontext.NewDecoder(strings.NewReader(string(data)))
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, jsonFieldErr(err)
		}
		return nil, fieldErr("spec", "", "must be a JSON object")
	}
	for {
		t, err := d.ReadToken()
		if err != nil {
			return nil, jsonFieldErr(err)
		}
		path := dotted(d.StackPointer())
		switch {
		case t.Kind() == '}' && d.StackDepth() == 0:
			return given, nil
		case t.Kind() == 'n':
			return nil, fieldErr(path, "", "is null; leave it out for the default")
		case t.Kind() == '0' && t.String() == "0" && isLimit(path):
			return nil, fieldErr(path, "", "is 0, must be at least 1; leave it out for no limit")
		case t.Kind() == '"' && isName(d):
			given[path] = true
			if path == "deliver" {
				if err := d.SkipValue(); err != nil {
					return nil, jsonFieldErr(err)
				}
			}
		}
	}
}

// isLimit reports whether a field is one whose zero, in a Spec, is no limit. Whoever writes
// a zero there means nothing at all, or everything.
func isLimit(path string) bool {
	return path == "max_in_flight" || path == "max_scheduled" || strings.HasPrefix(path, "lanes.") || strings.HasPrefix(path, "limits.")
}

// isName reports whether the token just read is a member's name.
func isName(d *jsontext.Decoder) bool {
	kind, length := d.StackIndex(d.StackDepth())
	return kind == '{' && length%2 == 1
}

// dotted turns a JSON pointer into the form in which fields are named.
func dotted(p jsontext.Pointer) string {
	var parts []string
	for t := range p.Tokens() {
		parts = append(parts, t)
	}
	if path := strings.Join(parts, "."); path != "" {
		return shortPath(path)
	}
	return "spec"
}

// shortPath keeps a path that the sender made up from filling the error.
func shortPath(path string) string {
	const most = 120
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most], "") + "..."
}

// jsonFieldErr turns an error of the JSON package into a *FieldError.
func jsonFieldErr(err error) *FieldError {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		field := dotted(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fieldErr(field, "", "is given twice")
		}
		return fieldErr(field, "", "is not valid JSON near byte %d: %v", syntactic.ByteOffset, syntactic.Err)
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fieldErr("spec", "", "is not valid JSON: %v", err) // io.EOF, of nothing at all
	}
	field := dotted(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return fieldErr(field, "", "is not a field of a queue's spec")
	}
	if (semantic.JSONKind == '"' || semantic.JSONKind == 0) && semantic.Err != nil && textual(semantic.GoType) {
		return fieldErr(field, "", "%v", semantic.Err)
	}
	return fieldErr(field, string(semantic.JSONValue), "must be %s", wanted(semantic.GoType))
}

var (
	rateType     = reflect.TypeFor[leaky.Rate]()
	durationType = reflect.TypeFor[Duration]()
	quotaType    = reflect.TypeFor[Quota]()
)

func textual(t reflect.Type) bool { return t == rateType || t == durationType || t == quotaType }

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

// EncodeSpec returns the canonical JSON of a spec: two specs are equal just when
// their encodings are, byte for byte, and ParseSpec reads it back.
func EncodeSpec(s Spec) ([]byte, error) {
	deliver, err := canonical(s.Deliver)
	if err != nil {
		return nil, fieldErr("deliver", "", "is not valid JSON: %v", err)
	}
	s.Deliver = deliver
	return json.Marshal(s, json.Deterministic(true))
}

// Equal reports whether two specs say the same, whatever the spacing and the
// order of members in Deliver.
func (s Spec) Equal(t Spec) bool {
	a, errA := canonical(s.Deliver)
	b, errB := canonical(t.Deliver)
	if errA != nil || errB != nil {
		a, b = s.Deliver, t.Deliver
	}
	s.Deliver, t.Deliver = nil, nil
	return reflect.DeepEqual(s, t) && string(a) == string(b)
}

// canonical returns v without spaces and with members in order. Numbers are left
// as written: they may be longer than a double. No target is the empty object.
func canonical(v stdjson.RawMessage) (stdjson.RawMessage, error) {
	if len(v) == 0 {
		return nil, nil
	}
	c := append(jsontext.Value(nil), v...)
	err := c.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if s := string(c); err != nil || s == "null" || s == "{}" {
		return nil, err
	}
	return stdjson.RawMessage(c), nil
}
