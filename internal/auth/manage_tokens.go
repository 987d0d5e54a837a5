package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

const (
	// MaxAppTokens is the maximum number of tokens of an app, expired ones included.
	MaxAppTokens = 1000
	// MaxKeep is how long a replaced token may keep working.
	MaxKeep = 30 * 24 * time.Hour
)

// Token returns a token without its secret.
func (a *Authority) Token(ctx context.Context, by *Identity, id string) (Token, error) {
	t, err := a.managedToken(ctx, by, id)
	if err != nil {
		return Token{}, err
	}
	use, err := a.store.Document(ctx, kindUse, shardName(shardOf(id)))
	if err != nil && !errors.Is(err, document.ErrUnknown) {
		return Token{}, err
	}
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	t.LastUsed = a.replica.view.lastUsed(id, readUses(&use))
	return t, nil
}

// managedToken reads a token that the caller may manage.
func (a *Authority) managedToken(ctx context.Context, by *Identity, id string) (Token, error) {
	unknown := document.Unknown(KindToken, id)
	if !isTokenID(id) {
		return Token{}, unknown
	}
	d, err := a.store.Document(ctx, KindToken, id)
	if err != nil {
		return Token{}, err
	}
	t, err := readToken(&d)
	if err != nil {
		return Token{}, err
	}
	return t, by.mayManage(t.App, t.Grants, unknown)
}

// Tokens returns up to limit tokens of an app after an id, in order. Without an app, operators get all. Tokens with
// more permissions than the caller are left out.
func (a *Authority) Tokens(ctx context.Context, by *Identity, app, after string, limit int) ([]Token, error) {
	if err := by.mayManage(app, nil, document.Unknown(KindApp, app)); err != nil {
		return nil, err
	}
	if err := a.fresh(ctx); err != nil {
		return nil, err
	}
	ids, err := a.tokenIDs(by, app, after, limit)
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, 0, len(ids))
	for _, id := range ids {
		d, err := a.store.Document(ctx, KindToken, id)
		if errors.Is(err, document.ErrUnknown) {
			continue // deleted a moment ago
		}
		if err != nil {
			return nil, err
		}
		t, err := readToken(&d)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
	return a.withUses(tokens), nil
}

func (a *Authority) tokenIDs(by *Identity, app, after string, limit int) ([]string, error) {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	v := a.replica.view
	if app != "" && v.apps[app] == nil {
		return nil, document.Unknown(KindApp, app)
	}
	ids, at := map[string]string{}, now().UnixMicro()
	for id, held := range v.tokens {
		if held.revoked != 0 || id <= after || held.session != nil && held.expires <= at {
			continue
		}
		_, holds := v.appOf(held.app, held.appCreated)
		mine := by.isOperator() && holds && (app == "" || held.app == app)
		if mine || held.app == app && by.mayManage(app, held.grants.list(), errNotHere) == nil {
			ids[id] = id
		}
	}
	return listed(ids, after, limit, func(string, string) bool { return true }), nil
}

func (a *Authority) withUses(tokens []Token) []Token {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	v := a.replica.view
	var days [useShards]map[string]int32
	for n := range tokens {
		shard := shardOf(tokens[n].ID)
		if days[shard] == nil {
			days[shard] = readUses(&v.uses[shard])
		}
		tokens[n].LastUsed = v.lastUsed(tokens[n].ID, days[shard])
	}
	return tokens
}

// CreateToken creates a token with the App, Grants, Expires and Note of t. Its permissions must not exceed the
// caller's. secret is what the holder sends; it is not stored. The token expires no later than the caller's
// credentials: that is the default, and a later expiry is an error.
func (a *Authority) CreateToken(ctx context.Context, by *Identity, t Token) (secret string, made Token, err error) {
	secret, made = NewToken()
	if made, err = a.storeToken(ctx, by, made, &t); err != nil {
		return "", Token{}, err
	}
	return secret, made, nil
}

// RegisterToken stores a token that NewToken made elsewhere, with the App, Grants, Expires and Note of t. If the token
// exists, it is returned unchanged. Another token with its id is the error ErrRevision.
func (a *Authority) RegisterToken(ctx context.Context, by *Identity, secret string, t *Token) (made Token, err error) {
	made, err = tokenOf(secret)
	if err != nil {
		return Token{}, err
	}
	present, err := a.managedToken(ctx, by, made.ID)
	switch {
	case err == nil && present.Digest == made.Digest:
		return present, nil
	case err == nil:
		return Token{}, fmt.Errorf("%w: another token has the id %s", queue.ErrRevision, made.ID)
	case !errors.Is(err, document.ErrUnknown):
		return Token{}, err
	}
	return a.storeToken(ctx, by, made, t)
}

