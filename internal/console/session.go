package console

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// cookie holds the user's session: a token that ends after 12 hours or at sign-out, and that the API lists and revokes.
// Because of the name's prefix, browsers accept it only over TLS or from localhost, and never send it to another host.
// But browsers send cookies to every port of a host, so the cookie never holds the token that the user entered.
const cookie = "__Host-penstock-session"

// maxProof is the maximum length of a token or JWT, in bytes.
const maxProof = 16 << 10

// tokenOf returns the user's session; empty if they are not signed in.
func tokenOf(r *http.Request) string {
	c, err := r.Cookie(cookie)
	if err != nil {
		return ""
	}
	return c.Value
}

func (c *Console) setCookie(w http.ResponseWriter, name, value string, more http.Cookie) {
	more.Name, more.Value, more.Path, more.SameSite = name, value, "/", http.SameSiteStrictMode
	http.SetCookie(w, &more)
}

// keep sets the session cookie until ends. An empty session deletes the cookie.
func (c *Console) keep(w http.ResponseWriter, session string, ends *time.Time) {
	more := http.Cookie{Secure: true, HttpOnly: true, MaxAge: -1}
	if session != "" && ends != nil {
		more.MaxAge = max(1, int(time.Until(*ends).Seconds()))
	}
	c.setCookie(w, cookie, session, more)
}

// signInView is the data of the sign-in page.
type signInView struct {
	Next     string // the page to open afterwards
	Problem  string // why the token was refused
	Insecure bool   // the browser will not keep the cookie for lack of TLS, or did not
	Own      bool   // the browser is on this machine
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	next := c.ownPath(asked.Get("next"))
	_, err := c.client(r).Whoami(r.Context())
	switch {
	case err == nil: // a completed sign-in leads here too
		http.Redirect(w, r, next, http.StatusSeeOther)
	case tokenOf(r) == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// After a link on another site, browsers do not send the cookie. They send it with the next request, which
		// this page makes.
		c.render(w, r, http.StatusOK, "again", &view{Title: "Penstock", Data: c.root + "/sign-in?" + nextQuery(next)})
	default:
		v := signInView{Next: next, Own: loopback(r.Host)}
		v.Insecure = !v.Own && r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" ||
			asked.Get("kept") != "" && tokenOf(r) == ""
		c.signInView(w, r, http.StatusOK, v)
	}
}

func (c *Console) signInView(w http.ResponseWriter, r *http.Request, status int, v signInView) {
	c.render(w, r, status, "sign-in", &view{Title: "Sign in", Data: v})
}

// signIn exchanges a token for a session and sets the cookie.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 32<<10)
	if err := r.ParseForm(); err != nil {
		c.badForm(w, r, &fault{Title: "Cannot read the form", Detail: err.Error()})
		return
	}
	next := c.ownPath(r.PostForm.Get("next"))
	token := strings.TrimSpace(r.PostForm.Get("token"))
	v := signInView{Next: next, Own: loopback(r.Host)}
	switch {
	case token == "":
		v.Problem = "Enter a token."
	case len(token) > maxProof:
		v.Problem = "The token is too long."
	case strings.ContainsFunc(token, notInToken):
		v.Problem = "The token contains invalid characters."
	}
	if v.Problem != "" {
		c.signInView(w, r, http.StatusBadRequest, v)
		return
	}
	session, err := c.clientOf(inProcess{api: c.o.API, from: r, token: token}).OpenSession(r.Context())
	if err != nil {
		f := faultOf(err)
		v.Problem = f.Detail
		c.signInView(w, r, f.Status, v)
		return
	}
	c.keep(w, session.Secret, session.Expires)
	http.Redirect(w, r, c.root+"/sign-in?kept=1&"+nextQuery(next), http.StatusSeeOther)
}

func notInToken(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) }

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if tokenOf(r) != "" {
		// Ignore an error: the session expires by itself.
		_ = c.client(r).CloseSession(r.Context())
	}
	c.keep(w, "", nil)
	http.Redirect(w, r, c.root+"/sign-in", http.StatusSeeOther)
}

// refused redirects to the sign-in page after a 401, and shows any other refusal of the API.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, who wire.Whoami, err error) {
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		http.Redirect(w, r, c.root+"/sign-in?"+nextQuery(c.o.Prefix+r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	c.problem(w, r, who, faultOf(err))
}

func nextQuery(next string) string { return url.Values{"next": {next}}.Encode() }

// ownPath returns text if it is a page of the console that is safe to redirect to, and the console's root otherwise.
func (c *Console) ownPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(text, "\\\t\r\n") ||
		!strings.HasPrefix(u.Path, c.root+"/") || strings.HasPrefix(u.Path, c.root+"/api/") ||
		path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.HasPrefix(u.Path, c.root+"/sign-") {
		return c.root + "/"
	}
	return u.RequestURI()
}

// loopback reports whether browsers trust the host without TLS.
func loopback(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// theme sets the cookie for the theme: light, dark, or the browser's default.
func (c *Console) theme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	more := http.Cookie{HttpOnly: true, MaxAge: 365 * 24 * 3600}
	theme := r.FormValue("theme")
	if theme != "light" && theme != "dark" {
		theme, more.MaxAge = "", -1
	}
	c.setCookie(w, themeCookie, theme, more)
	http.Redirect(w, r, c.ownPath(r.FormValue("next")), http.StatusSeeOther)
}

const themeCookie = "penstock-theme"

// themeOf returns the chosen theme; empty is the browser's default.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}
