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

// cookie has the session of the person who is signed in: a token that ends after 12 hours or when they sign out, and
// that the API lists and revokes. By its name browsers take it over TLS alone, or from this machine, and send it to no
// other host; but to every port of this one, as they do with any cookie. So it is never the token that they gave.
const cookie = "__Host-penstock-session"

// maxProof is the length of the longest token, or JWT, that is taken.
const maxProof = 16 << 10

// tokenOf returns the session of the person who is signed in; empty if nobody is.
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

// keep has the browser show a session until it ends; an empty one signs out.
func (c *Console) keep(w http.ResponseWriter, session string, ends *time.Time) {
	more := http.Cookie{Secure: true, HttpOnly: true, MaxAge: -1}
	if session != "" && ends != nil {
		more.MaxAge = max(1, int(time.Until(*ends).Seconds()))
	}
	c.setCookie(w, cookie, session, more)
}

// signInView is what the page for signing in says.
type signInView struct {
	Next string // where to go then
	// Problem is what was wrong with the token that was given.
	Problem string
	// Insecure is whether the browser did not keep the cookie, or will not, for want of TLS.
	Insecure bool
	// Own is whether the browser is on this machine.
	Own bool
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	next := c.ownPath(asked.Get("next"))
	_, err := c.client(r).Whoami(r.Context())
	switch {
	case err == nil: // a sign-in that was kept ends here too
		http.Redirect(w, r, next, http.StatusSeeOther)
	case tokenOf(r) == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// A link on another page led here, and then browsers keep the cookie back. They send it with what this page
		// asks for.
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

// signIn exchanges a token for a session, and has the browser keep that.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 32<<10)
	if err := r.ParseForm(); err != nil {
		c.badForm(w, r, &fault{Title: "This form cannot be read.", Detail: err.Error()})
		return
	}
	next := c.ownPath(r.PostForm.Get("next"))
	token := strings.TrimSpace(r.PostForm.Get("token"))
	v := signInView{Next: next, Own: loopback(r.Host)}
	switch {
	case token == "":
		v.Problem = "Paste a token first."
	case len(token) > maxProof:
		v.Problem = "This is too long for a token."
	case strings.ContainsFunc(token, notInToken):
		v.Problem = "This is no token: it has characters in it that no token has."
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
		// If the API cannot be asked, the session ends by itself.
		_ = c.client(r).CloseSession(r.Context())
	}
	c.keep(w, "", nil)
	http.Redirect(w, r, c.root+"/sign-in", http.StatusSeeOther)
}

// refused answers with what the API refused, or has somebody sign in whom it does not know.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, who wire.Whoami, err error) {
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		http.Redirect(w, r, c.root+"/sign-in?"+nextQuery(c.o.Prefix+r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	c.problem(w, r, who, faultOf(err))
}

func nextQuery(next string) string { return url.Values{"next": {next}}.Encode() }

// ownPath is a path of the console to go to, or its root if the text is none.
func (c *Console) ownPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(text, "\\\t\r\n") ||
		!strings.HasPrefix(u.Path, c.root+"/") || strings.HasPrefix(u.Path, c.root+"/api/") ||
		path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.HasPrefix(u.Path, c.root+"/sign-") {
		return c.root + "/"
	}
	return u.RequestURI()
}

// loopback reports whether a Host is one that browsers trust without TLS.
func loopback(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// theme keeps which of the themes somebody wants: light, dark, or what his system has.
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

// themeOf is the theme that somebody wants; empty is that of his system.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}
