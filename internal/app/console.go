package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/ops"
)

// ConsoleFlags set the web console, and the path prefix of console and API.
type ConsoleFlags struct {
	Console    bool   `default:"true" negatable:""`
	PathPrefix string `placeholder:"/PATH"`
}

// LongHelp implements longHelper.
func (ConsoleFlags) LongHelp() map[string]string {
	return map[string]string{
		"console": "Serve the web console under /console/ (default on; --no-console turns it off).",
		"path-prefix": "Path prefix of a reverse proxy, such as /penstock. Requests are served with and without it; links " +
			"begin with it.",
	}
}

// Validate is called by the parser.
func (f *ConsoleFlags) Validate() error {
	p := f.PathPrefix
	if p == "" {
		return nil
	}
	u, err := url.Parse(p)
	if err != nil || u.Path != p || p[0] != '/' || p == "/" || path.Clean(p) != p ||
		strings.IndexFunc(p, notInPrefix) >= 0 {
		return fmt.Errorf("--path-prefix %.80q: must be a path such as /penstock, of letters, digits, . _ - and /, "+
			"without a / at its end", p)
	}
	return nil
}

func notInPrefix(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
}

// before puts the console in front of the API, unless it is off. log gets its requests and may be nil.
func (f *ConsoleFlags) before(full http.Handler, log *slog.Logger) http.Handler {
	if !f.Console {
		return full
	}
	return console.New(console.Options{
		API: full, Prefix: f.PathPrefix, Version: ops.Version,
		Logged: func(h http.Handler) http.Handler { return httpio.LogRequests(log, h) },
	}).Before(full)
}

// forms returns the path to which web pages may send forms; see httpio.Guard.
func (f *ConsoleFlags) forms() string {
	if !f.Console {
		return ""
	}
	return console.Root + "/"
}

// withoutPrefix removes the prefix from the paths of requests that have it.
func withoutPrefix(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, has := strings.CutPrefix(r.URL.Path, prefix)
		if !has || rest != "" && rest[0] != '/' {
			next.ServeHTTP(w, r)
			return
		}
		if rest == "" {
			rest = "/"
		}
		in := *r
		u := *r.URL
		u.Path, u.RawPath = rest, strings.TrimPrefix(u.RawPath, prefix)
		in.URL = &u
		next.ServeHTTP(w, &in)
	})
}
