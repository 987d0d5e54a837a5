package api

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
)

// headerBy notes who makes a change. Nothing verifies it: wherever it is shown it is called a claim.
const headerBy = "Penstock-By"

// change serves a change, with a context that has who makes it, and logs what it did.
func (h *handler) change(rt *route, w http.ResponseWriter, r *http.Request) {
	actor := actorOf(rt, w, r)
	err := audit.ValidateNote(actor.Note)
	var field *invalid.Error
	if errors.As(err, &field) {
		(&Problem{Reason: ReasonInvalidRequest, Field: headerBy, Detail: field.Value + " " + field.Reason}).write(w)
		return
	}
	ctx, end := h.logged(audit.WithActor(r.Context(), actor))
	defer end()
	n := &noting{ResponseWriter: w}
	rt.serve(h, n, r.WithContext(ctx))
	if n.refused != nil {
		h.noteRefusal(rt, w, r, n.refused)
	}
}

// actorOf is who makes a request, for the records of what it does.
func actorOf(rt *route, w http.ResponseWriter, r *http.Request) (a audit.Actor) {
	if id := caller(r.Context()); id != nil {
		a = id.Actor
	}
	a.Address, a.Request, a.Operation = addressOf(r), w.Header()[headerRequest][0], rt.operation
	a.Note = strings.Join(r.Header.Values(headerBy), ", ")
	return a
}

// addressOf is where a request came from, without the port; empty of one that came by no network.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || len(host) > audit.MaxActorBytes {
		return ""
	}
	return host
}
