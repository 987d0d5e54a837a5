package api

import (
	"net/http"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// listDrainers answers with the drainers that live.
func (h *handler) listDrainers(w http.ResponseWriter, r *http.Request) {
	drainers, err := h.engine.Drainers(r.Context())
	if err != nil {
		h.fail(w, err, "")
		return
	}
	h.writeJSON(w, r, http.StatusOK, shownDrainers(&drainers))
}

func shownDrainers(seen *queue.Drainers) wire.Drainers {
	list, all := make([]wire.Drainer, 0, len(seen.Seen)), 0.
	for _, d := range seen.Seen {
		list = append(list, wire.Drainer{ID: d.ID, Name: d.Name, Version: d.Version, LastSeen: d.LastSeen.UTC()})
		all += d.Outflow
	}
	for i, d := range seen.Seen {
		if share := d.Outflow / all; all > 0 {
			list[i].Share = &share
		} else if len(list) == 1 { // whatever leaves goes to it
			list[i].Share = new(1.)
		}
	}
	return wire.Drainers{
		Drainers: list, LastSeen: instant(seen.Last), Now: seen.Now.UTC(), Version: ops.Version,
	}
}
