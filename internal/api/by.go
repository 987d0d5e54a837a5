package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/penstock/penstock/queue"
)

// headerBy names who makes a change. It is believed: there is nothing to check it by.
const headerBy = "Penstock-By"

// by returns the context of a change, which says by whom it is.
func by(r *http.Request) (context.Context, *Problem) {
	name := strings.Join(r.Header.Values(headerBy), ", ")
	err := queue.ValidateBy(name)
	var field *queue.FieldError
	if errors.As(err, &field) {
		return nil, &Problem{Reason: ReasonInvalidRequest, Field: headerBy, Detail: field.Value + " " + field.Reason}
	}
	return queue.WithBy(r.Context(), name), nil
}
