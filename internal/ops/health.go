package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// checkTimeout is the timeout of ready.
const checkTimeout = time.Second

// Health serves GET /healthz, /readyz and /metrics for a process without an API. Each /readyz calls ready: err is why
// the process cannot work, lacks is why it works with restrictions.
func Health(ready func(context.Context) (lacks, err error), metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, "ok", "")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		switch lacks, err := ready(ctx); {
		case err != nil:
			writeStatus(w, http.StatusServiceUnavailable, "not_ready", err.Error())
		case lacks != nil:
			writeStatus(w, http.StatusOK, "degraded", lacks.Error())
		default:
			writeStatus(w, http.StatusOK, "ready", "")
		}
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

func writeStatus(w http.ResponseWriter, code int, status, detail string) {
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
