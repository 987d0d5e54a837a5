package api

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

// storeAge is how old what is told of the store may be: however many ask, it is asked as often.
const storeAge = 5 * time.Second

// getStore tells how full the store is, and who drains it.
func (h *handler) getStore(w http.ResponseWriter, r *http.Request) {
	s, err := h.store.get(r.Context(), struct{}{}, storeAge, h.readStore)
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
	// It tells of networks, so only to whoever may have targets there.
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
		Queues: totals.Queues, Used: space.Used, Deferred: totals.Deferred, Overflow: "ok",
		Drainers: shownDrainers(&drainers),
	}
	if space.Limit > 0 {
		s.Stop = space.Stop
	}
	return s, nil
}
