package auth

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

const (
	// keepExpired is how long an expired token or subject is kept.
	keepExpired time.Duration = 30 * 24 * time.Hour
	// mostTidied is how many documents are deleted at a time.
	mostTidied = 1000
)

// tidy writes which tokens were used, and deletes what has no use any more: tokens that expired long ago, and what
// belongs to deleted apps. Several processes may run it at once.
func (a *Authority) tidy(ctx context.Context) {
	a.writeUses(ctx)
	ctx = audit.WithActor(ctx, audit.Actor{Operation: "tidy"})
	for _, d := range a.useless(time.Now()) {
		if gone, err := a.appGone(ctx, d.app, d.appCreated); err != nil || d.app != "" && !d.expired && !gone {
			continue
		}
		_, err := a.remove(ctx, d.kind, d.name, d.revision)
		if err != nil && !errors.Is(err, document.ErrUnknown) && !errors.Is(err, queue.ErrRevision) {
			a.log.Warn("an unused document could not be deleted", "kind", d.kind, "error", err)
			return
		}
	}
}

type uselessDocument struct {
	kind, name, app      string
	appCreated, revision int64
	expired              bool
}

// useless returns documents that seem to have no use any more. It also drops tokens that were revoked long ago.
func (a *Authority) useless(now time.Time) (found []uselessDocument) {
	a.replica.mu.Lock()
	defer a.replica.mu.Unlock()
	v := a.replica.view
	if a.replica.state(now) != nil {
		return nil
	}
	for id, held := range v.tokens {
		_, has := v.appOf(held.app, held.appCreated)
		keep := keepExpired
		if held.session != nil {
			keep = SessionLife // for this long the user is told that it has expired
		}
		expired := held.expires != 0 && held.expires < now.Add(-keep).UnixMicro()
		switch {
		case held.revoked != 0:
			if held.revoked < now.Add(-document.KeepDeleted).UnixMicro() {
				delete(v.tokens, id)
			}
		case (expired || !has) && len(found) < mostTidied:
			found = append(found, uselessDocument{KindToken, id, held.app, held.appCreated, held.revision, expired})
		}
	}
	for name, s := range v.subjects {
		_, has := v.appOf(s.App, micros(s.AppCreated))
		expired := s.ended(now.Add(-keepExpired))
		if (expired || !has) && len(found) < mostTidied {
			found = append(found, uselessDocument{KindSubject, name, s.App, micros(s.AppCreated), s.Revision, expired})
		}
	}
	return found
}

// appGone asks the store whether an app was deleted, since the copy may only have failed to read it.
func (a *Authority) appGone(ctx context.Context, name string, created int64) (bool, error) {
	if name == "" {
		return false, nil
	}
	d, err := a.store.Document(ctx, KindApp, name)
	if errors.Is(err, document.ErrUnknown) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	app, err := readApp(&d)
	return micros(app.Created) != created, err
}
