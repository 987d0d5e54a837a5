package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue/names"
)

// How long a request waits for a turn: there is none that takes no time to be granted.
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
		p.write(w)
		return
	}
	wait := defaultTurnWait
	if v.Wait != nil {
		wait = v.Wait.D()
	}
	if p := checkWait(wait, minTurnWait); p != nil {
		p.write(w)
		return
	}
	if err := names.Validate(name); err != nil {
		unknownQueue(name).write(w)
		return
	}
	ctx, leave, p := h.wait(w, r, wait)
	if p != nil {
		p.write(w)
		return
	}
	defer leave()
	begun := time.Now()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	err := h.o.Turns.Wait(ctx, name, appNameOf(r.Context()), wait)
	var later *pull.Later
	switch {
	case err == nil:
		h.writeJSON(w, r, http.StatusOK, wire.Turn{WaitedMS: time.Since(begun).Milliseconds()})
	case r.Context().Err() != nil: // nobody reads the answer
	case lost(ctx, w) != nil:
		lost(ctx, w).write(w)
	case ctx.Err() != nil:
		stopped(w, "your place was given back")
	case errors.As(err, &later):
		(&Problem{
			Reason: ReasonNoTurn, RetryAfter: max(later.In, time.Millisecond),
			Detail: "your turn would not come within " + wait.String() + "; after retry_after_ms it would",
		}).write(w)
	case errors.Is(err, pull.ErrCrowded), errors.Is(err, pull.ErrOverloaded):
		crowded(w, err.Error())
	default:
		h.fail(w, err, name)
	}
}
