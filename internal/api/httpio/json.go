package httpio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// MaxShown is how many bytes of an input are quoted in an answer.
const MaxShown = 80

// Shorten cuts a text to MaxShown bytes.
func Shorten(s string) string {
	if len(s) <= MaxShown {
		return s
	}
	return strings.ToValidUTF8(s[:MaxShown], "") + "..."
}

// BadField returns the problem for a field with an invalid value.
func BadField(field, detail string) *Problem {
	return &Problem{Reason: ReasonInvalidField, Field: field, Detail: detail}
}

// Duplicate returns the problem for a field that is given twice.
func Duplicate(field string) *Problem {
	return &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
}

// TooLarge returns the problem for a text that exceeds a limit in bytes. what names it, as in "the body".
func TooLarge(field, what string, limit int64) *Problem {
	return &Problem{
		Reason: ReasonTooLarge, Field: field, Limit: limit,
		Detail: fmt.Sprintf("%s is larger than the limit of %d bytes", what, limit),
	}
}

// Decode reads a JSON object into v and refuses unknown fields. It also refuses null: decoding it would yield an empty
// object, and the request would be executed.
func Decode(text []byte, v any, options ...json.Options) *Problem {
	var deep *jsondepth.Error
	if errors.As(jsondepth.Check(text, jsondepth.Max), &deep) {
		return &Problem{Reason: ReasonInvalidJSON, Field: deep.Field, Detail: deep.Error()}
	}
	if err := json.Unmarshal(text, v, json.RejectUnknownMembers(true), json.JoinOptions(options...)); err != nil {
		return decodeProblem(err)
	}
	if jsontext.Value(text).Kind() == 'n' {
		return &Problem{
			Reason: ReasonInvalidJSON, Detail: "is null, must be an object; omit the body for the defaults",
		}
	}
	return nil
}

// decodeProblem returns the problem for JSON that does not fit a Go value.
func decodeProblem(err error) *Problem {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return &Problem{
			Reason: ReasonUnknownField, Field: fieldPath(semantic.JSONPointer), Detail: "is not a known field" +
				invalid.DidYouMean(semantic.JSONPointer.LastToken(), invalid.Members(semantic.GoType)),
		}
	case errors.As(err, &semantic) && semantic.GoType == reflect.TypeFor[unit.Duration]():
		return BadField(fieldPath(semantic.JSONPointer), `must be a duration in quotes, such as "30s" or "250ms"`)
	case errors.As(err, &semantic):
		return BadField(fieldPath(semantic.JSONPointer), "is "+given(semantic)+", must be "+wanted(semantic.GoType))
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return Duplicate(fieldPath(syntactic.JSONPointer))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Reason: ReasonInvalidJSON, Detail: "the JSON ends in the middle"}
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		return &Problem{
			Reason: ReasonInvalidJSON, Field: fieldPath(syntactic.JSONPointer),
			Detail: fmt.Sprintf("%s, at byte %d", Shorten(syntactic.Err.Error()), syntactic.ByteOffset),
		}
	}
	return &Problem{Reason: ReasonInvalidJSON, Detail: Shorten(err.Error())}
}

// given describes the JSON value that was given. A number is shown itself.
func given(e *json.SemanticError) string {
	switch e.JSONKind {
	case '"':
		return "a string"
	case '0':
		switch {
		case errors.Is(e.Err, strconv.ErrRange):
			return "a number beyond 64 bits"
		case len(e.JSONValue) > 0:
			return Shorten(string(e.JSONValue))
		}
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f', 'n':
		return e.JSONKind.String()
	}
	return "something else"
}

// wanted describes the JSON of a Go type.
func wanted(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return `a time such as "2026-01-02T15:04:05Z"`
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another value"
}

// fieldPath converts a JSON pointer to a field path: /headers/a to headers.a.
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
		if b.Len() > MaxShown {
			break
		}
	}
	return Shorten(b.String())
}

// TooMany reports whether a JSON list, or a list in an object, has more than most elements. It is called before the
// elements are decoded: a body of 1 MiB has room for 350,000 empty objects, which need a hundred times as much memory
// when decoded as leases.
func TooMany(raw []byte, most int) bool {
	if bytes.Count(raw, []byte{','}) < most {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	list := 0 // the depth of the list under way
	for n := 0; ; {
		token, err := d.ReadToken()
		if err != nil {
			return false // the end, or invalid JSON, which Decode reports
		}
		switch {
		case list == 0 && token.Kind() == '[':
			list = d.StackDepth()
		case list > 0 && d.StackDepth() < list:
			list, n = 0, 0
		case list > 0 && (d.StackDepth() == list || d.StackDepth() == list+1 && (token.Kind() == '{' || token.Kind() == '[')):
			if token.Kind() == '}' || token.Kind() == ']' {
				continue
			}
			if n++; n > most {
				return true
			}
		}
	}
}

// view returns b as a string, which is valid while b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
