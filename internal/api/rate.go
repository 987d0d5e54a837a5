package api

import (
	"context"
	"errors"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// holdToRate puts the rule by which an app is held to the rate of its requests, or deletes it if there is no such rate.
// The app that was changed last decides, whoever else changes it at the same time.
func (h *handler) holdToRate(ctx context.Context, by *auth.Identity, app *auth.App) error {
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

// readyRate puts the rule of an app that is going to have a rate. An app is never without the rule of its rate: the
// rule comes first, and goes last.
func (h *handler) readyRate(ctx context.Context, app *auth.App) error {
	if err := app.Validate(); err != nil || app.Limits.Rate == leaky.Unlimited {
		return err
	}
	return h.putRate(ctx, app)
}

// keepToRate puts the rule of an app as the app says that was not changed after all, or deletes it if there is none.
func (h *handler) keepToRate(ctx context.Context, name string) {
	app, err := h.o.Auth.App(ctx, caller(ctx), name)
	if errors.Is(err, document.ErrUnknown) {
		app, err = auth.App{Name: name}, nil
	}
	if err == nil {
		err = h.putRate(ctx, &app)
	}
	if err != nil {
		h.o.Logger.Warn("the rule of an app may be another than its rate; put the app again", "app", name, "error", err)
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

// rateBurst is how many requests may come at once: those of a second.
func rateBurst(r leaky.Rate) int64 { return max(1, min(int64(r.PerSecond()), leaky.MaxLimit)) }

// withinRate asks the rule of an app for one request. While the rule is missing nothing is held to it.
func (h *handler) withinRate(ctx context.Context, app *auth.App) *Problem {
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
		return refusedTake(err, name)
	}
	if a := &taken[0]; !a.Allowed && !a.Shadow {
		p := limitReached(&rules.Ruling{Rule: name, Away: a.Away, MaxKeys: a.MaxKeys, Decision: a.Decision}, "it")
		p.Detail = "the app " + app.Name + " makes more than " + app.Limits.Rate.String() +
			" requests (limits.rate); retry_after_ms is when the next may come"
		return p
	}
	return nil
}
