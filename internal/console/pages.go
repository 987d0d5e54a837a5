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
	// name is that of its template, templates/NAME.html, and of its script, assets/js/NAME.js, if it has one.
	name string
	// path is where it is, below Root, as http.ServeMux knows it.
	path  string
	title string
	// nav is what the navigation calls it; empty leaves it out there.
	nav string
	// role is one that its operations need, for anything at all: who has it not does not find the page in the navigation.
	role auth.Role
	// operations are those of the API that it calls to be shown, by their names in openapi.json.
	operations []string
	// recent lets those who look at the same share what is read, for a second.
	recent bool
	// read asks the API for what the page shows.
	read func(r *request) (any, error)
}

// pages is the table of pages, in the order of the navigation.
var pages = []page{
	{
		name: "overview", path: "/{$}", title: "Overview", nav: "Overview", role: auth.View,
		operations: []string{"getOverview", "listHistories", "getStore"}, read: readOverview,
	},
	{
		name: "queue", path: "/queues/{queue}", title: "Queue", role: auth.View,
		operations: []string{"getQueue", "getTimetable", "getHistory"}, recent: true, read: readQueue,
	},
	{
		name: "settings", path: "/queues/{queue}/settings", title: "Settings", role: auth.View,
		operations: []string{"getQueue", "quoteQueue"}, read: readSettings,
	},
	{
		name: "changes", path: "/queues/{queue}/changes", title: "Changes", role: auth.View,
		operations: []string{"listChanges"}, read: readChanges,
	},
	{
		name: "jobs", path: "/queues/{queue}/jobs", title: "Jobs", role: auth.View,
		operations: []string{"getQueue", "listJobs", "listDeadQueues"}, read: readJobs,
	},
	{
		name: "job", path: "/queues/{queue}/jobs/{id}", title: "Job", role: auth.View,
		operations: []string{"getJob"}, read: readJob,
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

// pageOf is the page of a name.
func pageOf(name string) *page {
	at := slices.IndexFunc(pages, func(p page) bool { return p.name == name })
	return &pages[at]
}

// request is one for a page, by somebody who is signed in.
type request struct {
	*http.Request
	console *Console
	// api asks the API as who is signed in.
	api *client.Client
	who wire.Whoami
	// Title is the page's; read may make it say more, such as the name of a queue.
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

// everything reports whether who is signed in may see all there is, and not only what is his app's.
func (r *request) everything() bool {
	return r.who.App == "" && slices.ContainsFunc(r.who.Grants, func(g auth.Grant) bool {
		return (g.Role == auth.View || g.Role == auth.Admin) && (g.Prefix == "" || g.Prefix == auth.Everything)
	})
}

// listRows is how many rows a page of a list has.
const listRows = 100

// behind is where a list goes on behind a name, which a parameter of the address has; empty if it does not.
func (r *request) behind(parameter, name string) string {
	if name == "" {
		return ""
	}
	q := r.URL.Query()
	q.Set(parameter, name)
	return "?" + q.Encode()
}

// goTo is what a page returns in place of what it shows, if that is on another one.
type goTo string

func (g goTo) Error() string { return "see " + string(g) }

// mayHave reports whether somebody has a role for anything.
func mayHave(who wire.Whoami, role auth.Role) bool {
	return slices.ContainsFunc(who.Grants, func(g auth.Grant) bool { return g.Role == role || g.Role == auth.Admin })
}

// mayDo reports whether somebody has a role for what a path of the API names: a queue, a rule, or else anything.
func mayDo(who wire.Whoami, role auth.Role, path string) bool {
	parts := strings.Split(path, "/") // "", "v1", "queues", NAME
	if len(parts) < 4 || parts[2] != "queues" && parts[2] != "rules" {
		return mayHave(who, role)
	}
	name, err := url.PathUnescape(parts[3])
	return err == nil && auth.Allow(who.Grants, role, name)
}
