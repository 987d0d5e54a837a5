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

// maxProof is the longest token or JWT that is looked at.
const maxProof = 16 << 10

// Identify says who sends a request: by its Authorization header, or if it has none by the certificate that its
// connection was made with, or as the user at the other end of a Unix socket. Its error is a *Refusal. It may wait for
// the store, at most a few seconds, to learn of a token that was just made.
func (a *Authority) Identify(r *http.Request) (*Identity, error) {
	id, err := a.identify(r)
	if err == nil && id.session == "" && r.Context().Value(sessionKey{}) != nil {
		err = refuse(Unknown, "it is no session: sign in with it")
	}
	if err == nil {
		a.count(Accepted)
		return id, nil
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = refuse(Unavailable, "") // there is no other error
	}
	a.count(refusal.Code)
	a.wrong.add(r.RemoteAddr, refusal.Code)
	return nil, refusal
}

func (a *Authority) identify(r *http.Request) (*Identity, error) {
	if TokenInURL(r.URL) {
		return nil, refuse(InURL, "URLs are logged by whatever they pass; send it as Authorization: Bearer TOKEN, and "+
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
	return nil, refuse(Malformed, "there are several of it; send one")
}

// bearer returns what an Authorization header has, which is one word (RFC 6750).
func bearer(header string) (string, error) {
	scheme, proof, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refuse(Malformed, "it must be Bearer TOKEN, of no other scheme")
	}
	switch proof = strings.TrimLeft(proof, " "); {
	case proof == "":
		return "", refuse(Malformed, "there is no token behind Bearer")
	case len(proof) > maxProof:
		return "", refuse(Mistyped, "it is far too long to be one")
	}
	for i := range len(proof) {
		if c := proof[i]; c <= ' ' || c > '~' || c == ',' {
			return "", refuse(Malformed, "there is more than one token behind Bearer, or something that none has")
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
		return refuse(Unavailable, "it is not known here, and the store cannot be asked")
	}
	return nil
}

// lookUpToken returns whose token it is. Its error is a *Refusal, or errNotHere.
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
	case !held.proof.equal(p): // as for an unknown id, if sooner: ids are no secret
		return nil, refuse(Unknown, "there is no such token")
	}
	return a.byToken(v, id, held, now)
}

// byToken returns who has a token that was proven. a.replica.mu is held. Its error is a *Refusal, or errNotHere.
func (a *Authority) byToken(v *view, id string, held *heldToken, now time.Time) (*Identity, error) {
	switch {
	case held.revoked != 0:
		return nil, refuse(Revoked, "ask for another one")
	case held.expires != 0 && now.UnixMicro() >= held.expires:
		return nil, refuse(Expired, "ask for another one")
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

// lookUpSubject returns what the first of some subjects may do that there is. Its error is a *Refusal, or errNotHere.
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

// bySubject returns what a subject may do. Its error is a *Refusal, or errNotHere.
func (v *view) bySubject(name string, now time.Time) (*Identity, error) {
	s := v.subjects[name]
	switch {
	case s == nil:
		return nil, errNotHere
	case s.ended(now):
		return nil, refuse(Expired, "what "+name+" may do has ended")
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

// bySubject is lookUpSubject, which asks the store for what is not known.
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

// shown names what somebody proved that he is, which is no secret.
func shown(names []string) string {
	switch len(names) {
	case 0:
		return "any name in it"
	case 1:
		return names[0]
	}
	return names[0] + " or another name in it"
}

// TokenInURL reports whether a token stands in a URL, or a parameter that is for one. The id of a token is no secret:
// the audit log is searched by it.
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

// hasToken reports whether a token stands somewhere in a text, one that is right as far as that can be told by itself.
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
