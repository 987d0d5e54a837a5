package api

import (
	"net/http"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

// whoami tells who asks, and what he may do.
func (h *handler) whoami(w http.ResponseWriter, r *http.Request) {
	id := caller(r.Context())
	if id == nil {
		h.writeJSON(w, r, http.StatusOK, wire.Whoami{Grants: []auth.Grant{{Role: auth.Admin}}, Auth: "off"})
		return
	}
	who := wire.Whoami{
		Name: id.Actor.Name, App: id.Actor.App, Token: id.Actor.Token, Session: id.Session(), Grants: id.Grants(),
	}
	if id.App != nil {
		who.Prefixes = id.App.Prefixes
	}
	h.writeJSON(w, r, http.StatusOK, who)
}
