package api

import (
	"errors"
	"net/http"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// maxDocument is the limit of a body that describes an app, a token or a subject.
const maxDocument = document.MaxBytes

// managed returns a handler for apps, tokens and subjects. They exist only with authentication.
func managed(
	serve func(*handler, http.ResponseWriter, *http.Request),
) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		if h.o.Auth == nil {
			(&httpio.Problem{
				Reason: httpio.ReasonNotFound, Detail: "authentication is disabled (--no-auth), so there are no apps, tokens " +
					"or subjects",
			}).Write(w)
			return
		}
		serve(h, w, r)
	}
}

func (h *handler) listApps(w http.ResponseWriter, r *http.Request) {
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	apps, err := h.o.Auth.Apps(r.Context(), caller(r.Context()), after, limit+1)
	if err != nil {
		h.failAuth(w, err)
		return
	}
	page := wire.Apps{}
	page.Apps, page.Next = httpio.NextPage(w, r, apps, limit, shownApp, func(a *wire.App) string { return a.Name })
	h.writeJSON(w, r, http.StatusOK, page)
}

func shownApp(a *auth.App) wire.App { return wire.App{App: *a, Revision: a.Revision} }

func (h *handler) getApp(w http.ResponseWriter, r *http.Request) {
	app, err := h.o.Auth.App(r.Context(), caller(r.Context()), r.PathValue("app"))
	if err != nil {
		h.failAuth(w, err)
		return
	}
	h.writeRevised(w, r, http.StatusOK, app.Revision, shownApp(&app))
}

func (h *handler) putApp(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("app")
	app, p := h.readApp(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedDocument(r, func() (int64, error) {
		app, err := h.o.Auth.App(r.Context(), caller(r.Context()), name)
		return app.Revision, err
	})
	if p != nil {
		p.Write(w)
		return
	}
	left, err := h.leftUnder(r, &app)
	if err != nil {
		h.failAuth(w, err)
		return
	}
	if left != "" {
		leftBehind(left).Write(w)
		return
	}
	if err := h.prepareRate(r.Context(), &app); err != nil {
		h.failAuth(w, err)
		return
	}
	app, err = h.o.Auth.PutApp(r.Context(), caller(r.Context()), app, expect)
	if err != nil {
		h.restoreRate(r.Context(), name)
		h.failRevised(w, err, app.Revision)
		return
	}
	h.logDocument(r, auth.KindApp, name, madeOrChanged(app.New), app.Revision)
	if err := h.syncRate(r.Context(), caller(r.Context()), &app); err != nil {
		h.o.Logger.Warn("the rule of an app may not match its rate; put the app again", "app", name, "error", err)
	}
	h.writePut(w, r, app.New, app.Revision, shownApp(&app))
}

func leftBehind(what string) *httpio.Problem {
	return &httpio.Problem{
		Reason: httpio.ReasonNotEmpty, Field: "prefixes",
		Detail: "the " + what + " already exists, and the app would take it over; delete it, including the dead jobs of " +
			"a queue, or " +
			"give it to the app with adopt=true (penstock app put --adopt)",
	}
}

// leftUnder returns a queue, a deleted queue with dead jobs, or a rule under a prefix that the app gains, or "". They
// may have had another owner, so the operator must confirm with adopt=true that the app may have them.
func (h *handler) leftUnder(r *http.Request, app *auth.App) (left string, err error) {
	if r.URL.Query().Get("adopt") == "true" {
		return "", nil
	}
	present, err := h.o.Auth.App(r.Context(), caller(r.Context()), app.Name)
	if err != nil && !errors.Is(err, document.ErrUnknown) {
		return "", err
	}
	gained := app.Gains(&present)
	if len(gained) == 0 || app.Validate() != nil { // PutApp reports invalid apps
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

// readApp reads the app of a PUT. The body may omit the name, but must not contradict the URL.
func (h *handler) readApp(r *http.Request, name string) (auth.App, *httpio.Problem) {
	var v struct {
		Name     string           `json:"name"`
		Prefixes []string         `json:"prefixes"`
		Limits   auth.Limits      `json:"limits"`
		Secrets  setting.Patterns `json:"secrets"`
		Hosts    setting.Patterns `json:"hosts"`
		Senders  setting.Patterns `json:"senders"`
		Note     string           `json:"note"`
	}
	if p := h.readJSON(r, maxDocument, &v); p != nil {
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

// otherName returns the problem for a body whose name differs from the URL.
func otherName(body, url string) *httpio.Problem {
	return httpio.BadField("name", "is "+httpio.Shorten(body)+" but the URL says "+httpio.Shorten(url))
}

func (h *handler) deleteApp(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("app")
	expect, p := h.expectedDocument(r, func() (int64, error) {
		app, err := h.o.Auth.App(r.Context(), caller(r.Context()), name)
		return app.Revision, err
	})
	if p != nil {
		p.Write(w)
		return
	}
	revision, err := h.o.Auth.DeleteApp(r.Context(), caller(r.Context()), name, expect)
	if err != nil {
		h.failRevised(w, err, revision)
		return
	}
	h.logDocument(r, auth.KindApp, name, changekind.Deleted, revision)
	if err := h.syncRate(r.Context(), caller(r.Context()), &auth.App{Name: name}); err != nil {
		h.o.Logger.Warn("the rule of a deleted app could not be deleted", "app", name, "error", err)
	}
	w.WriteHeader(http.StatusNoContent)
}

func madeOrChanged(made bool) changekind.Kind {
	if made {
		return changekind.Created
	}
	return changekind.Changed
}

// logDocument logs a change of an app, a token or a subject. The Authority records it in the store.
func (h *handler) logDocument(r *http.Request, kind, name string, what changekind.Kind, revision int64) {
	done := changed{what: what, of: queue.Subject(kind), name: name, revision: revision}
	done.log(r.Context(), h.o.Logger)
}

// expectedDocument reads the conditions of a change of an app, a token or a subject.
func (h *handler) expectedDocument(r *http.Request, present func() (int64, error)) (int64, *httpio.Problem) {
	return httpio.Expected(r, func() (int64, *httpio.Problem) {
		revision, err := present()
		if errors.Is(err, document.ErrUnknown) {
			return 0, &httpio.Problem{Reason: httpio.ReasonRevision, Detail: "no object has this name, so it has no revision"}
		}
		if err != nil {
			return 0, httpio.ProblemOf(err)
		}
		return revision, nil
	})
}

// writeRevised answers with v and the ETag of its revision.
func (h *handler) writeRevised(w http.ResponseWriter, r *http.Request, status int, revision int64, v any) {
	w.Header().Set("ETag", httpio.ETag(revision))
	h.writeJSON(w, r, status, v)
}

// writePut is writeRevised after a PUT.
func (h *handler) writePut(w http.ResponseWriter, r *http.Request, made bool, revision int64, v any) {
	status := http.StatusOK
	if made {
		status = http.StatusCreated
		w.Header().Set("Location", h.o.Prefix+r.URL.EscapedPath())
	}
	h.writeRevised(w, r, status, revision, v)
}

// failAuth answers with an error of the Authority.
func (h *handler) failAuth(w http.ResponseWriter, err error) { h.failRevised(w, err, -1) }

// failRevised is failAuth with the present revision.
func (h *handler) failRevised(w http.ResponseWriter, err error, revision int64) {
	var refusal *auth.Refusal
	p := httpio.ProblemOf(err)
	if errors.As(err, &refusal) {
		p = authProblem(w, err)
	}
	if p.Reason == httpio.ReasonRevision {
		p.Revision = revision
	}
	h.logInternal(p, err, "")
	p.Write(w)
}
