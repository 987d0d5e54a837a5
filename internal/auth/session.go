package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

const (
	// SessionLife is the longest time for which a session holds.
	SessionLife = 12 * time.Hour
	// maxSessions is how many sessions a token or a subject has; one more ends the oldest.
	maxSessions = 20

	sessionNote = "session of the console"
)

// session is what a heldToken is that stands for another token, or for a subject, until it ends.
type session struct {
	of   string // the id of the token, or the name of the subject
	name string // the name of who signed in
}

// sessionKey is the key of OfSession.
type sessionKey struct{}

// OfSession returns a context of requests that must show a session: what they show comes from a cookie.
func OfSession(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, true)
}

// OpenSession makes a token that stands for the token, or the subject, of by: it may do what that may, and ends with
// it, or after SessionLife. It is kept in the store like any other, so every ingress knows it, and it is listed and
// revoked like any other. A session cannot open another one.
func (a *Authority) OpenSession(ctx context.Context, by *Identity) (secret string, made Token, err error) {
	of := cmp.Or(by.Actor.Token, by.subject)
	switch {
	case by.session != "":
		return "", Token{}, &invalid.Error{Field: "Authorization", Reason: "is a session itself; sign in with a token"}
	case of == "":
		return "", Token{}, &invalid.Error{Field: "Authorization", Reason: "is missing; send a token to sign in with"}
	}
	if err := a.endOldest(ctx, of); err != nil {
		return "", Token{}, err
	}
	secret, made = NewToken()
	made.App, made.Grants, made.SessionOf = by.Actor.App, by.Grants(), of
	made.Creator, made.Note, made.Created = by.Actor.Name, sessionNote, now()
	made.Expires = by.bound(made.Created.Add(SessionLife)).UTC().Truncate(time.Microsecond)
	if by.App != nil {
		made.AppCreated = by.App.Created
	}
	if made.Revision, err = a.put(ctx, KindToken, made.ID, &made, 0); err != nil {
		return "", Token{}, err
	}
	return secret, made, nil
}

// CloseSession ends the session of by.
func (a *Authority) CloseSession(ctx context.Context, by *Identity) error {
	if by.session == "" {
		return &invalid.Error{Field: "Authorization", Reason: "is no session; revoke a token by DELETE /v1/tokens/{token}"}
	}
	_, err := a.remove(ctx, KindToken, by.session, queue.AnyRevision)
	if errors.Is(err, document.ErrUnknown) {
		return nil
	}
	return err
}

// endOldest makes room for one more session of a token or a subject.
func (a *Authority) endOldest(ctx context.Context, of string) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}
	type open struct {
		id      string
		expires int64
	}
	var all []open
	a.replica.mu.RLock()
	for id, held := range a.replica.view.tokens {
		if held.session != nil && held.session.of == of && held.revoked == 0 {
			all = append(all, open{id, held.expires})
		}
	}
	a.replica.mu.RUnlock()
	slices.SortFunc(all, func(x, y open) int { return cmp.Compare(x.expires, y.expires) })
	for _, oldest := range all[:max(0, len(all)-maxSessions+1)] {
		_, err := a.remove(ctx, KindToken, oldest.id, queue.AnyRevision)
		if err != nil && !errors.Is(err, document.ErrUnknown) {
			return err
		}
	}
	return nil
}

// bySession returns who signed in, as they are now. a.replica.mu is held. Its error is a *Refusal.
func (a *Authority) bySession(v *view, id string, held *heldToken, now time.Time) (*Identity, error) {
	of := held.session.of
	var found *Identity
	var err error
	if parent := v.tokens[of]; parent != nil && parent.session == nil {
		found, err = a.byToken(v, of, parent, now)
	} else {
		found, err = v.bySubject(of, now)
	}
	if errors.Is(err, errNotHere) {
		return nil, refuse(Revoked, "what it was signed in with was revoked: sign in again")
	}
	if err != nil {
		return nil, err
	}
	if found.subject != "" { // the JWT that was shown then is not shown again
		found.Actor.Name, found.expires = held.session.name, found.bound(time.UnixMicro(held.expires))
	}
	found.session = id
	return found, nil
}
