package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue/rules"
)

// route is one operation. openapi.json and docs/roles.md follow this table.
type route struct {
	operation       string // its operationId
	method, pattern string
	effect          effect
	need            need
	serve           func(h *handler, w http.ResponseWriter, r *http.Request)
}

const (
	get  = http.MethodGet
	put  = http.MethodPut
	post = http.MethodPost
	del  = http.MethodDelete
)

// effect is what an operation does to the store.
type effect uint8

const (
	reads   effect = iota // changes nothing
	flows                 // moves jobs or counts takes, which are not recorded
	changes               // changes that are recorded with their actor
)

var routes = []route{
	{"appendJobs", post, "/v1/queues/{queue}/jobs", flows, ofQueue(auth.Produce), (*handler).appendJobs},
	{"listJobs", get, "/v1/queues/{queue}/jobs", reads, ofQueue(auth.View), (*handler).listJobs},
	{"getJob", get, "/v1/queues/{queue}/jobs/{id}", reads, ofQueue(auth.View, auth.Produce), (*handler).getJob},
	{"deleteJob", del, "/v1/queues/{queue}/jobs/{id}", changes, ofQueue(auth.Operate), (*handler).deleteJob},
	{
		"cancelJob", post, "/v1/queues/{queue}/jobs/{id}/cancel", changes, ofQueue(auth.Produce, auth.Operate),
		(*handler).cancelJob,
	},
	{"replayJob", post, "/v1/queues/{queue}/jobs/{id}/replay", changes, ofQueue(auth.Operate), (*handler).replayJob},
	{"decideJob", post, "/v1/queues/{queue}/jobs/{id}/decide", changes, ofQueue(auth.Operate), (*handler).decideJob},
	{"listQueues", get, "/v1/queues", reads, ofAnything(auth.View), (*handler).listQueues},
	{"getQueue", get, "/v1/queues/{queue}", reads, ofQueue(auth.View), (*handler).getQueue},
	{"putQueue", put, "/v1/queues/{queue}", changes, ofQueue(auth.Configure), (*handler).putQueue},
	{"deleteQueue", del, "/v1/queues/{queue}", changes, ofQueue(auth.Configure), (*handler).deleteQueue},
	{"pauseQueue", post, "/v1/queues/{queue}/pause", changes, ofQueue(auth.Operate), (*handler).pauseQueue},
	{"resumeQueue", post, "/v1/queues/{queue}/resume", changes, ofQueue(auth.Operate), (*handler).resumeQueue},
	{"listChanges", get, "/v1/queues/{queue}/changes", reads, ofQueue(auth.View), (*handler).listChanges},
	{"rollbackQueue", post, "/v1/queues/{queue}/rollback", changes, ofQueue(auth.Configure), (*handler).rollbackQueue},
	{"quoteQueue", post, "/v1/queues/{queue}/quote", reads, ofQueue(auth.View, auth.Produce), (*handler).quoteQueue},
	{"getTimetable", get, "/v1/queues/{queue}/timetable", reads, ofQueue(auth.View), (*handler).getTimetable},
	{"getForecast", get, "/v1/queues/{queue}/forecast", reads, ofQueue(auth.View), (*handler).getForecast},
	{"listLanes", get, "/v1/queues/{queue}/lanes", reads, ofQueue(auth.View), (*handler).listLanes},
	{"listBatches", get, "/v1/queues/{queue}/batches", reads, ofQueue(auth.View), (*handler).listBatches},
	{"getBatch", get, "/v1/queues/{queue}/batches/{batch}", reads, ofQueue(auth.View, auth.Produce), (*handler).getBatch},
	{"getHistory", get, "/v1/queues/{queue}/history", reads, ofQueue(auth.View), (*handler).getHistory},
	{"purgeQueue", post, "/v1/queues/{queue}/purge", changes, ofQueue(auth.Operate), (*handler).purgeQueue},
	{"replayJobs", post, "/v1/queues/{queue}/replay", changes, ofQueue(auth.Operate), (*handler).replayJobs},
	{"forgetJobs", post, "/v1/queues/{queue}/forget", changes, ofQueue(auth.Operate), (*handler).forgetJobs},
	{"decideJobs", post, "/v1/queues/{queue}/decide", changes, ofQueue(auth.Operate), (*handler).decideJobs},
	{"pullJobs", post, "/v1/queues/{queue}/leases", flows, ofQueue(auth.Consume), (*handler).pullJobs},
	{"settleJobs", post, "/v1/queues/{queue}/settle", flows, ofQueue(auth.Consume), (*handler).settleJobs},
	{"extendJobs", post, "/v1/queues/{queue}/extend", flows, ofQueue(auth.Consume), (*handler).extendJobs},
	{"throttleQueue", post, "/v1/queues/{queue}/throttle", flows, ofQueue(auth.Consume), (*handler).throttleQueue},
	{"awaitTurn", post, "/v1/queues/{queue}/turns", flows, ofQueue(auth.Consume), (*handler).awaitTurn},
	{"getOverview", get, "/v1/overview", reads, ofAnything(auth.View), (*handler).overview},
	{"listAttention", get, "/v1/attention", reads, ofAnything(auth.View), (*handler).listAttention},
	{"listHistories", get, "/v1/history", reads, ofAnything(auth.View), (*handler).listHistories},
	{"sumForecasts", get, "/v1/forecast", reads, ofAnything(auth.View), (*handler).sumForecasts},
	{"getCurves", get, "/v1/curves", reads, ofAnything(auth.View), (*handler).getCurves},
	{"followQueues", get, "/v1/events", reads, ofAnything(auth.View), (*handler).allEvents},
	{"followQueue", get, "/v1/queues/{queue}/events", reads, ofQueue(auth.View), (*handler).queueEvents},
	{"listRules", get, "/v1/rules", reads, ofAnything(auth.View), (*handler).listRules},
	{"getRule", get, "/v1/rules/{rule}", reads, ofRule(auth.View), (*handler).getRule},
	{"getTop", get, "/v1/rules/{rule}/top", reads, ofRule(auth.Payloads), (*handler).getTop},
	{"listRuleChanges", get, "/v1/rules/{rule}/changes", reads, ofRule(auth.View), (*handler).listRuleChanges},
	{"putRule", put, "/v1/rules/{rule}", changes, ofRule(auth.Configure), (*handler).putRule},
	{"deleteRule", del, "/v1/rules/{rule}", changes, ofRule(auth.Configure), (*handler).deleteRule},
	{"takeRule", post, "/v1/rules/{rule}/take", flows, ofRule(auth.Produce), taking(rules.TakeNow)},
	{"peekRule", post, "/v1/rules/{rule}/peek", reads, ofRule(auth.Produce, auth.View), taking(rules.TakePeek)},
	{"refundRule", post, "/v1/rules/{rule}/refund", changes, ofRule(auth.Produce, auth.Operate), taking(rules.TakeBack)},
	{"correctRule", post, "/v1/rules/{rule}/correct", changes, ofRule(auth.Produce), taking(rules.TakeCorrect)},
	{"resetRule", post, "/v1/rules/{rule}/reset", changes, ofRule(auth.Operate), taking(rules.TakeAnew)},
	{"replayLog", post, "/v1/replay", reads, ofAnything(auth.View), (*handler).replayLog},
	{"findJobs", get, "/v1/jobs", reads, ofAnything(auth.View), (*handler).findJobs},
	{"listDeadQueues", get, "/v1/dead", reads, ofAnything(auth.View), (*handler).listDeadQueues},
	{"listApps", get, "/v1/apps", reads, ofAnything(auth.View), managed((*handler).listApps)},
	{"getApp", get, "/v1/apps/{app}", reads, ofAnything(auth.View), managed((*handler).getApp)},
	{"putApp", put, "/v1/apps/{app}", changes, ofEverything(auth.Admin), managed((*handler).putApp)},
	{"deleteApp", del, "/v1/apps/{app}", changes, ofEverything(auth.Admin), managed((*handler).deleteApp)},
	{"listTokens", get, "/v1/tokens", reads, ofAnything(auth.Admin), managed((*handler).listTokens)},
	{"createToken", post, "/v1/tokens", changes, ofAnything(auth.Admin), managed((*handler).createToken)},
	{"getToken", get, "/v1/tokens/{token}", reads, ofAnything(auth.Admin), managed((*handler).getToken)},
	{"deleteToken", del, "/v1/tokens/{token}", changes, ofAnything(auth.Admin), managed((*handler).deleteToken)},
	{"rotateToken", post, "/v1/tokens/{token}/rotate", changes, ofAnything(auth.Admin), managed((*handler).rotateToken)},
	{"openSession", post, "/v1/session", changes, need{of: anybody}, managed((*handler).openSession)},
	{"closeSession", del, "/v1/session", changes, need{of: anybody}, managed((*handler).closeSession)},
	{"listSubjects", get, "/v1/subjects", reads, ofAnything(auth.Admin), managed((*handler).listSubjects)},
	{"getSubject", get, "/v1/subjects/{subject}", reads, ofAnything(auth.Admin), managed((*handler).getSubject)},
	{"putSubject", put, "/v1/subjects/{subject}", changes, ofEverything(auth.Admin), managed((*handler).putSubject)},
	{
		"deleteSubject", del, "/v1/subjects/{subject}", changes, ofEverything(auth.Admin),
		managed((*handler).deleteSubject),
	},
	{"listAudit", get, "/v1/audit", reads, ofAnything(auth.Admin), (*handler).listAudit},
	{"whoami", get, "/v1/whoami", reads, need{of: anybody}, (*handler).whoami},
	{"getStore", get, "/v1/store", reads, ofEverything(auth.View), (*handler).getStore},
	{"advanceClock", post, "/v1/clock", flows, ofEverything(auth.Admin), (*handler).advanceClock},
	{"listDrainers", get, "/v1/drainers", reads, ofEverything(auth.View), (*handler).listDrainers},
	{"healthz", get, "/healthz", reads, need{}, (*handler).healthz},
	{"readyz", get, "/readyz", reads, need{}, (*handler).readyz},
	{"metrics", get, "/metrics", reads, ofAnything(auth.View), (*handler).metrics},
	{"openAPI", get, "/openapi.json", reads, need{}, (*handler).openAPI},
}

// dispatch builds the mux. It adds each path without a method too, so that a 405 is a problem like all others.
func (h *handler) dispatch() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			h.serve(&rt, w, r)
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
			(&httpio.Problem{Reason: httpio.ReasonMethod, Detail: "allowed methods: " + allow}).Write(w)
		})
	}
	mux.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()[httpio.HeaderRequest] = h.requests.ID(r)
		if h.o.RequestLog != nil {
			l := httpio.NewLoggedResponse(w)
			defer l.Log(h.o.RequestLog, r)
			w = l
		}
		// The mux would redirect a path with // or .. in it, possibly to another queue. No client means that.
		p := r.URL.Path
		if strings.HasPrefix(p, httpio.ProxyPath) {
			h.serveProxy(w, r)
			return
		}
		if strings.HasPrefix(p, "/v1/subjects/") { // names of subjects may contain encoded slashes
			p = r.URL.EscapedPath()
		}
		if p == "" || p[0] != '/' || p != path.Clean(p) {
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	(&httpio.Problem{
		Reason: httpio.ReasonNotFound, Detail: "no resource at " + httpio.Shorten(r.URL.Path) + "; /openapi.json lists " +
			"all operations",
	}).Write(w)
}
