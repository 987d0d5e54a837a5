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

// How long a caller may take to report what it used.
const (
	minReport = time.Second
	maxReport = time.Hour
)

// awaitTurn waits for the caller's turn in a pull queue.
func (h *handler) awaitTurn(w http.ResponseWriter, r *http.Request) {
	if h.o.Turns == nil {
		notFound(w, r)
		return
	}
	name := r.PathValue("queue")
	ask, report, p := h.readTurn(r)
	if p != nil {
		p.Write(w)
		return
	}
	wait := ask.Within
	ctx, leave, p := h.wait(w, r, wait)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	begun := time.Now()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	var loan *pull.Loan
	var err error
	if report > 0 {
		loan, err = h.o.Turns.Lend(ctx, name, ask, report)
	} else {
		err = h.o.Turns.Wait(ctx, name, ask)
	}
	var later *pull.Later
	switch {
	case err == nil:
		h.giveTurn(w, r, time.Since(begun), loan)
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
	case errors.Is(err, pull.ErrCrowded), errors.Is(err, pull.ErrOverloaded), errors.Is(err, pull.ErrLent):
		crowded(w, err.Error())
	default:
		h.fail(w, err, name)
	}
}

// readTurn reads a request for a turn, and how long its caller may take to report what it used, 0 if it will not.
func (h *handler) readTurn(r *http.Request) (ask pull.TurnRequest, report time.Duration, p *httpio.Problem) {
	name := r.PathValue("queue")
	var v wire.TurnRequest
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		return ask, 0, p
	}
	ask = pull.TurnRequest{App: appNameOf(r.Context()), Costs: v.Costs, Within: defaultTurnWait}
	if v.Wait != nil {
		ask.Within = v.Wait.D()
	}
	if p := checkWait(ask.Within, minTurnWait); p != nil {
		return ask, 0, p
	}
	if v.ReportWithin != nil {
		report = v.ReportWithin.D()
		if report < minReport || report > maxReport {
			return ask, 0, httpio.BadField("report_within", "is "+report.String()+", must be from "+minReport.String()+" to "+
				maxReport.String()+"; omit it if you will not report what you used")
		}
	}
	if err := queue.ValidateCosts("costs", v.Costs); err != nil {
		return ask, 0, httpio.ProblemOf(err)
	}
	if names.Validate(name) != nil {
		return ask, 0, httpio.UnknownQueue(name)
	}
	return ask, report, nil
}

// giveTurn answers that a turn has come. If nobody reads that, nobody will settle a turn that is lent.
func (h *handler) giveTurn(w http.ResponseWriter, r *http.Request, waited time.Duration, loan *pull.Loan) {
	turn := wire.Turn{WaitedMS: waited.Milliseconds()}
	if loan != nil {
		turn.LentTurn = &wire.LentTurn{Lease: wire.Lease{ID: loan.Lease.ID, Lease: loan.Token}, Costs: loan.Costs}
	}
	h.writeJSON(w, r, http.StatusOK, turn)
	if loan == nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		loan.End()
	}
}
