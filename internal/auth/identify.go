package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue/audit"
)

// maxProof is the length limit of a token or JWT.
const maxProof = 16 << 10

// Identify authenticates a request: by its Authorization header, or without that by the client certificate of its
// connection, or by the user at the other end of a Unix socket. Its error is a *Refusal. It may wait a few seconds for
// the store, to learn of a new token.
func (a *Authority) Identify(r *http.Request) (*Identity, error) {
	id, err := a.identify(r)
	if err == nil && id.session == "" && r.Context().Value(sessionKey{}) != nil {
		err = refuse(Unknown, "it is not a session: sign in with it")
	}
	if err == nil {
		a.count(Accepted)
		return id, nil
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = refuse(Unavailable, "") // no other error occurs
	}
	a.count(refusal.Code)
	a.wrong.add(r.RemoteAddr, refusal.Code)
	return nil, refusal
}

func (a *Authority) identify(r *http.Request) (*Identity, error) {
	if TokenInURL(r.URL) {
		return nil, refuse(InURL, "URLs are logged along the way; send it as Authorization: Bearer TOKEN, and "+
			"revoke this one")
	}
	switch headers := r.Header["Authorization"]; len(headers) {
	case 0:
		return a.byConnection(r)
	case 1:
		proof, err := bearer(headers[0])
		if err != nil {
			return nil, err
		}
		return a.byBearer(r.Context(), proof)
	}
	return nil, refuse(Malformed, "it is given more than once; send one")
}

// bearer returns the token of an Authorization header, which is one word (RFC 6750).
func bearer(header string) (string, error) {
	scheme, proof, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refuse(Malformed, "it must be Bearer TOKEN")
	}
	switch proof = strings.TrimLeft(proof, " "); {
	case proof == "":
		return "", refuse(Malformed, "there is no token after Bearer")
	case len(proof) > maxProof:
		return "", refuse(Mistyped, "it is too long")
	}
	for i := range len(proof) {
		if c := proof[i]; c <= ' ' || c > '~' || c == ',' {
			return "", refuse(Malformed, "there is more than one token after Bearer, or an invalid character")
		}
	}
	return proof, nil
}

func (a *Authority) byBearer(ctx context.Context, proof string) (*Identity, error) {
	if len(a.issuers) > 0 && strings.Count(proof, ".") == 2 {
		return a.byJWT(ctx, proof)
	}
	id, p, err := parseToken(proof)
	if err != nil {
		return nil, err
	}
	found, err := a.lookUpToken(id, &p)
	if errors.Is(err, errNotHere) {
		if err := a.refresh(ctx); err != nil {
			return nil, err
		}
		found, err = a.lookUpToken(id, &p)
		if errors.Is(err, errNotHere) {
			return nil, refuse(Unknown, "there is no such token")
		}
	}
	return found, err
}

func (a *Authority) refresh(ctx context.Context) error {
	if a.replica.refresh(ctx) != nil {
		return refuse(Unavailable, "the token is unknown here, and the store is unreachable")
	}
	return nil
}

// lookUpToken returns the identity of a token. Its error is a *Refusal, or errNotHere.
func (a *Authority) lookUpToken(id string, p *proof) (*Identity, error) {
	now := time.Now()
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	if err := a.replica.usable(now); err != nil {
		return nil, err
	}
	v := a.replica.view
	held := v.tokens[id]
	switch {
	case held == nil:
		return nil, errNotHere
	case !held.proof.equal(p): // the same answer as for an unknown id, though sooner: ids are no secret
		return nil, refuse(Unknown, "there is no such token")
	}
	return a.byToken(v, id, held, now)
}

// byToken returns the identity of a verified token. a.replica.mu is held. Its error is a *Refusal, or errNotHere.
func (a *Authority) byToken(v *view, id string, held *heldToken, now time.Time) (*Identity, error) {
	switch {
	case held.revoked != 0:
		return nil, refuse(Revoked, "ask for a new one")
	case held.expires != 0 && now.UnixMicro() >= held.expires:
		return nil, refuse(Expired, "ask for a new one")
	}
	app, is := v.appOf(held.app, held.appCreated)
	if !is {
		return nil, refuse(Revoked, "its app was deleted")
	}
	a.uses.used(id, held, now)
	if held.session != nil {
		return a.bySession(v, id, held, now)
	}
	found := &Identity{
		Actor: audit.Actor{Name: "token:" + id, App: held.app, Token: id}, App: app, grants: held.grants,
	}
	if held.expires != 0 {
		found.expires = time.UnixMicro(held.expires)
	}
	return found, nil
}

// lookUpSubject returns the identity of the first of the subjects that exists. Its error is a *Refusal, or errNotHere.
func (a *Authority) lookUpSubject(names []string) (*Identity, error) {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	now := time.Now()
	if err := a.replica.usable(now); err != nil {
		return nil, err
	}
	for _, name := range names {
		if found, err := a.replica.view.bySubject(name, now); !errors.Is(err, errNotHere) {
			return found, err
		}
	}
	return nil, errNotHere
}

// bySubject returns the identity of a subject. Its error is a *Refusal, or errNotHere.
func (v *view) bySubject(name string, now time.Time) (*Identity, error) {
	s := v.subjects[name]
	switch {
	case s == nil:
		return nil, errNotHere
	case s.ended(now):
		return nil, refuse(Expired, "what "+name+" expired")
	}
	app, found := v.appOf(s.App, micros(s.AppCreated))
	if !found {
		return nil, refuse(Revoked, "the app of "+name+" was deleted")
	}
	return &Identity{
		Actor: audit.Actor{Name: name, App: s.App}, App: app, grants: compact(s.Grants), subject: name,
		expires: s.Expires,
	}, nil
}

// bySubject is like lookUpSubject, but asks the store before it refuses an unknown subject.
func (a *Authority) bySubject(ctx context.Context, names []string) (*Identity, error) {
	found, err := a.lookUpSubject(names)
	if errors.Is(err, errNotHere) && len(names) > 0 {
		if err := a.refresh(ctx); err != nil {
			return nil, err
		}
		found, err = a.lookUpSubject(names)
	}
	if errors.Is(err, errNotHere) {
		return nil, refuse(Unknown, "there is no subject for "+shown(names))
	}
	return found, err
}

// shown returns the verified names for a message. They are no secret.
func shown(names []string) string {
	switch len(names) {
	case 0:
		return "any name in it"
	case 1:
		return names[0]
	}
	return names[0] + " or another name in it"
}

// TokenInURL reports whether a URL contains a token, or a parameter for one. The id of a token is no secret: the audit
// log can be searched by it.
func TokenInURL(u *url.URL) bool {
	if u.User != nil || hasToken(u.Path) || hasToken(u.RawQuery) {
		return true
	}
	if u.RawQuery == "" {
		return false
	}
	for key, values := range u.Query() {
		switch strings.ToLower(key) {
		case "access_token":
			return true
		case "token":
			if slices.ContainsFunc(values, func(v string) bool { return !isTokenID(v) }) {
				return true
			}
		}
		for _, value := range values {
			if hasToken(value) {
				return true
			}
		}
	}
	return false
}

// hasToken reports whether a text contains a well-formed token.
func hasToken(text string) bool {
	for {
		at := strings.Index(text, TokenPrefix)
		if at < 0 || len(text) < at+tokenLength {
			return false
		}
		if _, err := ParseToken(text[at : at+tokenLength]); err == nil {
			return true
		}
		text = text[at+len(TokenPrefix):]
	}
}
