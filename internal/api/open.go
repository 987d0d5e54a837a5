package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
)

// watched returns a context for a request that stays open. It ends when the caller loses a permission.
func (h *handler) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	id := caller(ctx)
	if id == nil {
		return ctx, func() {}
	}
	return h.o.Auth.Watch(ctx, id)
}

// lost returns the problem if a watched context ended because the caller lost a permission, else nil.
func lost(ctx context.Context, w http.ResponseWriter) *httpio.Problem {
	var refusal *auth.Refusal
	if cause := context.Cause(ctx); errors.As(cause, &refusal) {
		return authProblem(w, cause)
	}
	return nil
}

// maxWait is the longest wait of a request. It is below the timeouts of common proxies and clients.
const maxWait = time.Minute

// wait reserves a place for a waiting request until leave is called, or refuses if too many wait. ctx ends when the
// caller loses a permission.
//
// The server reads ahead to notice that the client leaves. A read deadline would look like that, so there is none.
// Errors of the deadlines mean that there is no connection.
func (h *handler) wait(
	w http.ResponseWriter, r *http.Request, wait time.Duration,
) (ctx context.Context, leave func(), p *httpio.Problem) {
	free, p := h.open.open(r.Context(), "waits", limitWaits)
	if p != nil {
		return nil, nil, p
	}
	places := h.waits.Open(h.account(r).Client())
	if err := places.Take(1); err != nil {
		places.Close()
		free()
		p := httpio.OverBudget(err)
		p.Detail = "too many requests are waiting"
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

// untilStop returns a context that also ends when the server stops.
func (h *handler) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(h.o.Stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}

// stopped answers a request whose wait ended because the server stops.
func stopped(w http.ResponseWriter, detail string) {
	(&httpio.Problem{
		Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable, Detail: "this server is stopping; " + detail,
	}).Write(w)
}

// crowded answers a request that cannot wait because too many others do.
func crowded(w http.ResponseWriter, detail string) {
	(&httpio.Problem{Reason: httpio.ReasonCrowded, RetryAfter: httpio.RetryOverloaded, Detail: detail}).Write(w)
}

func checkWait(wait, least time.Duration) *httpio.Problem {
	if wait < least || wait > maxWait {
		return httpio.BadField("wait", "is "+wait.String()+", must be from "+least.String()+" to "+maxWait.String())
	}
	return nil
}

// openStream reserves a place and memory for a stream until leave is called, or refuses if there are too many.
func (h *handler) openStream(r *http.Request, cost int64) (leave func(), p *httpio.Problem) {
	free, p := h.open.open(r.Context(), "streams", limitStreams)
	if p != nil {
		return nil, p
	}
	account := h.account(r)
	places := h.streams.Open(account.Client())
	if err := places.Take(1); err != nil {
		places.Close()
		free()
		p := httpio.OverBudget(err)
		p.Detail = "too many streams are open"
		if p.Reason == httpio.ReasonOverShare {
			p.Detail += " from your address; use the open ones"
		}
		return nil, p
	}
	giveUp := func() {
		places.Free(1)
		places.Close()
		free()
	}
	if err := account.Take(cost); err != nil {
		giveUp()
		return nil, httpio.OverBudget(err)
	}
	return func() { account.Free(cost); giveUp() }, nil
}