// storeToken stores a new token, which has its id and digest, with the permissions of t.
func (a *Authority) storeToken(ctx context.Context, by *Identity, made Token, t *Token) (Token, error) {
	if err := by.mayManage(t.App, t.Grants, document.Unknown(KindApp, t.App)); err != nil {
		return Token{}, err
	}
	app, err := a.appNamed(ctx, t.App)
	if err != nil {
		return Token{}, err
	}
	if err := t.validate(app, time.Now()); err != nil {
		return Token{}, err
	}
	if made.Expires, err = by.ending(t.Expires); err != nil {
		return Token{}, err
	}
	if err := a.roomForToken(ctx, app); err != nil {
		return Token{}, err
	}
	made.App, made.Grants, made.Note, made.Creator = t.App, t.Grants, t.Note, by.Actor.Name
	made.Created = now()
	if app != nil {
		made.AppCreated = app.Created
	}
	made.Revision, err = a.put(ctx, KindToken, made.ID, &made, 0)
	return made, err
}

// roomForToken checks that an app can have one more token.
func (a *Authority) roomForToken(ctx context.Context, app *App) error {
	if app == nil {
		return nil
	}
	if err := a.fresh(ctx); err != nil {
		return err
	}
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	has := 0
	for _, held := range a.replica.view.tokens {
		if held.app == app.Name && held.session == nil && held.revoked == 0 && held.appCreated == micros(app.Created) {
			has++
		}
	}
	if has >= MaxAppTokens {
		return &invalid.Error{
			Field: "app", Value: app.Name, Reason: fmt.Sprintf("has %d tokens, the limit is %d: revoke some", has, MaxAppTokens),
		}
	}
	return nil
}

// RotateToken replaces a token by a new one with the same permissions. The old token ends after keep. The new token has
// the same lifetime, starting now. But if the caller's credentials expire, it ends when they or the old token would,
// whichever is first. A token that was replaced before is refused: rotate its successor. After a concurrent change the
// error is ErrRevision, and there is no new token.
func (a *Authority) RotateToken(
	ctx context.Context, by *Identity, id string, keep time.Duration,
) (secret string, made Token, err error) {
	if keep < 0 || keep > MaxKeep {
		return "", Token{}, &invalid.Error{
			Field: "keep", Value: keep.String(), Reason: "must be from 0s to " + unit.Duration(MaxKeep).String(),
		}
	}
	old, err := a.managedToken(ctx, by, id)
	if err != nil {
		return "", Token{}, err
	}
	at := now()
	switch {
	case old.SessionOf != "":
		return "", Token{}, &invalid.Error{
			Field: "token", Value: id, Reason: "is a session: rotate the token it was opened with, " + old.SessionOf,
		}
	case old.ReplacedBy != "":
		return "", Token{}, &invalid.Error{
			Field: "token", Value: id, Reason: "was replaced by " + old.ReplacedBy + ": rotate that one",
		}
	case !old.Expires.IsZero() && !old.Expires.After(at):
		return "", Token{}, &invalid.Error{Field: "token", Value: id, Reason: "has expired: create another one"}
	}
	next := Token{App: old.App, Grants: old.Grants, Note: old.Note}
	switch {
	case !by.expires.IsZero():
		next.Expires = by.bound(old.Expires)
	case !old.Expires.IsZero():
		next.Expires = at.Add(old.Expires.Sub(old.Created))
	}
	// The new token first: a working token must not end without a successor.
	if secret, made, err = a.CreateToken(ctx, by, next); err != nil {
		return "", Token{}, err
	}
	if end := at.Add(keep); old.Expires.IsZero() || end.Before(old.Expires) {
		old.Expires = end
	}
	old.ReplacedBy = made.ID
	if _, err = a.put(ctx, KindToken, id, &old, old.Revision); err != nil {
		if _, undo := a.remove(context.WithoutCancel(ctx), KindToken, made.ID, made.Revision); undo != nil {
			a.log.Warn("an unused token remains after a failed rotation", "token", made.ID, "error", undo)
		}
		return "", Token{}, err
	}
	return secret, made, nil
}

// DeleteToken revokes a token. With ErrRevision it returns the present revision.
func (a *Authority) DeleteToken(ctx context.Context, by *Identity, id string, expect int64) (int64, error) {
	if _, err := a.managedToken(ctx, by, id); err != nil {
		return 0, err
	}
	return a.remove(ctx, KindToken, id, expect)
}
