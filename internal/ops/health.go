package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// checkTimeout bounds what readiness may ask of others.
const checkTimeout = time.Second

// Health serves GET /healthz, /readyz and /metrics for a process that has no
// other face. ready is asked for each /readyz: an error is why the process cannot do its
// work, and lacks is what it goes without, if that is something.
func Health(ready func(context.Context) (lacks, err error), metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { tell(w, http.StatusOK, "ok", "") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		switch lacks, err := ready(ctx); {
		case err != nil:
			tell(w, http.StatusServiceUnavailable, "not_ready", err.Error())
		case lacks != nil:
			tell(w, http.StatusOK, "degraded", lacks.Error())
		default:
			tell(w, http.StatusOK, "ready", "")
		}
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

func tell(w http.ResponseWriter, code int, status, detail string) {
	body, err := json.Marshal(struct {
		Status string `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{status, detail})
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
