package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// maxWait is the longest that a request waits. It is below what proxies and clients take for a server that does not
// answer.
const maxWait = time.Minute

// TakeWaiter lets takes wait for what a rule refuses now. An admission.Admission is one.
type TakeWaiter interface {
	TakeWait(ctx context.Context, rule string, t rules.Take, within time.Duration) (rules.Taken, error)
	GiveBack(ctx context.Context, rule string, t rules.Take, answer rules.Taken)
}

// wait lets a request wait until leave is called, unless too many do. The server reads ahead to notice that the client
// goes away, and a deadline that passes there would look like that. An error of those means that there is no
// connection, and no deadline. The context ends when whoever waits loses what he may do.
func (h *handler) wait(
	w http.ResponseWriter, r *http.Request, wait time.Duration,
) (ctx context.Context, leave func(), p *Problem) {
	free, p := h.open.open(r.Context(), "waits", limitWaits)
	if p != nil {
		return nil, nil, p
	}
	places := h.waits.Open(h.account(r).Client())
	if err := places.Take(1); err != nil {
		places.Close()
		free()
		p := overBudget(err)
		p.Detail = "too many requests wait at once"
		return nil, nil, p
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Now().Add(wait + h.o.AnswerTimeout))
	ctx, unwatch := h.watched(r.Context())
	return ctx, func() {
		unwatch()
		places.Free(1)
		places.Close()
		free()
	}, nil
}

// untilStop is a context that ends when the server stops too.
func (h *handler) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(h.o.Stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}

// stopped answers a request whose wait was cut short because the server stops.
func stopped(w http.ResponseWriter, detail string) {
	(&Problem{Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping; " + detail}).write(w)
}

// crowded answers a request that may not wait beside so many others.
func crowded(w http.ResponseWriter, detail string) {
	(&Problem{Reason: ReasonCrowded, RetryAfter: retryOverloaded, Detail: detail}).write(w)
}

func checkWait(wait, least time.Duration) *Problem {
	if wait < least || wait > maxWait {
		return badField("wait", "is "+wait.String()+", must be from "+least.String()+" to "+maxWait.String())
	}
	return nil
}

// takeWaiting answers a single take whose caller waits.
func (h *handler) takeWaiting(w http.ResponseWriter, r *http.Request, name string, q *questions) {
	ctx, leave, p := h.wait(w, r, q.wait)
	if p != nil {
		p.write(w)
		return
	}
	defer leave()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	t := q.takes[0]
	taken, err := h.o.Waits.TakeWait(ctx, name, t, q.wait)
	switch {
	case r.Context().Err() != nil: // nobody reads the answer
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
		return
	case lost(ctx, w) != nil:
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
		lost(ctx, w).write(w)
		return
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		stopped(w, "nothing was taken")
		return
	case errors.Is(err, admission.ErrCrowded):
		crowded(w, err.Error())
		return
	case err != nil:
		h.failTake(w, err, name)
		return
	}
	h.tops.taken(r.Context(), name, []rules.Take{t}, []rules.Taken{taken})
	h.answerTake(w, r, name, rules.TakeNow, q, &taken)
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) { // the client has gone
		for _, number := range q.receipts { // it may have been read
			h.receipts.mark(number, true)
		}
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
	}
}

// waitOf reads how long a take waits.
func waitOf(v *unit.Duration, op rules.TakeOp, list bool) (time.Duration, *Problem) {
	switch {
	case v == nil:
		return 0, nil
	case op != rules.TakeNow:
		return 0, &Problem{Reason: ReasonUnknownField, Field: "wait", Detail: "is a field of take only"}
	case list:
		return 0, badField("wait", "is for one take, not for a list of "+strconv.Itoa(rules.MaxTakes))
	}
	return v.D(), checkWait(v.D(), 0)
}
