package api

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
	"github.com/penstock/penstock/queue/unit"
)

// appOfCaller returns the caller's app. It is nil for operators and without authentication.
func appOfCaller(ctx context.Context) *auth.App {
	if id := caller(ctx); id != nil {
		return id.App
	}
	return nil
}

// appNameOf returns the name of the caller's app, or "".
func appNameOf(ctx context.Context) string {
	if app := appOfCaller(ctx); app != nil {
		return app.Name
	}
	return ""
}

// allowedSpec checks that the caller's app may have a queue: its rules must be the app's own, and all queues of the app
// together must stay within its limits. The caller holds lockLimits.
func (h *handler) allowedSpec(ctx context.Context, spec *queue.Spec) error {
	app := appOfCaller(ctx)
	if app == nil {
		return nil
	}
	for i, name := range spec.Rules {
		if !owns(ctx, name) { // the caller cannot see it
			return ruleset.NoSuch(i, name)
		}
	}
	l := app.Limits
	if l.Queues == 0 && l.Lanes == 0 && l.Bytes == 0 {
		return nil
	}
	var now auth.Usage
	var before *queue.Spec
	err := eachOf(ctx, spansOf(app.Prefixes), h.engine.List, queueName, func(i *queue.Info) {
		now.Add(&i.Spec)
		if i.Spec.Name == spec.Name {
			before = &i.Spec
		}
	})
	if err == nil && l.Bytes > 0 {
		err = h.addFormerDead(ctx, app, spec.Name, &now)
	}
	if err != nil {
		return err
	}
	return l.PermitQueue(now, before, spec)
}

// addFormerDead adds the bytes of dead jobs of deleted queues. If the queue being put was deleted before, its dead jobs
// are left out, since they count toward its own max_bytes.
func (h *handler) addFormerDead(ctx context.Context, app *auth.App, put string, now *auth.Usage) error {
	return eachOf(ctx, spansOf(app.Prefixes), h.engine.DeadQueues, deadName, func(d *queue.DeadQueue) {
		if d.Gone && d.Queue != put {
			now.Bytes += unit.Bytes(d.Bytes)
		}
	})
}

// allowedTarget checks that the app that owns a queue may deliver to its target: its hosts, secrets and senders.
// Operators are bound too, since drainers check the same at each attempt.
func (h *handler) allowedTarget(ctx context.Context, spec *queue.Spec) error {
	app := appOfCaller(ctx)
	if app == nil && h.o.Auth != nil {
		app = h.o.Auth.AppWith(spec.Name)
	}
	if app == nil {
		return nil
	}
	target, err := deliver.Parse(spec.Deliver)
	if err != nil {
		return err
	}
	return app.PermitTarget(target.Kind, target.Setting)
}

// allowedRule checks that the caller's app may have one more rule, unless the rule exists already. The caller holds
// lockLimits.
func (h *handler) allowedRule(ctx context.Context, name string) error {
	app := appOfCaller(ctx)
	if app == nil || app.Limits.Rules == 0 {
		return nil
	}
	if _, err := h.engine.Rule(ctx, name); !errors.Is(err, rules.ErrUnknown) {
		return err
	}
	var now auth.Usage
	err := eachOf(ctx, spansOf(app.Prefixes), h.engine.ListRules, ruleName, func(*rules.Info) { now.Rules++ })
	if err != nil {
		return err
	}
	return app.Limits.PermitRule(now)
}

// lockLimits serializes the puts of an app that has limits, since two together could exceed them. Other apps do not
// wait. Ingresses do not share the lock, so concurrent puts at several ingresses can exceed a limit by one put for each
// further ingress.
func (h *handler) lockLimits(ctx context.Context) (unlock func(), err error) {
	app := appOfCaller(ctx)
	if app == nil || app.Limits == (auth.Limits{}) {
		return func() {}, nil
	}
	return h.puts.Lock(ctx, app.Name)
}

