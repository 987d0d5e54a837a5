package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// listChanges tells what was done to a queue.
func (h *handler) listChanges(w http.ResponseWriter, r *http.Request) {
	name, limit := r.PathValue("queue"), queue.MaxChanges
	if s := r.URL.Query().Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > queue.MaxChanges {
			badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(queue.MaxChanges)).write(w)
			return
		}
		limit = n
	}
	list, err := h.engine.Changes(r.Context(), name, limit)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	answer := wire.Changes{Changes: make([]wire.Change, len(list))}
	for i, c := range list {
		answer.Changes[i] = wire.Change{
			At: c.At.UTC(), By: c.By, What: c.What, Revision: c.Revision, Was: c.Was, Before: masked(c.Before), After: masked(c.After), Reason: c.Reason, Until: instant(c.Until),
		}
	}
	writeJSON(w, http.StatusOK, answer)
}

// masked is a spec as it may be shown.
func masked(s *queue.Spec) *queue.Spec {
	if s == nil {
		return nil
	}
	q := shownSpec(*s, 0)
	return &q.Spec
}

// rollbackQueue puts an earlier spec of a queue again, or shows it. The spec comes from the
// engine's record, so that its secrets need not be known to whoever asks.
func (h *handler) rollbackQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := h.readRollback(r)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expected(r, name)
	if p != nil {
		p.write(w)
		return
	}
	changes, err := h.engine.Changes(r.Context(), name, queue.MaxChanges)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	spec, now, err := queue.Earlier(name, changes, ask.Revision)
	if expect != queue.AnyRevision && expect != now {
		(&Problem{Reason: ReasonRevision, Revision: now, Detail: "the queue has changed since it was read; get it and try again"}).write(w)
		return
	}
	if err != nil {
		h.failRollback(w, err, name)
		return
	}
	if p := h.o.refusesSpec(&spec); p != nil {
		p.write(w)
		return
	}
	err = queue.CheckOtherRules(r.Context(), h.engine, &spec)
	if err == nil {
		err = h.validTarget(&spec)
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	if ask.DryRun {
		writeQueue(w, http.StatusOK, shownSpec(spec, now))
		return
	}
	if _, err := h.engine.Rollback(r.Context(), name, ask.Revision, now); err != nil {
		h.failRollback(w, err, name)
		return
	}
	h.showChanged(w, r, name, "the queue was rolled back")
}

func (h *handler) failRollback(w http.ResponseWriter, err error, name string) {
	var unknown *queue.UnknownRevision
	if errors.As(err, &unknown) {
		(&Problem{Reason: ReasonUnknownRev, Field: "revision", Detail: unknown.Error(), Revisions: unknown.Known}).write(w)
		return
	}
	h.fail(w, err, name)
}

// readRollback reads the body of a rollback, which may be empty.
func (h *handler) readRollback(r *http.Request) (ask wire.RollbackRequest, p *Problem) {
	if p := h.readJSON(r, maxSmallBody, &ask); p != nil {
		return ask, p
	}
	if ask.Revision < 0 {
		return ask, badField("revision", strconv.FormatInt(ask.Revision, 10)+" is below 1; leave it out for the one before the last change")
	}
	return ask, nil
}
