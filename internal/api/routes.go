package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

// route is one operation. The table is also what openapi.json is held to.
type route struct {
	method, pattern string
	serve           func(h *handler, w http.ResponseWriter, r *http.Request)
}

var routes = []route{
	{http.MethodPost, "/v1/queues/{queue}/jobs", (*handler).postJobs},
	{http.MethodGet, "/v1/queues/{queue}/jobs", (*handler).listJobs},
	{http.MethodGet, "/v1/queues/{queue}/jobs/{id}", (*handler).getJob},
	{http.MethodDelete, "/v1/queues/{queue}/jobs/{id}", named((*handler).deleteJob)},
	{http.MethodPost, "/v1/queues/{queue}/jobs/{id}/cancel", named((*handler).cancelJob)},
	{http.MethodPost, "/v1/queues/{queue}/jobs/{id}/replay", named((*handler).replayJob)},
	{http.MethodPost, "/v1/queues/{queue}/jobs/{id}/decide", named((*handler).decideJob)},
	{http.MethodGet, "/v1/queues", (*handler).listQueues},
	{http.MethodGet, "/v1/queues/{queue}", (*handler).getQueue},
	{http.MethodPut, "/v1/queues/{queue}", named((*handler).putQueue)},
	{http.MethodDelete, "/v1/queues/{queue}", named((*handler).deleteQueue)},
	{http.MethodPost, "/v1/queues/{queue}/pause", named((*handler).pauseQueue)},
	{http.MethodPost, "/v1/queues/{queue}/resume", named((*handler).resumeQueue)},
	{http.MethodGet, "/v1/queues/{queue}/changes", (*handler).listChanges},
	{http.MethodPost, "/v1/queues/{queue}/rollback", named((*handler).rollbackQueue)},
	{http.MethodPost, "/v1/queues/{queue}/quote", (*handler).quoteQueue},
	{http.MethodPost, "/v1/queues/{queue}/purge", named((*handler).purgeQueue)},
	{http.MethodPost, "/v1/queues/{queue}/replay", named((*handler).replayJobs)},
	{http.MethodPost, "/v1/queues/{queue}/forget", named((*handler).forgetJobs)},
	{http.MethodPost, "/v1/queues/{queue}/decide", named((*handler).decideJobs)},
	{http.MethodPost, "/v1/queues/{queue}/leases", (*handler).pullJobs},
	{http.MethodPost, "/v1/queues/{queue}/settle", (*handler).settleJobs},
	{http.MethodPost, "/v1/queues/{queue}/extend", (*handler).extendJobs},
	{http.MethodPost, "/v1/queues/{queue}/turns", (*handler).awaitTurn},
	{http.MethodGet, "/v1/rules", (*handler).listRules},
	{http.MethodGet, "/v1/rules/{rule}", (*handler).getRule},
	{http.MethodGet, "/v1/rules/{rule}/changes", (*handler).listRuleChanges},
	{http.MethodPut, "/v1/rules/{rule}", named((*handler).putRule)},
	{http.MethodDelete, "/v1/rules/{rule}", named((*handler).deleteRule)},
	{http.MethodPost, "/v1/rules/{rule}/take", asked(queue.TakeNow)},
	{http.MethodPost, "/v1/rules/{rule}/peek", asked(queue.TakePeek)},
	{http.MethodPost, "/v1/rules/{rule}/refund", asked(queue.TakeBack)},
	{http.MethodPost, "/v1/rules/{rule}/reset", named(
		func(h *handler, w http.ResponseWriter, r *http.Request) { h.askRule(w, r, queue.TakeAnew) },
	)},
	{http.MethodGet, "/v1/dead", (*handler).listDeadQueues},
	{http.MethodGet, "/v1/drainers", (*handler).listDrainers},
	{http.MethodGet, "/healthz", (*handler).healthz},
	{http.MethodGet, "/readyz", (*handler).readyz},
	{http.MethodGet, "/metrics", (*handler).metrics},
	{http.MethodGet, "/openapi.json", (*handler).openAPI},
}

// dispatch builds the mux. Beside each route stands its path without a method,
// for a 405 that is a problem like all others.
func (h *handler) dispatch() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) { rt.serve(h, w, r) })
		allowed[rt.pattern] = append(allowed[rt.pattern], rt.method)
	}
	for pattern, methods := range allowed {
		if slices.Contains(methods, http.MethodGet) {
			methods = append(methods, http.MethodHead)
		}
		allow := strings.Join(methods, ", ")
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			(&Problem{Reason: ReasonMethod, Detail: "this takes " + allow}).write(w)
		})
	}
	mux.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would answer a path with // or .. in it by a redirect to another
		// queue's; nobody means that.
		if p := r.URL.Path; p == "" || p[0] != '/' || p != path.Clean(p) {
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	(&Problem{
		Reason: ReasonNotFound, Detail: "there is nothing at " + shorten(r.URL.Path) + "; /openapi.json lists what there is",
	}).write(w)
}
