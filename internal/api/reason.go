package api

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
)

// readPause reads the body of a pause: nothing, or {"reason": "...", "until": "..."}.
func (h *handler) readPause(r *http.Request) (pause queue.Pause, p *Problem) {
	if p := requireJSON(r); p != nil && r.ContentLength != 0 {
		return pause, p
	}
	body, charged, p := h.readBody(r, nil, maxSmallBody)
	defer h.memory.free(charged)
	if p != nil || len(body) == 0 {
		return pause, p
	}
	var v struct {
		Reason string     `json:"reason"`
		Until  *time.Time `json:"until"`
	}
	if err := json.Unmarshal(body, &v, json.RejectUnknownMembers(true)); err != nil {
		return pause, refusedJSON(err)
	}
	if len(v.Reason) > queue.MaxReasonBytes {
		return pause, tooLarge("reason", "the reason", queue.MaxReasonBytes)
	}
	pause.Reason = v.Reason
	if v.Until != nil {
		if v.Until.IsZero() { // which would mean that there is none
			return pause, badField("until", "must be between the years 2000 and 2200")
		}
		pause.Until = *v.Until
	}
	return pause, nil
}

// refusedJSON tells of JSON that does not fit a Go value.
func refusedJSON(err error) *Problem {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return &Problem{Reason: ReasonUnknownField, Field: fieldPath(semantic.JSONPointer), Detail: "is not a field here"}
	case errors.As(err, &semantic) && semantic.GoType == reflect.TypeFor[queue.Duration]():
		return &Problem{Reason: ReasonInvalidField, Field: fieldPath(semantic.JSONPointer), Detail: `must be a duration in quotes, such as "30s" or "250ms"`}
	case errors.As(err, &semantic):
		return &Problem{Reason: ReasonInvalidField, Field: fieldPath(semantic.JSONPointer), Detail: "has the wrong type"}
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return &Problem{Reason: ReasonDuplicateField, Field: fieldPath(syntactic.JSONPointer), Detail: "is given twice"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Reason: ReasonInvalidJSON, Detail: "the JSON ends in the middle"}
	}
	return &Problem{Reason: ReasonInvalidJSON, Detail: shorten(err.Error())}
}
