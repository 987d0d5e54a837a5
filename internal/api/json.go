package api

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// refusedJSON tells of JSON that does not fit a Go value.
func refusedJSON(err error) *Problem {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return &Problem{
			Reason: ReasonUnknownField, Field: fieldPath(semantic.JSONPointer), Detail: "is not a field here" +
				invalid.DidYouMean(semantic.JSONPointer.LastToken(), invalid.Members(semantic.GoType)),
		}
	case errors.As(err, &semantic) && semantic.GoType == reflect.TypeFor[unit.Duration]():
		return &Problem{
			Reason: ReasonInvalidField, Field: fieldPath(semantic.JSONPointer),
			Detail: `must be a duration in quotes, such as "30s" or "250ms"`,
		}
	case errors.As(err, &semantic):
		return &Problem{
			Reason: ReasonInvalidField, Field: fieldPath(semantic.JSONPointer),
			Detail: "is " + given(semantic) + ", must be " + wanted(semantic.GoType),
		}
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return &Problem{Reason: ReasonDuplicateField, Field: fieldPath(syntactic.JSONPointer), Detail: "is given twice"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Reason: ReasonInvalidJSON, Detail: "the JSON ends in the middle"}
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		return &Problem{
			Reason: ReasonInvalidJSON, Field: fieldPath(syntactic.JSONPointer),
			Detail: fmt.Sprintf("%s, at byte %d", shorten(syntactic.Err.Error()), syntactic.ByteOffset),
		}
	}
	return &Problem{Reason: ReasonInvalidJSON, Detail: shorten(err.Error())}
}

// given names what was given: of a number, where another one would do, itself.
func given(e *json.SemanticError) string {
	switch e.JSONKind {
	case '"':
		return "a string"
	case '0':
		switch {
		case errors.Is(e.Err, strconv.ErrRange):
			return "a number beyond 64 bits"
		case len(e.JSONValue) > 0:
			return shorten(string(e.JSONValue))
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

// wanted names what a Go type is in JSON.
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
