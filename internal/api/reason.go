package api

import (
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
)

// readReason reads the body of a pause: nothing, or {"reason": "..."}.
func (h *handler) readReason(r *http.Request) (string, *Problem) {
	if p := requireJSON(r); p != nil && r.ContentLength != 0 {
		return "", p
	}
	body, charged, p := h.readBody(r, nil, maxSmallBody)
	defer h.memory.free(charged)
	if p != nil {
		return "", p
	}
	var v struct {
		Reason string `json:"reason"`
	}
	if len(body) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(body, &v, json.RejectUnknownMembers(true)); err != nil {
		return "", refusedJSON(err)
	}
	if len(v.Reason) > queue.MaxReasonBytes {
		return "", tooLarge("reason", "the reason", queue.MaxReasonBytes)
	}
	return v.Reason, nil
}

// refusedJSON tells of JSON that does not fit a Go value.
func refusedJSON(err error) *Problem {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return &Problem{Reason: ReasonUnknownField, Field: fieldPath(semantic.JSONPointer), Detail: "is not a field here"}
	case errors.As(err, &semantic):
		return &Problem{Reason: ReasonInvalidField, Field: fieldPath(semantic.JSONPointer), Detail: "has the wrong type"}
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic):
		return &Problem{Reason: ReasonDuplicateField, Field: fieldPath(syntactic.JSONPointer), Detail: "is given twice"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Reason: ReasonInvalidJSON, Detail: "the JSON ends in the middle"}
	}
	return &Problem{Reason: ReasonInvalidJSON, Detail: shorten(err.Error())}
}
