package api

import (
	"errors"
	"net/http"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// unknownDocuments are what is answered of a document that is not there, by its kind.
var unknownDocuments = map[string]struct {
	reason Reason
	makes  string
}{
	auth.KindApp:     {ReasonUnknownApp, "PUT /v1/apps/{app}"},
	auth.KindToken:   {ReasonUnknownToken, "POST /v1/tokens"},
	auth.KindSubject: {ReasonUnknownSubject, "PUT /v1/subjects/{subject}"},
}

func unknownDocument(e *document.Missing) *Problem {
	row, ok := unknownDocuments[e.Kind]
	if !ok {
		return &Problem{Reason: ReasonNotFound, Detail: e.Error()}
	}
	return &Problem{
		Reason: row.reason,
		Detail: "there is no " + e.Kind + " " + clip.Quote(e.Name, 80) + "; " + row.makes + " makes one",
	}
}

// maxAccessBody is the limit of a body that describes an app, a token or a subject.
const maxAccessBody = document.MaxBytes

// managed serves what manages who may do what, where there is somebody who keeps that.
func managed(
	serve func(*handler, http.ResponseWriter, *http.Request),
) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		if h.o.Auth == nil {
			(&Problem{
				Reason: ReasonNotFound, Detail: "this server asks nobody who he is (--no-auth), and has no apps or tokens",
			}).write(w)
			return
		}
		serve(h, w, r)
	}
}

func (h *handler) listApps(w http.ResponseWriter, r *http.Request) {
	after, limit, p := pageOf(r)
	if p != nil {
		p.write(w)
		return
	}
	apps, err := h.o.Auth.Apps(r.Context(), caller(r.Context()), after, limit+1)
	if err != nil {
		h.failAccess(w, err)
		return
	}
	page := wire.Apps{}
	page.Apps, page.Next = pageFrom(w, r, apps, limit, shownApp, func(a *wire.App) string { return a.Name })
	h.writeJSON(w, r, http.StatusOK, page)
}

func shownApp(a *auth.App) wire.App { return wire.App{App: *a, Revision: a.Revision} }

func (h *handler) getApp(w http.ResponseWriter, r *http.Request) {
	app, err := h.o.Auth.App(r.Context(), caller(r.Context()), r.PathValue("app"))
	if err != nil {
		h.failAccess(w, err)
		return
	}
	h.writeRevised(w, r, http.StatusOK, app.Revision, shownApp(&app))
}

func (h *handler) putApp(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("app")
	app, p := h.readApp(r, name)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expectedAccess(r, func() (int64, error) {
		app, err := h.o.Auth.App(r.Context(), caller(r.Context()), name)
		return app.Revision, err
	})
	if p != nil {
		p.write(w)
		return
	}
	left, err := h.leftUnder(r, &app)
	if err != nil {
		h.failAccess(w, err)
		return
	}
	if left != "" {
		isLeft(left).write(w)
		return
	}
	if err := h.readyRate(r.Context(), &app); err != nil {
		h.failAccess(w, err)
		return
	}
	app, err = h.o.Auth.PutApp(r.Context(), caller(r.Context()), app, expect)
	if err != nil {
		h.keepToRate(r.Context(), name)
		h.failRevised(w, err, app.Revision)
		return
	}
	h.didAccess(r, auth.KindApp, name, madeOrChanged(app.New), app.Revision)
	if err := h.holdToRate(r.Context(), caller(r.Context()), &app); err != nil {
		h.o.Logger.Warn("the rule of an app may be another than its rate; put the app again", "app", name, "error", err)
	}
	h.writePut(w, r, app.New, app.Revision, shownApp(&app))
}

func isLeft(what string) *Problem {
	return &Problem{
		Reason: ReasonNotEmpty, Field: "prefixes",
		Detail: "the " + what + " is from before, and the app would see it; delete it, with the dead jobs of a queue, or " +
			"give it to the app with adopt=true (penstock app put --adopt)",
	}
}

// leftUnder returns a queue, a deleted queue that keeps dead jobs, or a rule under a prefix that the app gains, or "".
// Specs and jobs may be a former owner's, so the operator must confirm with adopt=true that this app may have them.
func (h *handler) leftUnder(r *http.Request, app *auth.App) (left string, err error) {
	if r.URL.Query().Get("adopt") == "true" {
		return "", nil
	}
	present, err := h.o.Auth.App(r.Context(), caller(r.Context()), app.Name)
	if err != nil && !errors.Is(err, document.ErrUnknown) {
		return "", err
	}
	gained := app.Gains(&present)
	if len(gained) == 0 || app.Validate() != nil { // PutApp says what is wrong
		return "", nil
	}
	keep := func(what, name string) {
		if left == "" {
			left = what + " " + name
		}
	}
	err = eachOf(r.Context(), spansOf(gained), h.engine.List, queueName, func(i *queue.Info) {
		keep("queue", i.Spec.Name)
	})
	if err == nil {
		err = eachOf(r.Context(), spansOf(gained), h.engine.DeadQueues, deadName, func(d *queue.DeadQueue) {
			if d.Dead > 0 {
				keep("deleted queue", d.Queue)
			}
		})
	}
	if err == nil {
		err = eachOf(r.Context(), spansOf(gained), h.engine.ListRules, ruleName, func(i *rules.Info) { keep("rule", i.Name) })
	}
	return left, err
}

