package api

import (
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/wire"
)

// appOf returns the app named in a request, or else the caller's own.
func appOf(r *http.Request, named string) string {
	if id := caller(r.Context()); named == "" && id.App != nil {
		return id.App.Name
	}
	return named
}

func (h *handler) listTokens(w http.ResponseWriter, r *http.Request) {
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	app := appOf(r, r.URL.Query().Get("app"))
	tokens, err := h.o.Auth.Tokens(r.Context(), caller(r.Context()), app, after, limit+1)
	if err != nil {
		h.failAuth(w, err)
		return
	}
	page := wire.Tokens{}
	page.Tokens, page.Next = httpio.NextPage(w, r, tokens, limit, shownToken, func(t *wire.Token) string { return t.ID })
	h.writeJSON(w, r, http.StatusOK, page)
}

// shownToken converts a token to its form on the wire, without its secret.
func shownToken(t *auth.Token) wire.Token {
	shown := wire.Token{
		ID: t.ID, App: t.App, Grants: t.Grants, Created: t.Created.UTC(), Expires: instant(t.Expires), Creator: t.Creator,
		Note: t.Note, ReplacedBy: t.ReplacedBy, SessionOf: t.SessionOf, Revision: t.Revision,
	}
	if !t.LastUsed.IsZero() {
		shown.LastUsed = t.LastUsed.UTC().Format(time.DateOnly)
	}
	return shown
}

func (h *handler) getToken(w http.ResponseWriter, r *http.Request) {
	t, err := h.o.Auth.Token(r.Context(), caller(r.Context()), r.PathValue("token"))
	if err != nil {
		h.failAuth(w, err)
		return
	}
	h.writeRevised(w, r, http.StatusOK, t.Revision, shownToken(&t))
}

func (h *handler) createToken(w http.ResponseWriter, r *http.Request) {
	var ask wire.TokenRequest
	if p := h.readJSON(r, maxDocument, &ask); p != nil {
		p.Write(w)
		return
	}
	t := auth.Token{App: appOf(r, ask.App), Grants: ask.Grants, Note: ask.Note}
	switch in := ask.ExpiresIn.D(); {
	case in < 0:
		httpio.BadField(
			"expires_in", "is "+in.String()+", must not be negative; omit it for a token that does not expire",
		).Write(w)
		return
	case in > 0:
		t.Expires = time.Now().Add(in)
	}
	secret, made, err := h.o.Auth.CreateToken(r.Context(), caller(r.Context()), t)
	h.answerMade(w, r, secret, &made, err)
}

func (h *handler) rotateToken(w http.ResponseWriter, r *http.Request) {
	var ask wire.Rotation
	if p := h.readJSON(r, maxSmallBody, &ask); p != nil {
		p.Write(w)
		return
	}
	secret, made, err := h.o.Auth.RotateToken(
		r.Context(), caller(r.Context()), r.PathValue("token"), ask.Keep.D(),
	)
	h.answerMade(w, r, secret, &made, err)
}

// answerMade answers with a new token and its secret.
func (h *handler) answerMade(w http.ResponseWriter, r *http.Request, secret string, made *auth.Token, err error) {
	if err != nil {
		h.failAuth(w, err)
		return
	}
	h.logDocument(r, auth.KindToken, made.ID, changekind.Created, made.Revision)
	w.Header().Set("Location", h.o.Prefix+"/v1/tokens/"+made.ID)
	h.writeRevised(w, r, http.StatusCreated, made.Revision, wire.MadeToken{Secret: secret, Token: shownToken(made)})
}

func (h *handler) deleteToken(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("token")
	expect, p := h.expectedDocument(r, func() (int64, error) {
		t, err := h.o.Auth.Token(r.Context(), caller(r.Context()), id)
		return t.Revision, err
	})
	if p != nil {
		p.Write(w)
		return
	}
	revision, err := h.o.Auth.DeleteToken(r.Context(), caller(r.Context()), id, expect)
	if err != nil {
		h.failRevised(w, err, revision)
		return
	}
	h.logDocument(r, auth.KindToken, id, changekind.Deleted, revision)
	w.WriteHeader(http.StatusNoContent)
}

// openSession exchanges the caller's credentials for a session, so that a browser need not keep them.
func (h *handler) openSession(w http.ResponseWriter, r *http.Request) {
	secret, made, err := h.o.Auth.OpenSession(r.Context(), caller(r.Context()))
	h.answerMade(w, r, secret, &made, err)
}

func (h *handler) closeSession(w http.ResponseWriter, r *http.Request) {
	id := caller(r.Context())
	if err := h.o.Auth.CloseSession(r.Context(), id); err != nil {
		h.failAuth(w, err)
		return
	}
	h.logDocument(r, auth.KindToken, id.Session(), changekind.Deleted, 0)
	w.WriteHeader(http.StatusNoContent)
}

// whoami answers with the caller's identity and permissions.
func (h *handler) whoami(w http.ResponseWriter, r *http.Request) {
	id := caller(r.Context())
	if id == nil {
		h.writeJSON(w, r, http.StatusOK, wire.Whoami{Grants: []auth.Grant{{Role: auth.Admin}}, Auth: "off"})
		return
	}
	who := wire.Whoami{
		Name: id.Actor.Name, App: id.Actor.App, Token: id.Actor.Token, Session: id.Session(), Grants: id.Grants(),
	}
	if id.App != nil {
		who.Prefixes = id.App.Prefixes
	}
	h.writeJSON(w, r, http.StatusOK, who)
}
