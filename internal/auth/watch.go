package auth

import (
	"context"
	"slices"
	"sync"
	"time"
)

// watchers are the watched identities.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

type watcher struct {
	id     *Identity
	cancel context.CancelCauseFunc
}

// Watch returns a context that ends within 5 s after the identity loses a permission. Its context.Cause is then a
// *Refusal. It is for streams and requests that wait. Run does the watching. Call the CancelFunc in the end.
func (a *Authority) Watch(ctx context.Context, id *Identity) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{id, cancel}
	if lost := a.lost(id); lost != nil {
		cancel(lost)
	}
	a.watchers.mu.Lock()
	if a.watchers.all == nil {
		a.watchers.all = map[*watcher]struct{}{}
	}
	a.watchers.all[w] = struct{}{}
	a.watchers.mu.Unlock()
	return ctx, func() {
		a.watchers.mu.Lock()
		delete(a.watchers.all, w)
		a.watchers.mu.Unlock()
		cancel(nil)
	}
}

// checkWatched cancels the contexts of identities that lost a permission.
func (a *Authority) checkWatched() {
	a.watchers.mu.Lock()
	defer a.watchers.mu.Unlock()
	for w := range a.watchers.all {
		if lost := a.lost(w.id); lost != nil {
			w.cancel(lost)
			delete(a.watchers.all, w)
		}
	}
}

// lost returns a refusal if an identity has lost a permission, else nil.
func (a *Authority) lost(id *Identity) *Refusal {
	now := time.Now()
	if !id.expires.IsZero() && !now.Before(id.expires) {
		return refuse(Expired, "")
	}
	if id.Actor.Token == "" && id.subject == "" {
		return nil // an operator of the machine itself
	}
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	if r := a.replica.state(now); r != nil {
		return r
	}
	v := a.replica.view
	if id.session != "" {
		switch held := v.tokens[id.session]; {
		case held == nil || held.revoked != 0:
			return refuse(Revoked, "")
		case now.UnixMicro() >= held.expires:
			return refuse(Expired, "")
		}
	}
	var has grants
	var app string
	var created int64
	if held := v.tokens[id.Actor.Token]; id.Actor.Token != "" {
		switch {
		case held == nil || held.revoked != 0:
			return refuse(Revoked, "")
		case held.expires != 0 && now.UnixMicro() >= held.expires:
			return refuse(Expired, "")
		}
		has, app, created = held.grants, held.app, held.appCreated
	} else {
		s := v.subjects[id.subject]
		switch {
		case s == nil:
			return refuse(Revoked, "")
		case s.ended(now):
			return refuse(Expired, "")
		}
		has, app, created = compact(s.Grants), s.App, micros(s.AppCreated)
	}
	of, found := v.appOf(app, created)
	if !found || app != id.Actor.App || of != nil && created != micros(id.App.Created) {
		return refuse(Revoked, "its app was deleted")
	}
	if of != id.App && !keeps(of.Prefixes, id.App.Prefixes) {
		return refuse(Revoked, "its app lost a prefix")
	}
	for _, g := range id.grants {
		if !has.keep(g.roles, g.prefix) {
			return refuse(Revoked, "it lost a role")
		}
	}
	return nil
}

// keeps reports whether the present prefixes cover all old ones.
func keeps(present, old []string) bool {
	return !slices.ContainsFunc(old, func(p string) bool { return !coveredByAny(present, p) })
}
