package api

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock/penstock/deliver/setting"
)

// Guard stands before everything that a process serves, and keeps out what a person's browser does for somebody else: a
// web page that sends requests to this machine, or had its own name resolved to it. Programs send none of the headers
// that it goes by, but Host.
func Guard(next http.Handler, o GuardOptions) http.Handler {
	g := &guard{hosts: newHosts(o.Names), origins: http.NewCrossOriginProtection(), forms: o.Forms}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := g.refuses(r)
		if r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || p != nil && r.ContentLength != 0) {
			// Nothing is read behind a body whose end the client marks in the body itself: what goes between may have
			// seen another end, above all if there was a Content-Length too, which RFC 9112 wants closed. Nor behind
			// one that nobody wants.
			w.Header()["Connection"] = closing
		}
		if p != nil {
			if o.Refused != nil {
				o.Refused(r, p)
			}
			p.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// GuardOptions are the settings of a Guard.
type GuardOptions struct {
	// Names are those by which requests may come besides localhost and addresses.
	Names []string
	// Forms is the path below which a web page of this server may send forms, which else only what sends JSON may do;
	// empty is nowhere.
	Forms string
	// Refused is told what was refused, before that is answered; nil is nobody.
	Refused func(*http.Request, *Problem)
}

type guard struct {
	hosts   hosts
	origins *http.CrossOriginProtection
	forms   string
	last    atomic.Pointer[string] // Host that was allowed: the next request has the same, as a rule
}

func (g *guard) refuses(r *http.Request) *Problem {
	if last := g.last.Load(); last == nil || *last != r.Host {
		if !g.hosts.allow(r.Host) {
			return &Problem{
				Reason: ReasonMisdirected, Field: "Host",
				Detail: shorten(r.Host) + " is no name of this server; come by an IP address or localhost, " +
					"or start it with --host and that name (PENSTOCK_HOST)",
			}
		}
		host := strings.Clone(r.Host) // or the whole header would be kept
		g.last.Store(&host)
	}
	if fromBrowser(r) && (g.origins.Check(r) != nil || foreign(r)) {
		return &Problem{
			Reason: ReasonCrossSite,
			Detail: "a web page of another origin asks for this; there is nothing here for web pages",
		}
	}
	if r.Header[setting.HeaderAttempt] != nil && !appends(r) {
		return &Problem{
			Reason: ReasonDelivery,
			Detail: "a drainer delivers a job here; jobs may come into a queue so, and nothing else may be asked",
		}
	}
	if r.ContentLength == 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return nil
	}
	if g.forms != "" && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, g.forms) && fromBrowser(r) {
		return nil // whose origin was judged above
	}
	if replays(r) {
		return nil
	}
	_, p := media(r)
	return p
}

// replays reports whether a request sends a log to be replayed. A web page may not send that type of body without being
// asked for leave either.
func replays(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/replay" && slices.Equal(r.Header["Content-Type"], logTypes)
}

var logTypes = []string{mediaLog}

// fromBrowser reports whether there is anything to judge an origin by.
func fromBrowser(r *http.Request) bool {
	return len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Origin"]) > 0
}

// foreign reports whether a browser reads for a page of another origin. That page is not shown the answer, but may
// learn from it. To follow a link is another thing.
func foreign(r *http.Request) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" ||
				r.Method != http.MethodGet
		}
	}
	return false
}

// appends reports whether a request puts jobs into a queue. Whoever may put a queue chooses where its jobs are
// delivered, and must not operate another process's queues by that: a drainer knows its own listeners, not everybody's.
func appends(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/queues/") &&
		strings.HasSuffix(r.URL.Path, "/jobs")
}
