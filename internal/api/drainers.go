package api

import (
	"net/http"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
)

// listDrainers answers with the drainers that live.
func (h *handler) listDrainers(w http.ResponseWriter, r *http.Request) {
	drainers, err := h.engine.Drainers(r.Context())
	if err != nil {
		h.fail(w, err, "")
		return
	}
	list := make([]wire.Drainer, 0, len(drainers.Seen))
	for _, d := range drainers.Seen {
		list = append(list, wire.Drainer{ID: d.ID, Name: d.Name, Version: d.Version, LastSeen: d.LastSeen.UTC()})
	}
	h.writeJSON(w, r, http.StatusOK, wire.Drainers{
		Drainers: list, LastSeen: instant(drainers.Last), Now: drainers.Now.UTC(), Version: ops.Version,
	})
}
