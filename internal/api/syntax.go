package api

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// syntax says where JSON text goes wrong, naming the field that it happens in.
func (e *envelope) syntax(err error) *Problem {
	p := &Problem{Reason: ReasonInvalidJSON}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.Detail = fmt.Sprintf("the JSON ends in the middle, after %d bytes", len(e.raw))
		return p
	}
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		p.Detail = shorten(err.Error())
		return p
	}
	p.Field = fieldPath(s.JSONPointer)
	what := "is not valid JSON"
	if s.Err != nil {
		what = shorten(s.Err.Error())
	}
	p.Detail = fmt.Sprintf("%s, at byte %d", what, s.ByteOffset)
	return p
}

func (e *envelope) notObject() *Problem {
	if _, err := e.dec.ReadValue(); err != nil {
		if len(strings.TrimSpace(view(e.raw))) == 0 {
			return &Problem{Reason: ReasonInvalidJSON, Detail: "the body is empty; a job looks like {\"payload\": ...}"}
		}
		return e.syntax(err)
	}
	return &Problem{
		Reason: ReasonInvalidJSON, Detail: "a job is an object such as {\"payload\": ...}; this is another JSON value",
	}
}

// fieldPath writes a JSON pointer as a field path: /headers/a as headers.a.
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
		if b.Len() > maxShown {
			break
		}
	}
	return shorten(b.String())
}

// text is the plain text of a JSON string, for messages.
func text(v jsontext.Value) string {
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return string(v)
	}
	return string(b)
}

// maxShown is how much of an input is repeated in an answer.
const maxShown = 80

func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

func badField(field, detail string) *Problem {
	return &Problem{Reason: ReasonInvalidField, Field: field, Detail: detail}
}

func tooLarge(field, what string, limit int64) *Problem {
	return &Problem{
		Reason: ReasonTooLarge, Field: field, Limit: limit,
		Detail: fmt.Sprintf("%s is larger than the limit of %d bytes", what, limit),
	}
}

// view is b as a string for as long as b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
