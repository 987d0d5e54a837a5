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
	operation       string // its operationId
	method, pattern string
	effect          effect
	serve           func(h *handler, w http.ResponseWriter, r *http.Request)
}

// effect is what an operation does to the store.
type effect uint8

const (
	reads   effect = iota // nothing
	flows                 // moves jobs or counts takes, which no record is kept of
	changes               // what is recorded with who did it
)

var routes = []route{
	{"appendJobs", http.MethodPost, "/v1/queues/{queue}/jobs", flows, (*handler).postJobs},
	{"listJobs", http.MethodGet, "/v1/queues/{queue}/jobs", reads, (*handler).listJobs},
	{"getJob", http.MethodGet, "/v1/queues/{queue}/jobs/{id}", reads, (*handler).getJob},
	{"deleteJob", http.MethodDelete, "/v1/queues/{queue}/jobs/{id}", changes, (*handler).deleteJob},
	{"cancelJob", http.MethodPost, "/v1/queues/{queue}/jobs/{id}/cancel", changes, (*handler).cancelJob},
	{"replayJob", http.MethodPost, "/v1/queues/{queue}/jobs/{id}/replay", changes, (*handler).replayJob},
	{"decideJob", http.MethodPost, "/v1/queues/{queue}/jobs/{id}/decide", changes, (*handler).decideJob},
	{"listQueues", http.MethodGet, "/v1/queues", reads, (*handler).listQueues},
	{"getQueue", http.MethodGet, "/v1/queues/{queue}", reads, (*handler).getQueue},
	{"putQueue", http.MethodPut, "/v1/queues/{queue}", changes, (*handler).putQueue},
	{"deleteQueue", http.MethodDelete, "/v1/queues/{queue}", changes, (*handler).deleteQueue},
	{"pauseQueue", http.MethodPost, "/v1/queues/{queue}/pause", changes, (*handler).pauseQueue},
	{"resumeQueue", http.MethodPost, "/v1/queues/{queue}/resume", changes, (*handler).resumeQueue},
	{"listChanges", http.MethodGet, "/v1/queues/{queue}/changes", reads, (*handler).listChanges},
	{"rollbackQueue", http.MethodPost, "/v1/queues/{queue}/rollback", changes, (*handler).rollbackQueue},
	{"quoteQueue", http.MethodPost, "/v1/queues/{queue}/quote", reads, (*handler).quoteQueue},
	{"purgeQueue", http.MethodPost, "/v1/queues/{queue}/purge", changes, (*handler).purgeQueue},
	{"replayJobs", http.MethodPost, "/v1/queues/{queue}/replay", changes, (*handler).replayJobs},
	{"forgetJobs", http.MethodPost, "/v1/queues/{queue}/forget", changes, (*handler).forgetJobs},
	{"decideJobs", http.MethodPost, "/v1/queues/{queue}/decide", changes, (*handler).decideJobs},
	{"pullJobs", http.MethodPost, "/v1/queues/{queue}/leases", flows, (*handler).pullJobs},
	{"settleJobs", http.MethodPost, "/v1/queues/{queue}/settle", flows, (*handler).settleJobs},
	{"extendJobs", http.MethodPost, "/v1/queues/{queue}/extend", flows, (*handler).extendJobs},
	{"awaitTurn", http.MethodPost, "/v1/queues/{queue}/turns", flows, (*handler).awaitTurn},
	{"listRules", http.MethodGet, "/v1/rules", reads, (*handler).listRules},
	{"getRule", http.MethodGet, "/v1/rules/{rule}", reads, (*handler).getRule},
	{"listRuleChanges", http.MethodGet, "/v1/rules/{rule}/changes", reads, (*handler).listRuleChanges},
	{"putRule", http.MethodPut, "/v1/rules/{rule}", changes, (*handler).putRule},
	{"deleteRule", http.MethodDelete, "/v1/rules/{rule}", changes, (*handler).deleteRule},
	{"takeRule", http.MethodPost, "/v1/rules/{rule}/take", flows, asked(queue.TakeNow)},
	{"peekRule", http.MethodPost, "/v1/rules/{rule}/peek", reads, asked(queue.TakePeek)},
	{"refundRule", http.MethodPost, "/v1/rules/{rule}/refund", flows, asked(queue.TakeBack)},
	{"resetRule", http.MethodPost, "/v1/rules/{rule}/reset", changes, asked(queue.TakeAnew)},
	{"listDeadQueues", http.MethodGet, "/v1/dead", reads, (*handler).listDeadQueues},
	{"listDrainers", http.MethodGet, "/v1/drainers", reads, (*handler).listDrainers},
	{"healthz", http.MethodGet, "/healthz", reads, (*handler).healthz},
	{"readyz", http.MethodGet, "/readyz", reads, (*handler).readyz},
	{"metrics", http.MethodGet, "/metrics", reads, (*handler).metrics},
	{"openAPI", http.MethodGet, "/openapi.json", reads, (*handler).openAPI},
}

// dispatch builds the mux. Beside each route stands its path without a method,
// for a 405 that is a problem like all others.
func (h *handler) dispatch() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if rt.effect == changes {
				h.change(&rt, w, r)
				return
			}
			rt.serve(h, w, r)
		})
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
		w.Header()[headerRequest] = h.requests.id(r)
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
