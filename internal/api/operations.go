package api

import (
	"context"
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

func (h *handler) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = typeJSON
	_, _ = w.Write(openAPIDocument)
}

// healthz says that the process runs. It asks nobody: a store that is away is no
// reason to restart the ingress.
func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether jobs can be taken now.
func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if h.o.Stopping.Err() != nil {
		(&Problem{Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping"}).write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.CheckTimeout)
	defer cancel()
	if err := h.engine.Check(ctx); err != nil {
		(&Problem{Reason: ReasonNotReady, RetryAfter: retryUnavailable, Detail: err.Error()}).write(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	if h.o.Metrics == nil {
		notFound(w, r)
		return
	}
	h.o.Metrics.ServeHTTP(w, r)
}
