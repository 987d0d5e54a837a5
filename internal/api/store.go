package api

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// storeAge is the maximum age of the store's state. However many clients ask, it is read at most that often.
const storeAge = 5 * time.Second

// getStore answers with the state of the store and its drainers.
func (h *handler) getStore(w http.ResponseWriter, r *http.Request) {
	s, err := h.store.Get(r.Context(), struct{}{}, storeAge, h.readStore)
	if err != nil {
		h.fail(w, err, "")
		return
	}
	switch away, stuck := h.overflowState(); {
	case !h.o.Overflow:
		s.Overflow = "off"
	case away != nil:
		s.Overflow, s.OverflowDetail = "unavailable", away.Error()
	case stuck != nil:
		s.Overflow, s.OverflowDetail = "stuck", stuck.Error()
	}
	// It reveals networks, so only callers who may configure targets see it.
	if id := caller(r.Context()); id == nil || id.Has(auth.Configure) {
		s.EgressAllow = h.o.EgressAllow
	}
	h.writeJSON(w, r, http.StatusOK, s)
}

func (h *handler) readStore(ctx context.Context) (s wire.Store, err error) {
	totals, err := h.engine.Totals(ctx)
	if err != nil {
		return s, err
	}
	space, err := h.engine.Space(ctx)
	if err != nil {
		return s, err
	}
	drainers, err := h.engine.Drainers(ctx)
	if err != nil {
		return s, err
	}
	s = wire.Store{
		Queues: totals.Queues, Used: space.Used, Data: space.Data, Deferred: totals.Deferred, Overflow: "ok",
		Drainers: shownDrainers(&drainers),
	}
	if space.Limit > 0 {
		s.Stop = space.Stop
	}
	return s, nil
}

// listDrainers answers with the live drainers.
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
		} else if len(list) == 1 { // the only drainer gets all departures, even before it has any
			list[i].Share = new(1.)
		}
	}
	return wire.Drainers{
		Drainers: list, LastSeen: instant(seen.Last), Now: seen.Now.UTC(), Version: ops.Version,
	}
}
