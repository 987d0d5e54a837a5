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
	// SessionLife is the lifetime of a session.
	SessionLife = 12 * time.Hour
	// maxSessions is the maximum number of sessions of a token or a subject. One more ends the oldest.
	maxSessions = 20

	sessionNote = "session of the console"
)

// session marks a token as a session of another token, or of a subject.
type session struct {
	of   string // the id of the token, or the name of the subject
	name string // the authenticated name at sign-in
}

type sessionKey struct{}

// OfSession returns a context for requests that must authenticate with a session, because the secret comes from a
// cookie.
func OfSession(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, true)
}

// OpenSession creates a session of the caller's token or subject: a token with the same permissions. It ends when that
// token or subject ends, and at the latest after SessionLife. Sessions are stored, listed and revoked like other
// tokens. A session cannot open another one.
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

// CloseSession ends the caller's session.
func (a *Authority) CloseSession(ctx context.Context, by *Identity) error {
	if by.session == "" {
		return &invalid.Error{Field: "Authorization", Reason: "is not a session; revoke tokens with DELETE " +
			"/v1/tokens/{token}"}
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

// bySession returns the present identity behind a session. a.replica.mu is held. Its error is a *Refusal.
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
		return nil, refuse(Revoked, "the token it was opened with was revoked: sign in again")
	}
	if err != nil {
		return nil, err
	}
	if found.subject != "" { // the JWT of the sign-in is not sent again
		found.Actor.Name, found.expires = held.session.name, found.bound(time.UnixMicro(held.expires))
	}
	found.session = id
	return found, nil
}
