package auth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/document"
)

// In all methods, by is the caller. A missing permission is a *Refusal with the code Forbidden. What belongs to another
// app does not exist for the caller. Changes also return the errors of document.Documents: an *invalid.Error,
// queue.ErrRevision, document.ErrUnknown. Changes are recorded under the audit.Actor of ctx.

// isOperator reports whether the caller manages all apps.
func (i *Identity) isOperator() bool { return i.Everything(Admin) }

// mayManage returns an error unless the caller may create and delete tokens or subjects of an app with the given
// permissions: the caller must have all of them. For another app it returns unknown.
func (i *Identity) mayManage(app string, list []Grant, unknown error) error {
	switch {
	case i.isOperator():
		return nil
	case i.App == nil && app != "" || i.App != nil && i.App.Name != app:
		return unknown
	case !i.Has(Admin):
		return refuse(Forbidden, "you need the role "+string(Admin))
	}
	for _, g := range list {
		if !i.coversGrant(g) {
			return refuse(Forbidden, "it includes the role "+string(g.Role)+" for "+nameOf(g.Prefix)+", which you do not have")
		}
	}
	return nil
}

// Manages reports whether the caller may create and delete tokens or subjects of an app with the given permissions.
func (i *Identity) Manages(app string, list []Grant) bool {
	return i.mayManage(app, list, errForeign) == nil
}

var errForeign = errors.New("it is another app's")

// ManagesAll reports whether the caller may manage all tokens of the own app; for operators, everything.
func (i *Identity) ManagesAll() bool { return i.Has(Admin) && i.coversGrant(Grant{Role: Admin}) }

// coversGrant reports whether the caller has a permission, at least within the app's prefixes.
func (i *Identity) coversGrant(g Grant) bool {
	if i.grants.cover(g.Role, g.Prefix) {
		return true
	}
	return g.Prefix == "" && i.App != nil && !slices.ContainsFunc(i.App.Prefixes, func(p string) bool {
		return !i.grants.cover(g.Role, p)
	})
}

func nameOf(prefix string) string {
	if prefix == "" {
		return "all of it"
	}
	return prefix
}

func (i *Identity) mustBeOperator() error {
	if i.isOperator() {
		return nil
	}
	return refuse(Forbidden, "only operators may do this: you need the role "+string(Admin)+" for everything")
}

// appNamed reads an app. It is nil for an empty name, which stands for the operator.
func (a *Authority) appNamed(ctx context.Context, name string) (*App, error) {
	if name == "" {
		return nil, nil
	}
	if err := ValidateAppName("app", name); err != nil {
		return nil, err
	}
	d, err := a.store.Document(ctx, KindApp, name)
	if err != nil {
		return nil, err
	}
	a.replica.learn(d)
	app, err := readApp(&d)
	return &app, err
}

// put writes a document and returns its revision; with ErrRevision, the present revision.
func (a *Authority) put(ctx context.Context, kind, name string, value any, expect int64) (int64, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	d := document.Document{Kind: kind, Name: name, Text: text}
	if err := d.Validate(); err != nil {
		return 0, err
	}
	if d.Revision, err = a.store.PutDocument(ctx, d, expect); err == nil {
		a.replica.learn(d)
	}
	return d.Revision, err
}

// remove deletes a document; with ErrRevision it returns the present revision.
func (a *Authority) remove(ctx context.Context, kind, name string, expect int64) (int64, error) {
	d := document.Document{Kind: kind, Name: name}
	var err error
	if d.Revision, err = a.store.PutDocument(ctx, d, expect); err == nil {
		a.replica.learn(d)
	}
	return d.Revision, err
}

// fresh polls the store, so that lists and decisions are up to date.
func (a *Authority) fresh(ctx context.Context) error { return a.replica.poll(ctx) }

// listed returns up to limit values after a name for which want is true, by name.
func listed[T any](all map[string]T, after string, limit int, want func(name string, v T) bool) []T {
	var names []string
	for name, v := range all {
		if name > after && want(name, v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	values := make([]T, 0, min(limit, len(names)))
	for _, name := range names[:min(limit, len(names))] {
		values = append(values, all[name])
	}
	return values
}

// now returns the present time with the precision that is stored.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
