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

// ConsoleFlags are those of a process that serves the API, of its web console and of the paths of both.
type ConsoleFlags struct {
	Console    bool   `default:"true" negatable:""`
	PathPrefix string `placeholder:"/PATH"`
}

// LongHelp is the help that is too long for the tags.
func (ConsoleFlags) LongHelp() map[string]string {
	return map[string]string{
		"console": "Serve the web console under /console/, which is on unless --no-console is given.",
		"path-prefix": "What a reverse proxy in front has before every path, such as /penstock. Requests are served with " +
			"it and without; links begin with it.",
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
			"and without a / at its end", p)
	}
	return nil
}

func notInPrefix(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
}

// consoleOver serves the console before the API, unless it is off. log is told of its requests, nil of none.
func (f *ConsoleFlags) consoleOver(full http.Handler, log *slog.Logger) http.Handler {
	if !f.Console {
		return full
	}
	return console.New(console.Options{
		API: full, Prefix: f.PathPrefix, Version: ops.Version,
		Logged: func(h http.Handler) http.Handler { return httpio.LogRequests(log, h) },
	}).Before(full)
}

// forms is where web pages may send forms: see httpio.Guard.
func (f *ConsoleFlags) forms() string {
	if !f.Console {
		return ""
	}
	return console.Root + "/"
}

// withoutPrefix serves a request by its path without a prefix, if it has that.
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
