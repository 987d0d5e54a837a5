package console

import (
	"net/http"
	"strings"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
)

// Root is below which path the console is served.
const Root = "/console"

// Options are the settings of a Console. Zero fields mean what is said beside them.
type Options struct {
	// API is asked for all that pages show and do.
	API http.Handler
	// Prefix is what a reverse proxy in front has before every path, such as /penstock; links begin with it. Empty is
	// none.
	Prefix string
	// Logged wraps what serves the pages, so that their requests are logged; nil does not.
	Logged func(http.Handler) http.Handler
	// Memory is what pages are charged to that are asked for without an account; see ops.ClientOf. Nil is one of its own.
	Memory *ops.Budget
	// Version is that of the program, for people.
	Version string
}

// Console serves the pages. It is safe for use by many goroutines.
type Console struct {
	o      Options
	root   string // Root, as a browser knows it
	assets *assets
	pages  *templates
	mux    *http.ServeMux
}

// New returns the console over an API.
func New(o Options) *Console {
	if o.Memory == nil {
		o.Memory = ops.NewBudget(ops.DefaultMemory)
	}
	c := &Console{o: o, root: o.Prefix + Root, assets: newAssets(), mux: http.NewServeMux()}
	c.pages = parseTemplates(c)
	c.mux.Handle("GET "+Root+"/assets/", http.StripPrefix(Root+"/assets/", c.assets))
	c.mux.HandleFunc("GET "+Root+"/sign-in", c.signInPage)
	c.mux.HandleFunc("POST "+Root+"/sign-in", c.signIn)
	c.mux.HandleFunc("POST "+Root+"/sign-out", c.signOut)
	c.mux.HandleFunc("POST "+Root+"/theme", c.theme)
	c.mux.HandleFunc("GET "+Root+"/open/{page}", c.open)
	c.mux.HandleFunc("POST "+Root+"/queues/{queue}/settings", c.preview)
	c.mux.HandleFunc("POST "+Root+"/replay", c.replay)
	c.mux.HandleFunc(Root+"/api/", c.pass)
	for _, p := range pages {
		c.mux.HandleFunc("GET "+Root+p.path, func(w http.ResponseWriter, r *http.Request) { c.show(&p, w, r) })
	}
	c.mux.HandleFunc(Root+"/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, wire.Whoami{}, &fault{Status: http.StatusNotFound, Title: "There is no such page."})
	})
	return c
}

// Before serves the console, and what is not the console's by next.
func (c *Console) Before(next http.Handler) http.Handler {
	own, home := http.Handler(c), http.RedirectHandler(c.root+"/", http.StatusSeeOther)
	if c.o.Logged != nil {
		own, home = c.o.Logged(own), c.o.Logged(home)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == Root, r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			home.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, Root+"/"):
			own.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// protection is what browsers are told to hold pages to: they load, run and send nothing but what is the console's own,
// and nobody shows them within a page of his.
const protection = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeHTTP serves what is below Root. What other pages have a browser send is kept out before; see api.Guard.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, free := c.holding(r)
	defer free()
	h := w.Header()
	h.Set("Content-Security-Policy", protection)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !sameOrigin(r) {
		c.problem(w, r, wire.Whoami{}, &fault{
			Status: http.StatusForbidden, Title: "This did not come from a page of the console.",
			Detail: "Open the console itself, and try it there.",
		})
		return
	}
	c.mux.ServeHTTP(w, r)
}

// sameOrigin reports whether a browser says that a page of this server sent a request. Without a word of that, as from
// browsers of long ago, it does not count as one: a cookie alone proves nothing.
func sameOrigin(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return false
	}
	return http.NewCrossOriginProtection().Check(r) == nil
}

// open goes to the page of what a form names: /open/apps?name=acme&x=y is /apps/acme?x=y.
func (c *Console) open(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	name := strings.TrimSpace(asked.Get("name"))
	if name == "" {
		c.problem(w, r, wire.Whoami{}, &fault{Status: http.StatusBadRequest, Title: "Give a name."})
		return
	}
	to := c.path(r.PathValue("page"), name)
	asked.Del("name")
	if len(asked) > 0 {
		to += "?" + asked.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
