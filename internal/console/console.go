package console

import (
	"net/http"
	"strings"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
)

// Root is the path of the console.
const Root = "/console"

// Options are the settings of a Console.
type Options struct {
	// API serves every read and action of the pages.
	API http.Handler
	// Prefix is the path prefix of a reverse proxy, for example /penstock. Links begin with it. The default is none.
	Prefix string
	// Logged wraps the handler of the pages to log their requests. Nil logs nothing.
	Logged func(http.Handler) http.Handler
	// Memory is charged for pages of requests without an account; see ops.ClientOf. Nil creates a budget.
	Memory *ops.Budget
	// Version is the program's version, for display.
	Version string
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	o      Options
	root   string // Prefix and Root
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
	c.mux.HandleFunc("POST "+Root+"/new/queue", c.newQueue)
	c.mux.HandleFunc("POST "+Root+"/new/rule", c.newRule)
	c.mux.HandleFunc(Root+"/api/", c.pass)
	for _, p := range pages {
		c.mux.HandleFunc("GET "+Root+p.path, func(w http.ResponseWriter, r *http.Request) { c.show(&p, w, r) })
	}
	c.mux.HandleFunc(Root+"/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, wire.Whoami{}, &fault{Status: http.StatusNotFound, Title: "Page not found"})
	})
	return c
}

// Before returns a handler that serves the console, and all other paths with next.
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

// protection is the Content-Security-Policy: pages load and run only the console's own files, send forms only to the
// console, and cannot be framed.
const protection = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeHTTP serves the paths below Root. It refuses writes that another site's page sent; see also api.Guard.
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
			Status: http.StatusForbidden, Title: "Request from another site",
			Detail: "This request did not come from a page of the console. Open the console and try again there.",
		})
		return
	}
	c.mux.ServeHTTP(w, r)
}

// sameOrigin reports whether the browser states that a page of this server sent the request. A request without these
// headers, as from very old browsers, does not count: a cookie alone proves nothing.
func sameOrigin(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return false
	}
	return http.NewCrossOriginProtection().Check(r) == nil
}

// open redirects to the page that a form names: /open/apps?name=acme&x=y leads to /apps/acme?x=y.
func (c *Console) open(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	name := strings.TrimSpace(asked.Get("name"))
	if name == "" {
		c.problem(w, r, wire.Whoami{}, &fault{Status: http.StatusBadRequest, Title: "Enter a name"})
		return
	}
	to := c.path(r.PathValue("page"), name)
	asked.Del("name")
	if len(asked) > 0 {
		to += "?" + asked.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
