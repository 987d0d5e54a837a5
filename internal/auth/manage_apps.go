package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// App returns an app.
func (a *Authority) App(ctx context.Context, by *Identity, name string) (App, error) {
	if err := by.maySee(name); err != nil {
		return App{}, err
	}
	app, err := a.appNamed(ctx, name)
	if err != nil || app == nil {
		return App{}, cmpErr(err, document.Unknown(KindApp, name))
	}
	return *app, nil
}

// maySee returns an error unless the caller may see an app: its own, or any for an operator.
func (i *Identity) maySee(app string) error {
	switch {
	case i.App != nil && i.App.Name != app:
		return document.Unknown(KindApp, app)
	case i.App == nil && !i.Everything(View):
		return refuse(Forbidden, "you need the role "+string(View)+" for everything")
	}
	return nil
}

func cmpErr(err, or error) error {
	if err != nil {
		return err
	}
	return or
}

// Apps returns up to limit apps after a name, in order.
func (a *Authority) Apps(ctx context.Context, by *Identity, after string, limit int) ([]App, error) {
	own := ""
	if by.App != nil {
		own = by.App.Name
	}
	if err := by.maySee(own); err != nil {
		return nil, err
	}
	if err := a.fresh(ctx); err != nil {
		return nil, err
	}
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	found := listed(a.replica.view.apps, after, limit, func(name string, _ *App) bool { return own == "" || name == own })
	apps := make([]App, len(found))
	for n := range found {
		apps[n] = *found[n]
	}
	return apps, nil
}

// PutApp creates or updates an app, as document.Documents.PutDocument does, and returns the result. With ErrRevision it
// returns an App with only the present revision. Prefixes must not overlap with those of other apps. Two apps created
// at the very same time can still get the same prefixes.
func (a *Authority) PutApp(ctx context.Context, by *Identity, app App, expect int64) (App, error) {
	if err := by.mustBeOperator(); err != nil {
		return App{}, err
	}
	if err := app.Validate(); err != nil {
		return App{}, err
	}
	if err := a.fresh(ctx); err != nil {
		return App{}, err
	}
	if err := a.prefixesFree(&app); err != nil {
		return App{}, err
	}
	for {
		old, err := a.appNamed(ctx, app.Name)
		at := int64(0)
		switch {
		case err == nil:
			app.Created, app.New, at = old.Created, false, old.Revision
			app.Gained = app.gained(old, now())
		case errors.Is(err, document.ErrUnknown):
			app.Created, app.New, app.Gained = now(), true, nil
		default:
			return App{}, err
		}
		if expect != queue.AnyRevision && expect != at {
			return App{Revision: at}, fmt.Errorf("app %s: %w", app.Name, queue.ErrRevision)
		}
		// Put at the revision that was just read, since Created must be copied from the app that is overwritten.
		app.Revision, err = a.put(ctx, KindApp, app.Name, &app, at)
		if expect == queue.AnyRevision && errors.Is(err, queue.ErrRevision) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return App{Revision: app.Revision}, err
		}
		return app, nil
	}
}

// prefixesFree checks that no other app has names in common.
func (a *Authority) prefixesFree(app *App) error {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	for _, other := range a.replica.view.apps {
		if other.Name == app.Name {
			continue
		}
		for n, p := range app.Prefixes {
			for _, q := range other.Prefixes {
				if overlap(p, q) {
					return &invalid.Error{
						Field: fmt.Sprintf("prefixes[%d]", n), Value: clip.Quote(p, 80),
						Reason: fmt.Sprintf("overlaps with the prefix %[2]s of the app %[1]s", other.Name, q),
					}
				}
			}
		}
	}
	return nil
}

// DeleteApp deletes an app. Its tokens and subjects end at once; its queues and rules become the operator's. With
// ErrRevision it returns the present revision.
func (a *Authority) DeleteApp(ctx context.Context, by *Identity, name string, expect int64) (int64, error) {
	if err := by.mustBeOperator(); err != nil {
		if by.App == nil || by.App.Name == name {
			return 0, err
		}
		return 0, document.Unknown(KindApp, name)
	}
	if err := ValidateAppName("name", name); err != nil {
		return 0, document.Unknown(KindApp, name)
	}
	return a.remove(ctx, KindApp, name, expect)
}

// AppWith returns the app that owns a queue, as far as known here; nil for the operator.
func (a *Authority) AppWith(name string) *App {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	for _, app := range a.replica.view.apps {
		if app.owns(name) {
			return app
		}
	}
	return nil
}
