package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/penstock/penstock/queue"
)

// headerBy notes who makes a change. Nothing verifies it: wherever it is shown it is called a claim.
const headerBy = "Penstock-By"

// named serves a change, with a context that has the note of who makes it, and logs what it did.
func named(
	change func(*handler, http.ResponseWriter, *http.Request),
) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		name := strings.Join(r.Header.Values(headerBy), ", ")
		err := queue.ValidateBy(name)
		var field *queue.FieldError
		if errors.As(err, &field) {
			(&Problem{Reason: ReasonInvalidRequest, Field: headerBy, Detail: field.Value + " " + field.Reason}).write(w)
			return
		}
		ctx, end := h.logged(queue.WithBy(r.Context(), name))
		defer end()
		change(h, w, r.WithContext(ctx))
	}
}
