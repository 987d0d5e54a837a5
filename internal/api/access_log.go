package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// maxLogged is how much is logged of a text that a client chose. The handlers of logs escape what is in it.
const maxLogged = 200

func cut(text string) string { return text[:min(len(text), maxLogged)] }

// accessed notes what the access log tells of a request. Paths are logged without their query, and nothing of bodies
// and headers: there may be secrets in them.
type accessed struct {
	http.ResponseWriter
	begun     time.Time
	operation string
	by        *auth.Identity // nil if nobody was asked, or is known
	refused   *Problem
	status    int
	bytes     int64
}

func (a *accessed) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *accessed) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *accessed) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// access has a request logged when it is answered, if there is an access log.
func (h *handler) access(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, func()) {
	if h.o.Access == nil {
		return w, func() {}
	}
	a := &accessed{ResponseWriter: w, begun: time.Now()}
	return a, func() { h.o.Access.LogAttrs(r.Context(), slog.LevelInfo, "access", a.attrs(r)...) }
}

// LogAccess has what another handler serves logged as the API logs its own requests; nothing, if there is no log.
func LogAccess(log *slog.Logger, next http.Handler) http.Handler {
	if log == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &accessed{ResponseWriter: w, begun: time.Now()}
		defer func() { log.LogAttrs(r.Context(), slog.LevelInfo, "access", a.attrs(r)...) }()
		next.ServeHTTP(a, r)
	})
}

// logGuarded logs a request that the Guard has refused.
func logGuarded(log *slog.Logger, r *http.Request, p *Problem) {
	log.LogAttrs(r.Context(), slog.LevelInfo, "access",
		append(requested(r), slog.Int("status", p.Reason.Status), slog.String("reason", p.Reason.Code))...)
}

// requested is what is logged of a request whatever became of it.
func requested(r *http.Request) []slog.Attr {
	path := cut(r.URL.Path)
	if auth.TokenInURL(r.URL) {
		path = secrets.Hidden
	}
	return []slog.Attr{
		slog.String("address", addressOf(r)), slog.String("method", cut(r.Method)), slog.String("path", path),
	}
}

func (a *accessed) attrs(r *http.Request) []slog.Attr {
	list := append(requested(r), slog.Int("status", a.status), slog.Int64("bytes", a.bytes),
		slog.Duration("took", time.Since(a.begun)))
	if id := a.Header().Get(headerRequest); id != "" { // pages have none, but what they ask of the API
		list = append(list, slog.String("request", id))
	}
	if a.operation != "" {
		list = append(list, slog.String("operation", a.operation))
	}
	if a.by != nil {
		list = append(list, slog.String("actor", a.by.Actor.Name))
	}
	if a.refused != nil {
		list = append(list, slog.String("reason", a.refused.Reason.Code))
	}
	return list
}

// note keeps what a request turned out to be, for the access log.
func (rt *route) note(w http.ResponseWriter, by *auth.Identity) {
	if a, ok := w.(*accessed); ok {
		a.operation, a.by = rt.operation, by
	}
}

// decided tells the decision log of a job that was refused, or has to wait on the overflow.
func (h *handler) decided(w http.ResponseWriter, r *http.Request, name string, a *queue.Appended) {
	if h.o.Decisions == nil || a.Outcome == queue.Duplicate || a.Outcome == queue.Accepted && a.State != queue.Deferred {
		return
	}
	what, reason, wait := "deferred", "overflow", time.Until(a.ETA.At)
	if _, _, limited := rules.Limited(a.Rules); limited {
		reason = queue.LimitReached.String()
	}
	if a.Outcome != queue.Accepted {
		p := refusedJob(a, name, a.ID)
		what, reason, wait = "refused", p.Reason.Code, p.RetryAfter
	}
	h.o.Decisions.Note(what, cut(name), reason, func() []slog.Attr {
		list := []slog.Attr{slog.String("job", cut(a.ID)), slog.String("request", w.Header()[headerRequest][0])}
		if wait > 0 {
			list = append(list, slog.Duration("wait", wait))
		}
		if by := caller(r.Context()); by != nil {
			list = append(list, slog.String("actor", by.Actor.Name))
		}
		return list
	})
}