// readApp reads the app of a PUT. The name may be left out of the body; it cannot be another one than the URL's.
func (h *handler) readApp(r *http.Request, name string) (auth.App, *Problem) {
	var v struct {
		Name     string           `json:"name"`
		Prefixes []string         `json:"prefixes"`
		Limits   auth.Limits      `json:"limits"`
		Secrets  setting.Patterns `json:"secrets"`
		Hosts    setting.Patterns `json:"hosts"`
		Senders  setting.Patterns `json:"senders"`
		Note     string           `json:"note"`
	}
	if p := h.readJSON(r, maxAccessBody, &v); p != nil {
		return auth.App{}, p
	}
	if v.Name != "" && v.Name != name {
		return auth.App{}, otherName(v.Name, name)
	}
	return auth.App{
		Name: name, Prefixes: v.Prefixes, Limits: v.Limits, Secrets: v.Secrets, Hosts: v.Hosts, Senders: v.Senders,
		Note: v.Note,
	}, nil
}

// otherName is the refusal of a body that has another name than the URL.
func otherName(body, url string) *Problem {
	return badField("name", "is "+shorten(body)+" but the URL says "+shorten(url))
}

func (h *handler) deleteApp(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("app")
	expect, p := h.expectedAccess(r, func() (int64, error) {
		app, err := h.o.Auth.App(r.Context(), caller(r.Context()), name)
		return app.Revision, err
	})
	if p != nil {
		p.write(w)
		return
	}
	revision, err := h.o.Auth.DeleteApp(r.Context(), caller(r.Context()), name, expect)
	if err != nil {
		h.failRevised(w, err, revision)
		return
	}
	h.didAccess(r, auth.KindApp, name, changekind.Deleted, revision)
	if err := h.holdToRate(r.Context(), caller(r.Context()), &auth.App{Name: name}); err != nil {
		h.o.Logger.Warn("the rule of an app that was deleted could not be deleted", "app", name, "error", err)
	}
	w.WriteHeader(http.StatusNoContent)
}

func madeOrChanged(made bool) changekind.Kind {
	if made {
		return changekind.Created
	}
	return changekind.Changed
}

// didAccess logs a change of who may do what. The store records it by itself.
func (h *handler) didAccess(r *http.Request, kind, name string, what changekind.Kind, revision int64) {
	done := deed{what: what, of: queue.Subject(kind), name: name, revision: revision}
	done.tell(r.Context(), h.o.Logger)
}

// expectedAccess is expected of an app, a token or a subject.
func (h *handler) expectedAccess(r *http.Request, present func() (int64, error)) (int64, *Problem) {
	return expected(r, func() (int64, *Problem) {
		revision, err := present()
		if errors.Is(err, document.ErrUnknown) {
			return 0, &Problem{Reason: ReasonRevision, Detail: "there is none of this name"}
		}
		if err != nil {
			return 0, refused(err)
		}
		return revision, nil
	})
}

// writeRevised answers with what has a revision.
func (h *handler) writeRevised(w http.ResponseWriter, r *http.Request, status int, revision int64, v any) {
	w.Header().Set("ETag", etag(revision))
	h.writeJSON(w, r, status, v)
}

// writePut is writeRevised of what was made or changed at its own URL.
func (h *handler) writePut(w http.ResponseWriter, r *http.Request, made bool, revision int64, v any) {
	status := http.StatusOK
	if made {
		status = http.StatusCreated
		w.Header().Set("Location", h.o.Prefix+r.URL.EscapedPath())
	}
	h.writeRevised(w, r, status, revision, v)
}

// failAccess answers with an error of what manages who may do what.
func (h *handler) failAccess(w http.ResponseWriter, err error) { h.failRevised(w, err, -1) }

// failRevised is failAccess where the present revision is known.
func (h *handler) failRevised(w http.ResponseWriter, err error, revision int64) {
	var refusal *auth.Refusal
	p := refused(err)
	if errors.As(err, &refusal) {
		p = refusedAccess(w, err)
	}
	if p.Reason == ReasonRevision {
		p.Revision = revision
	}
	h.logInternal(p, err, "")
	p.write(w)
}
