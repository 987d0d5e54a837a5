package admission

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// MiddlewareOptions are the settings of a Middleware. Zero fields mean what is said beside them.
type MiddlewareOptions struct {
	// Cost is how much a request takes, at least 1: 1.
	Cost func(*http.Request) int64
	// Logger is told of requests that could not be decided about. Nil discards.
	Logger *slog.Logger
}

// Middleware returns what puts a rule in front of a handler: a request passes if the rule allows it under the request's
// key. What the rule says is told in the fields RateLimit-Policy and RateLimit. A request that is refused gets 429 with
// Retry-After and problem details (RFC 9457). A rule whose action is shadow refuses nobody and adds no fields; one that
// defers, which is for jobs, refuses here.
//
// While the store is away, the rule's Away decides. A request without a key, or one that costs more than the rule ever
// lets through, is answered 400. If nothing can be decided, because the rule is not there or was never seen, the answer
// is 503.
//
// Middlewares can be nested. What an outer one took is not given back if an inner one refuses.
//
// Under a rule of concurrency a request holds its place until the handler has returned or panicked. The place is
// renewed while that takes longer than the rule's ttl. If renewing fails for as long as the ttl, another request may
// get the place as well.
func Middleware(a *Admission, rule string, key KeyFunc, o MiddlewareOptions) func(http.Handler) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) int64 { return 1 }
	}
	return func(next http.Handler) http.Handler { return &guard{a, rule, key, o, next} }
}

// guard is a Middleware in front of a handler.
type guard struct {
	a    *Admission
	rule string
	key  KeyFunc
	o    MiddlewareOptions
	next http.Handler
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, err := g.key(r)
	if err != nil {
		refuseRequest(w, err)
		return
	}
	take := rules.Take{Key: key, Cost: g.o.Cost(r)}
	taken, err := g.a.Take(r.Context(), g.rule, []rules.Take{take})
	if err == nil && len(taken) != 1 {
		err = queue.ErrOutcomeUnknown // no engine answers so
	}
	if err != nil {
		if r.Context().Err() == nil {
			g.o.Logger.Error("a rule could not be asked, and the request was not let through", "rule", g.rule, "error", err)
		}
		refuseAway(w, g.rule)
		return
	}
	t := &taken[0]
	switch {
	case t.Err != nil:
		refuseRequest(w, t.Err)
		return
	case !t.Shadow:
		g.tell(r.Context(), w.Header(), key, &t.Decision)
		if !t.Allowed {
			refuseLimit(w, g.rule, t)
			return
		}
	}
	if t.Lease != "" && t.Allowed {
		defer g.hold(r.Context(), take, t)()
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) tell(ctx context.Context, head http.Header, key string, d *leaky.Decision) {
	rule, _, err := g.a.Rule(ctx, g.rule)
	if err != nil { // it has gone in this instant
		rule.Name = g.rule
	}
	said := http.Header{}
	SetFields(said, []Quota{QuotaOf(&rule, key, d)})
	for name, values := range said { // beside what a Middleware in front of this one says: both are Lists
		head[name] = append(head[name], values...)
	}
}

// hold renews a place until its end is called, which gives it back.
func (g *guard) hold(ctx context.Context, take rules.Take, t *rules.Taken) (end func()) {
	take.Lease = t.Lease
	// The request may be over before the place is given back, and the handler may outlive it.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.renew(ctx, take, t.ResetAfter)
	}()
	return func() {
		stop()
		<-over
		back := take
		back.Op = rules.TakeBack
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
		defer cancel()
		if _, err := g.a.Take(short, g.rule, []rules.Take{back}); err != nil && !errors.Is(err, rules.ErrUnknown) {
			g.o.Logger.Warn("a place was not given back; it is free when its ttl is over", "rule", g.rule, "error", err)
		}
	}
}

// renew renews a place every third of the rule's ttl, until ctx ends. The ttl is looked at more often than that: where
// it was lowered the store ends places sooner than they were told.
func (g *guard) renew(ctx context.Context, take rules.Take, ttl time.Duration) {
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(max(ttl/3-time.Since(renewed), time.Millisecond), refreshAge)):
		}
		if rule, _, err := g.a.Rule(ctx, g.rule); err == nil && rule.Algorithm == leaky.AlgorithmConcurrency {
			bound := rule.Of(take.Key)
			ttl = bound.TTL.D()
		}
		if time.Since(renewed) >= ttl/3 {
			_, _ = g.a.Take(ctx, g.rule, []rules.Take{take}) // if it failed, the next may not
			renewed = time.Now()
		}
	}
}
