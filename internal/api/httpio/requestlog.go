package httpio

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/audit"
)

// MaxLogged is how many bytes of a client's text are logged.
const MaxLogged = 200

// Recorder is a ResponseWriter that records the answer.
type Recorder struct {
	http.ResponseWriter
	Status  int
	Bytes   int64
	Refused *Problem // the problem that was written; nil if none was
}

// Unwrap is for http.ResponseController.
func (a *Recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *Recorder) WriteHeader(status int) {
	if a.Status == 0 && status >= http.StatusOK {
		a.Status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *Recorder) Write(b []byte) (int, error) {
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.Bytes += int64(n)
	return n, err
}

func (a *Recorder) note(p *Problem) { a.Refused = p }

// note passes a problem to the Recorders around a response.
func note(w http.ResponseWriter, p *Problem) {
	for {
		if a, ok := w.(interface{ note(*Problem) }); ok {
			a.note(p)
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = outer.Unwrap()
	}
}

// LoggedResponse is the response to a request that is written to the request log. Paths are logged without their query,
// and bodies and headers not at all: they may contain secrets.
type LoggedResponse struct {
	Recorder
	begun            time.Time
	Operation, Actor string // empty is not logged
}

// NewLoggedResponse begins to record a response. Call Log when it is complete.
func NewLoggedResponse(w http.ResponseWriter) *LoggedResponse {
	return &LoggedResponse{Recorder: Recorder{ResponseWriter: w}, begun: time.Now()}
}

// Log writes the request and its response to the log.
func (a *LoggedResponse) Log(log *slog.Logger, r *http.Request) {
	list := append(requestAttrs(r), slog.Int("status", a.Status), slog.Int64("bytes", a.Bytes),
		slog.Duration("took", time.Since(a.begun)))
	if id := a.Header().Get(HeaderRequest); id != "" { // pages of the console have none
		list = append(list, slog.String("request", id))
	}
	if a.Operation != "" {
		list = append(list, slog.String("operation", a.Operation))
	}
	if a.Actor != "" {
		list = append(list, slog.String("actor", a.Actor))
	}
	if a.Refused != nil {
		list = append(list, slog.String("reason", a.Refused.Reason.Code))
	}
	log.LogAttrs(r.Context(), slog.LevelInfo, "access", list...)
}

// LogRequests returns a handler whose requests are logged as the API logs its own. A nil log logs nothing.
func LogRequests(log *slog.Logger, next http.Handler) http.Handler {
	if log == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := NewLoggedResponse(w)
		defer a.Log(log, r)
		next.ServeHTTP(a, r)
	})
}

// LogRefused logs a request that the Guard has refused.
func LogRefused(log *slog.Logger, r *http.Request, p *Problem) {
	log.LogAttrs(r.Context(), slog.LevelInfo, "access",
		append(requestAttrs(r), slog.Int("status", p.Reason.Status), slog.String("reason", p.Reason.Code))...)
}

func requestAttrs(r *http.Request) []slog.Attr {
	path := clip.Text(r.URL.Path, MaxLogged)
	if auth.TokenInURL(r.URL) {
		path = secrets.Hidden
	}
	return []slog.Attr{
		slog.String("address", Address(r)), slog.String("method", clip.Text(r.Method, MaxLogged)),
		slog.String("path", path),
	}
}

// Address returns the client's address without the port. It is empty if the request did not come over a network.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || len(host) > audit.MaxActorBytes {
		return ""
	}
	return host
}
