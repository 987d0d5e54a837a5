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

// MiddlewareOptions configures a Middleware. Zero fields mean the defaults named.
type MiddlewareOptions struct {
	// Cost returns the cost of a request, at least 1. The default is 1.
	Cost func(*http.Request) int64
	// Unit is the unit of the costs, such as tokens. A rule with a unit needs it.
	Unit string
	// Logger logs requests that could not be decided; nil discards them.
	Logger *slog.Logger
}

// Middleware returns a middleware that applies a rule to requests: a request passes if the rule allows it under the
// request's key. Responses get the rule's state in RateLimit-Policy and RateLimit. A refused request gets 429 with
// Retry-After and problem details (RFC 9457). A rule with the action shadow refuses no request and adds no fields; the
// action defer, which is for jobs, refuses here.
//
// While the store is away, the rule's Away decides. A request without a key, or one that costs more than the rule can
// ever allow, gets 400. If there is no decision, because the rule does not exist or was never seen, it gets 503.
//
// Middlewares can be nested. The takes of an outer one are not given back if an inner one refuses.
//
// With a concurrency rule a request holds its place until the handler returns or panics, and renews it if that takes
// longer than the rule's ttl. If renewing fails for as long as the ttl, another request may get the place as well.
func Middleware(a *Admission, rule string, key KeyFunc, o MiddlewareOptions) func(http.Handler) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) int64 { return 1 }
	}
	return func(next http.Handler) http.Handler { return &guard{a, rule, key, o, next} }
}

// guard is the Middleware of one handler.
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
	take := rules.Take{Key: key, Cost: g.o.Cost(r), Unit: g.o.Unit}
	taken, err := g.a.Take(r.Context(), g.rule, []rules.Take{take})
	if err == nil && len(taken) != 1 {
		err = queue.ErrOutcomeUnknown // cannot happen
	}
	if err != nil {
		if r.Context().Err() == nil {
			g.o.Logger.Error("asking a rule failed; the request was refused", "rule", g.rule, "error", err)
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
		g.setFields(r.Context(), w.Header(), key, &t.Decision)
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

func (g *guard) setFields(ctx context.Context, head http.Header, key string, d *leaky.Decision) {
	rule, _, err := g.a.Rule(ctx, g.rule)
	if err != nil { // deleted just now
		rule.Name = g.rule
	}
	said := http.Header{}
	SetFields(said, []Quota{QuotaOf(&rule, key, d)})
	for name, values := range said { // besides those of an outer Middleware: both are Lists
		head[name] = append(head[name], values...)
	}
}

// hold renews a place until end is called, which gives it back.
func (g *guard) hold(ctx context.Context, take rules.Take, t *rules.Taken) (end func()) {
	take.Lease = t.Lease
	// The request may end before the place is given back, and the handler may outlive it.
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
			g.o.Logger.Warn("giving back a place failed; it becomes free after its ttl", "rule", g.rule, "error", err)
		}
	}
}

// renew renews a place every third of the rule's ttl, until ctx ends. It checks the ttl more often: if the ttl was
// lowered, the store ends places earlier than it said.
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
			_, _ = g.a.Take(ctx, g.rule, []rules.Take{take}) // if this fails, the next may succeed
			renewed = time.Now()
		}
	}
}