// syncRate puts or deletes the rule that enforces an app's request rate. If the app changes meanwhile, its last state
// decides.
func (h *handler) syncRate(ctx context.Context, by *auth.Identity, app *auth.App) error {
	for range maxKeepTries {
		if err := h.putRate(ctx, app); err != nil {
			return err
		}
		now, err := h.o.Auth.App(ctx, by, app.Name)
		if errors.Is(err, document.ErrUnknown) {
			now, err = auth.App{Name: app.Name}, nil
		}
		if err != nil || now.Limits.Rate == app.Limits.Rate {
			return err
		}
		*app = now
	}
	return nil
}

// prepareRate puts the rule of an app that will get a rate. The rule is created before the rate is stored and deleted
// after the rate is removed, so an app with a rate always has its rule.
func (h *handler) prepareRate(ctx context.Context, app *auth.App) error {
	if err := app.Validate(); err != nil || app.Limits.Rate == leaky.Unlimited {
		return err
	}
	return h.putRate(ctx, app)
}

// restoreRate restores the rule of an app that was not changed after all.
func (h *handler) restoreRate(ctx context.Context, name string) {
	app, err := h.o.Auth.App(ctx, caller(ctx), name)
	if errors.Is(err, document.ErrUnknown) {
		app, err = auth.App{Name: name}, nil
	}
	if err == nil {
		err = h.putRate(ctx, &app)
	}
	if err != nil {
		h.o.Logger.Warn("the rule of an app may not match its rate; put the app again", "app", name, "error", err)
	}
}

func (h *handler) putRate(ctx context.Context, app *auth.App) error {
	name := auth.RateRule(app.Name)
	if app.Limits.Rate == leaky.Unlimited {
		err := h.engine.DeleteRule(ctx, name, queue.AnyRevision)
		if errors.Is(err, rules.ErrUnknown) {
			return nil
		}
		return err
	}
	rule := rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmMeter,
		Bound: rules.Bound{Rate: app.Limits.Rate, Burst: rateBurst(app.Limits.Rate)},
		Away:  rules.AwayShare,
	}
	rule.Normalize()
	if err := rule.Validate(); err != nil {
		return err
	}
	_, err := h.engine.PutRule(ctx, rule, queue.AnyRevision)
	return err
}

// rateBurst returns the burst for a rate: one second's worth of requests.
func rateBurst(r leaky.Rate) int64 { return max(1, min(int64(r.PerSecond()), leaky.MaxLimit)) }

// withinRate takes one request from the app's rule. If the rule is missing, nothing is enforced.
func (h *handler) withinRate(ctx context.Context, app *auth.App) *httpio.Problem {
	if app == nil || app.Limits.Rate == leaky.Unlimited {
		return nil
	}
	name := auth.RateRule(app.Name)
	taken, err := h.engine.Take(ctx, name, []rules.Take{{Op: rules.TakeNow}})
	switch {
	case errors.Is(err, rules.ErrUnknown):
		return nil
	case err == nil:
		err = taken[0].Err
	}
	if err != nil {
		return takeProblem(err, name)
	}
	if a := &taken[0]; !a.Allowed && !a.Shadow {
		p := httpio.LimitReached(&rules.Ruling{Rule: name, Away: a.Away, MaxKeys: a.MaxKeys, Decision: a.Decision}, "it")
		p.Detail = "the app " + app.Name + " makes more than " + app.Limits.Rate.String() +
			" requests (limits.rate); retry after retry_after_ms"
		return p
	}
	return nil
}

// openCounts counts the streams and waiting requests that each app has open.
type openCounts struct {
	mu sync.Mutex
	of map[openOf]int
}

type openOf struct{ app, what string }

// open adds to a count of the caller's app until leave is called, or refuses if the app is at its limit. what is the
// name of the limit, as in "streams".
func (p *openCounts) open(
	ctx context.Context, what string, limit func(*auth.Limits) int,
) (leave func(), refused *httpio.Problem) {
	app := appOfCaller(ctx)
	if app == nil || limit(&app.Limits) == 0 {
		return func() {}, nil
	}
	key := openOf{app.Name, what}
	p.mu.Lock()
	defer p.mu.Unlock()
	if most := limit(&app.Limits); p.of[key] >= most {
		return nil, &httpio.Problem{
			Reason: httpio.ReasonAppLimit, RetryAfter: httpio.RetryOverloaded,
			Detail: "the app " + app.Name + " has " + strconv.Itoa(most) + " " + what + " open here, the maximum (limits." +
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
