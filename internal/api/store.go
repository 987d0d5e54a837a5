package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// storeAge is how old what is told of the store may be: however many ask, it is asked as often.
const storeAge = 5 * time.Second

// storeState is what was last told of the store.
type storeState struct {
	mu   sync.Mutex
	at   time.Time
	told wire.Store
}

// getStore tells how full the store is, and who drains it.
func (h *handler) getStore(w http.ResponseWriter, r *http.Request) {
	s, err := h.store.latest(r.Context(), h.engine)
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
	h.writeJSON(w, r, http.StatusOK, s)
}

func (s *storeState) latest(ctx context.Context, store queue.Store) (wire.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < storeAge {
		return s.told, nil
	}
	totals, err := store.Totals(ctx)
	if err != nil {
		return wire.Store{}, err
	}
	space, err := store.Space(ctx)
	if err != nil {
		return wire.Store{}, err
	}
	drainers, err := store.Drainers(ctx)
	if err != nil {
		return wire.Store{}, err
	}
	s.told = wire.Store{
		Queues: totals.Queues, Used: space.Used, Deferred: totals.Deferred, Overflow: "ok",
		Drainers: shownDrainers(&drainers),
	}
	if space.Limit > 0 {
		s.told.Stop = space.Stop
	}
	s.at = time.Now()
	return s.told, nil
}
