package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// page is one page of the console.
type page struct {
	// name is the name of the template, templates/NAME.html, and of the optional script, assets/js/NAME.js.
	name string
	// path is the pattern for http.ServeMux, below Root.
	path  string
	title string
	// nav is the label in the navigation; empty hides the page there.
	nav string
	// role is the role that the operations need. Without it, for any name, the navigation hides the page.
	role auth.Role
	// operations are the API operations that the page calls, by their names in openapi.json.
	operations []string
	// recent lets several viewers of the page share API responses for one second.
	recent bool
	// read gets the data of the page from the API.
	read func(r *request) (any, error)
}

// pages is the table of pages, in the order of the navigation.
var pages = []page{
	{
		name: "overview", path: "/{$}", title: "Overview", nav: "Overview", role: auth.View,
		operations: []string{"getOverview", "listHistories", "getStore", "listAttention", "getCurves", "sumForecasts"},
		recent:     true, read: readOverview,
	},
	{
		name: "attention", path: "/attention", title: "What needs attention", role: auth.View,
		operations: []string{"listAttention"}, recent: true, read: readAttention,
	},
	{
		name: "queue", path: "/queues/{queue}", title: "Queue", role: auth.View,
		operations: []string{"getQueue", "getTimetable", "getHistory", "listAttention", "getCurves", "getForecast"},
		recent:     true, read: readQueue,
	},
	{
		name: "lanes", path: "/queues/{queue}/lanes", title: "Lanes", role: auth.View,
		operations: []string{"listLanes"}, recent: true, read: readLanes,
	},
	{
		name: "receiver", path: "/queues/{queue}/receiver", title: "Receiver", role: auth.View,
		operations: []string{"getQueue", "listJobs"}, read: readReceiver,
	},
	{
		name: "settings", path: "/queues/{queue}/settings", title: "Settings", role: auth.View,
		operations: []string{"getQueue", "quoteQueue"}, read: readSettings,
	},
	{
		name: "changes", path: "/queues/{queue}/changes", title: "Changes", role: auth.View,
		operations: []string{"listChanges", "getQueue"}, read: readChanges,
	},
	{
		name: "batches", path: "/queues/{queue}/batches", title: "Campaigns", role: auth.View,
		operations: []string{"listBatches"}, recent: true, read: readBatches,
	},
	{
		name: "jobs", path: "/queues/{queue}/jobs", title: "Jobs", role: auth.View,
		operations: []string{"getQueue", "listJobs", "listDeadQueues"}, read: readJobs,
	},
	{
		name: "failures", path: "/queues/{queue}/failures", title: "Failures", role: auth.View,
		operations: []string{"listJobs", "listDeadQueues"}, read: readFailures,
	},
	{
		name: "job", path: "/queues/{queue}/jobs/{id}", title: "Job", role: auth.View,
		operations: []string{"getJob"}, read: readJob,
	},
	{
		name: "new-queue", path: "/new/queue", title: "New queue", role: auth.Configure,
		operations: []string{"putQueue"}, read: readNewQueue,
	},
	{
		name: "new-rule", path: "/new/rule", title: "New rule", role: auth.Configure,
		operations: []string{"putRule"}, read: readNewRule,
	},
	{
		name: "find", path: "/find", title: "Find a job", nav: "Find", role: auth.View,
		operations: []string{"findJobs"}, read: readFind,
	},
	{
		name: "rules", path: "/rules", title: "Rules", nav: "Rules", role: auth.View,
		operations: []string{"listRules"}, read: readRules,
	},
	{
		name: "rule", path: "/rules/{rule}", title: "Rule", role: auth.View,
		operations: []string{"getRule", "peekRule", "getTop"}, recent: true, read: readRule,
	},
	{
		name: "replay", path: "/replay", title: "Replay", nav: "Replay", role: auth.View,
		operations: []string{"replayLog"}, read: readReplay,
	},
	{
		name: "apps", path: "/apps", title: "Apps", nav: "Apps", role: auth.View,
		operations: []string{"listApps"}, read: readApps,
	},
	{
		name: "app", path: "/apps/{app}", title: "App", role: auth.View,
		operations: []string{"getApp", "listTokens", "listSubjects"}, read: readApp,
	},
	{
		name: "tokens", path: "/tokens", title: "Tokens", nav: "Tokens", role: auth.Admin,
		operations: []string{"listTokens", "listSubjects"}, read: readTokens,
	},
	{
		name: "subject", path: "/subjects/{subject}", title: "Subject", role: auth.Admin,
		operations: []string{"getSubject"}, read: readSubject,
	},
	{
		name: "audit", path: "/audit", title: "Audit", nav: "Audit", role: auth.Admin,
		operations: []string{"listAudit"}, read: readAudit,
	},
}

// PagePaths returns the patterns of all pages, below Root.
func PagePaths() (paths []string) {
	for i := range pages {
		paths = append(paths, pages[i].path)
	}
	return paths
}

// pageOf returns the page with the given name, which must exist.
func pageOf(name string) *page {
	at := slices.IndexFunc(pages, func(p page) bool { return p.name == name })
	return &pages[at]
}

// request is a page request by a signed-in user.
type request struct {
	*http.Request
	console *Console
	api     *client.Client // acts for the user
	who     wire.Whoami
	// Title is the page's title. read may make it more specific, for example with the name of a queue.
	Title string
}

// show serves a page.
func (c *Console) show(p *page, w http.ResponseWriter, r *http.Request) {
	req := &request{Request: r, console: c, Title: p.title}
	req.api = c.clientOf(inProcess{api: c.o.API, from: r, recent: p.recent})
	who, err := req.api.Whoami(r.Context())
	if err != nil {
		c.refused(w, r, who, err)
		return
	}
	req.who = who
	data, err := p.read(req)
	if to := goTo(""); errors.As(err, &to) {
		http.Redirect(w, r, string(to), http.StatusSeeOther)
		return
	}
	if err != nil {
		c.refused(w, r, who, err)
		return
	}
	c.render(w, r, http.StatusOK, p.name, &view{Page: p, Title: req.Title, Who: who, Data: data})
}

// everything reports whether the user may see everything, not only the objects of an app.
func (r *request) everything() bool {
	return r.who.App == "" && slices.ContainsFunc(r.who.Grants, func(g auth.Grant) bool {
		return (g.Role == auth.View || g.Role == auth.Admin) && (g.Prefix == "" || g.Prefix == auth.Everything)
	})
}

// listRows is the number of rows on a page of a list.
const listRows = 100

// behind returns the link to the part of a list after a name, set as a query parameter; empty for an empty name.
func (r *request) behind(parameter, name string) string {
	if name == "" {
		return ""
	}
	q := r.URL.Query()
	q.Set(parameter, name)
	return "?" + q.Encode()
}

// goTo is an error that redirects to another page.
type goTo string

func (g goTo) Error() string { return "see " + string(g) }

// mayHave reports whether the user has a role for any name.
func mayHave(who wire.Whoami, role auth.Role) bool {
	return slices.ContainsFunc(who.Grants, func(g auth.Grant) bool { return g.Role == role || g.Role == auth.Admin })
}

// mayDo reports whether the user has a role for the queue or rule in an API path, or for any name with other paths.
func mayDo(who wire.Whoami, role auth.Role, path string) bool {
	parts := strings.Split(path, "/") // "", "v1", "queues", NAME
	if len(parts) < 4 || parts[2] != "queues" && parts[2] != "rules" {
		return mayHave(who, role)
	}
	name, err := url.PathUnescape(parts[3])
	return err == nil && auth.Allow(who.Grants, role, name)
}
