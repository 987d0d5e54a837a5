package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/penstock/penstock/internal/auth"
)

// watched is the context of a request that stays open: it ends when whoever sent it loses what he may do.
func (h *handler) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	id := caller(ctx)
	if id == nil {
		return ctx, func() {}
	}
	return h.o.Auth.Watch(ctx, id)
}

// lost is why a context of watched has ended, if whoever sent the request lost what he may do; else nil.
func lost(ctx context.Context, w http.ResponseWriter) *Problem {
	var refusal *auth.Refusal
	if cause := context.Cause(ctx); errors.As(cause, &refusal) {
		return refusedAccess(w, cause)
	}
	return nil
}

// appPlaces counts what each app has open.
type appPlaces struct {
	mu sync.Mutex
	of map[openOf]int
}

type openOf struct{ app, what string }

// open counts one more stream, say, of the app that a request is made for, until leave is called, unless the app has as
// many as it may.
func (p *appPlaces) open(
	ctx context.Context, what string, limit func(*auth.Limits) int,
) (leave func(), refused *Problem) {
	app := appOfCaller(ctx)
	if app == nil || limit(&app.Limits) == 0 {
		return func() {}, nil
	}
	key := openOf{app.Name, what}
	p.mu.Lock()
	defer p.mu.Unlock()
	if most := limit(&app.Limits); p.of[key] >= most {
		return nil, &Problem{
			Reason: ReasonAppLimit, RetryAfter: retryOverloaded,
			Detail: "the app " + app.Name + " has " + strconv.Itoa(
				most,
			) + " " + what + " open here, as many as it may (limits." +
				what + ")",
		}
	}
	if p.of == nil {
		p.of = map[openOf]int{}
	}
	p.of[key]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[key]--; p.of[key] == 0 {
			delete(p.of, key)
		}
	}, nil
}

func limitStreams(l *auth.Limits) int { return l.Streams }
func limitWaits(l *auth.Limits) int   { return l.Waits }
