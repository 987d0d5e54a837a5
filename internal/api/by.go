package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/penstock/penstock/queue"
)

// headerBy names who makes a change. It is believed: there is nothing to check it by.
const headerBy = "Penstock-By"

// named serves a change of a queue, with a context that says by whom it is.
func named(change func(*handler, http.ResponseWriter, *http.Request)) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		name := strings.Join(r.Header.Values(headerBy), ", ")
		err := queue.ValidateBy(name)
		var field *queue.FieldError
		if errors.As(err, &field) {
			(&Problem{Reason: ReasonInvalidRequest, Field: headerBy, Detail: field.Value + " " + field.Reason}).write(w)
			return
		}
		change(h, w, r.WithContext(queue.WithBy(r.Context(), name)))
	}
}
