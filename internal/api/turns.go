package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// How long a request waits for a turn. Granting a turn takes some time.
const (
	minTurnWait     = 100 * time.Millisecond
	defaultTurnWait = 30 * time.Second
)

// awaitTurn waits for the caller's turn in a pull queue.
func (h *handler) awaitTurn(w http.ResponseWriter, r *http.Request) {
	if h.o.Turns == nil {
		notFound(w, r)
		return
	}
	name := r.PathValue("queue")
	var v wire.TurnRequest
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		p.Write(w)
		return
	}
	wait := defaultTurnWait
	if v.Wait != nil {
		wait = v.Wait.D()
	}
	if p := checkWait(wait, minTurnWait); p != nil {
		p.Write(w)
		return
	}
	if err := queue.ValidateCosts("costs", v.Costs); err != nil {
		h.fail(w, err, name)
		return
	}
	if err := names.Validate(name); err != nil {
		httpio.UnknownQueue(name).Write(w)
		return
	}
	ctx, leave, p := h.wait(w, r, wait)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	begun := time.Now()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	err := h.o.Turns.Wait(ctx, name, pull.TurnRequest{App: appNameOf(r.Context()), Costs: v.Costs, Within: wait})
	var later *pull.Later
	switch {
	case err == nil:
		h.writeJSON(w, r, http.StatusOK, wire.Turn{WaitedMS: time.Since(begun).Milliseconds()})
	case r.Context().Err() != nil: // nobody reads the answer
	case lost(ctx, w) != nil:
		lost(ctx, w).Write(w)
	case ctx.Err() != nil, errors.Is(err, pull.ErrStopped):
		stopped(w, "your place was released")
	case errors.As(err, &later):
		(&httpio.Problem{
			Reason: httpio.ReasonNoTurn, RetryAfter: max(later.In, time.Millisecond),
			Detail: "your turn would not come within " + wait.String() + "; retry after retry_after_ms",
		}).Write(w)
	case errors.Is(err, pull.ErrCrowded), errors.Is(err, pull.ErrOverloaded):
		crowded(w, err.Error())
	default:
		h.fail(w, err, name)
	}
}
