package api

import (
	"net/http"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/virtualtime"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/invalid"
)

// advanceClock advances the clock of a server for tests.
func (h *handler) advanceClock(w http.ResponseWriter, r *http.Request) {
	if h.o.Clock == nil {
		notFound(w, r)
		return
	}
	var v wire.Advance
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		p.Write(w)
		return
	}
	if by := v.Advance.D(); by <= 0 || by > virtualtime.MaxAdvance {
		httpio.ProblemOf(invalid.Errorf("advance", by.String(), "must be from 1ns to %v", virtualtime.MaxAdvance)).Write(w)
		return
	}
	now, err := h.o.Clock(r.Context(), v.Advance.D())
	if err != nil {
		h.fail(w, err, "")
		return
	}
	h.writeJSON(w, r, http.StatusOK, wire.Clock{Now: instant(now)})
}
