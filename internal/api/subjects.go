package api

import (
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/wire"
)

func (h *handler) listSubjects(w http.ResponseWriter, r *http.Request) {
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	app := appOf(r, r.URL.Query().Get("app"))
	subjects, err := h.o.Auth.Subjects(r.Context(), caller(r.Context()), app, after, limit+1)
	if err != nil {
		h.failAuth(w, err)
		return
	}
	page := wire.Subjects{}
	page.Subjects, page.Next = httpio.NextPage(
		w, r, subjects, limit, shownSubject, func(s *wire.Subject) string { return s.Name },
	)
	h.writeJSON(w, r, http.StatusOK, page)
}

func shownSubject(s *auth.Subject) wire.Subject {
	return wire.Subject{Subject: *s, Revision: s.Revision}
}

func (h *handler) getSubject(w http.ResponseWriter, r *http.Request) {
	s, err := h.o.Auth.Subject(r.Context(), caller(r.Context()), r.PathValue("subject"))
	if err != nil {
		h.failAuth(w, err)
		return
	}
	h.writeRevised(w, r, http.StatusOK, s.Revision, shownSubject(&s))
}

func (h *handler) putSubject(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("subject")
	var v struct {
		Name    string       `json:"name"`
		App     string       `json:"app"`
		Grants  []auth.Grant `json:"grants"`
		Note    string       `json:"note"`
		Expires time.Time    `json:"expires"`
	}
	p := h.readJSON(r, maxDocument, &v)
	if p == nil && v.Name != "" && v.Name != name {
		p = otherName(v.Name, name)
	}
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedSubject(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	put, err := h.o.Auth.PutSubject(
		r.Context(), caller(r.Context()), auth.Subject{
			Name: name, App: v.App, Grants: v.Grants, Note: v.Note, Expires: v.Expires,
		}, expect,
	)
	if err != nil {
		h.failRevised(w, err, put.Revision)
		return
	}
	h.logDocument(r, auth.KindSubject, name, madeOrChanged(put.New), put.Revision)
	h.writePut(w, r, put.New, put.Revision, shownSubject(&put))
}

func (h *handler) deleteSubject(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("subject")
	expect, p := h.expectedSubject(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	revision, err := h.o.Auth.DeleteSubject(r.Context(), caller(r.Context()), name, expect)
	if err != nil {
		h.failRevised(w, err, revision)
		return
	}
	h.logDocument(r, auth.KindSubject, name, changekind.Deleted, revision)
	w.WriteHeader(http.StatusNoContent)
}

func (h *handler) expectedSubject(r *http.Request, name string) (int64, *httpio.Problem) {
	return h.expectedDocument(r, func() (int64, error) {
		s, err := h.o.Auth.Subject(r.Context(), caller(r.Context()), name)
		return s.Revision, err
	})
}
