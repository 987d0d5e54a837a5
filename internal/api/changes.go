package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/ruleset"
)

// listChanges answers with the changes of a queue.
func (h *handler) listChanges(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := changesRequest(r, queue.OfQueue, name)
	if p != nil {
		p.Write(w)
		return
	}
	page, err := h.engine.Changes(r.Context(), ask)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, shownRecord(&page, func(c *queue.Change) wire.Change {
		return wire.Change{Done: shownDone(c), Before: masked(c.Before), After: masked(c.After)}
	}))
}

// listRuleChanges answers with the changes of a rule.
func (h *handler) listRuleChanges(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	ask, p := changesRequest(r, queue.OfRule, name)
	if p != nil {
		p.Write(w)
		return
	}
	page, err := h.engine.Changes(r.Context(), ask)
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, shownRecord(&page, func(c *queue.Change) wire.RuleChange {
		return wire.RuleChange{Done: shownDone(c), Before: c.RuleBefore, After: c.RuleAfter}
	}))
}

func shownRecord[C wire.Change | wire.RuleChange](page *queue.ChangesPage, shown func(*queue.Change) C) wire.Record[C] {
	answer := wire.Record[C]{Changes: make([]C, len(page.Changes)), Next: page.Next, Dropped: page.Dropped}
	for i := range page.Changes {
		answer.Changes[i] = shown(&page.Changes[i])
	}
	return answer
}

func shownDone(c *queue.Change) wire.Done {
	d := wire.Done{
		Number: c.Number, At: c.At.UTC(), By: c.By, ClaimedBy: c.Note, What: c.What, Revision: c.Revision, Was: c.Was,
		Jobs: c.Jobs, IDs: c.IDs, Detail: c.Detail, Reason: c.Reason, Until: instant(c.Until),
	}
	if !c.Last.Equal(c.At) {
		d.Last = instant(c.Last)
	}
	return d
}

// changesRequest reads a query of changes.
func changesRequest(r *http.Request, of queue.Subject, name string) (ask queue.ChangesRequest, p *httpio.Problem) {
	q := r.URL.Query()
	ask = queue.ChangesRequest{Subject: of, Name: name}
	if ask.Limit, p = httpio.Limit(q, queue.MaxChanges, queue.MaxChanges); p != nil {
		return ask, p
	}
	if s := q.Get("before"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			return ask, httpio.BadField("before", httpio.Shorten(s)+" must be the next of an answer")
		}
		ask.Before = n
	}
	for _, list := range q["what"] {
		for _, s := range strings.Split(list, ",") {
			kind := changekind.Kind(s)
			if !slices.Contains(changekind.Kinds, kind) {
				return ask, httpio.BadField("what", fmt.Sprintf(
					"%s must be one of %s", httpio.Shorten(s), strings.Trim(fmt.Sprint(changekind.Kinds), "[]"),
				))
			}
			ask.What = append(ask.What, kind)
		}
	}
	if p := httpio.Span(q, &ask.Since, &ask.Until); p != nil {
		return ask, p
	}
	if app := appOfCaller(r.Context()); app != nil { // earlier changes belong to another owner
		if own := app.OwnSince(name); own.After(ask.Since) {
			ask.Since = own
		}
	}
	return ask, nil
}

// masked returns a spec with its secrets masked.
func masked(s *queue.Spec) *queue.Spec {
	if s == nil {
		return nil
	}
	q := shownSpec(*s, 0)
	return &q.Spec
}

// rollbackQueue rolls a queue back to an earlier revision, or shows its spec. The spec comes from the engine's record,
// so the caller need not know its secrets.
func (h *handler) rollbackQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := h.readRollback(r)
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedQueue(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	history, err := h.ownHistory(r.Context(), name)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	now := history.Revision
	spec, err := history.Earlier(ask.Revision)
	if expect != queue.AnyRevision && expect != now {
		(&httpio.Problem{
			Reason: httpio.ReasonRevision, Revision: now, Detail: httpio.ChangedSince,
		}).Write(w)
		return
	}
	if err != nil {
		h.failRollback(w, err, name)
		return
	}
	if p := h.o.refusesSpec(&spec); p != nil {
		p.Write(w)
		return
	}
	unlock, err := h.lockLimits(r.Context())
	if err != nil {
		h.fail(w, err, name)
		return
	}
	defer unlock()
	if err = h.allowedSpec(r.Context(), &spec); err == nil {
		err = ruleset.CheckOthers(r.Context(), h.engine, &spec)
	}
	if err == nil {
		err = h.validTarget(r.Context(), &spec)
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	if ask.DryRun {
		q := shownSpec(spec, now)
		if info, err := h.engine.Get(r.Context(), name); err == nil || errors.Is(err, queue.ErrUnknownQueue) {
			warn(&q, info.Group.Children)
		}
		h.writeQueue(w, r, http.StatusOK, q)
		return
	}
	if _, err := h.engine.Rollback(r.Context(), name, ask.Revision, now); err != nil {
		h.failRollback(w, err, name)
		return
	}
	h.showChanged(w, r, name, "the queue was rolled back")
}

// ownHistory returns the present spec of a queue, and the earlier ones since the queue's name belongs to the caller's
// app.
func (h *handler) ownHistory(ctx context.Context, name string) (queue.History, error) {
	history, err := h.engine.History(ctx, name)
	app := appOfCaller(ctx)
	if err != nil || app == nil {
		return history, err
	}
	page, err := h.engine.Changes(ctx, queue.ChangesRequest{
		Subject: queue.OfQueue, Name: name, Since: app.OwnSince(name), Limit: queue.MaxChanges,
		What: slices.DeleteFunc(slices.Clone(changekind.Kinds), func(k changekind.Kind) bool { return !k.OfSpecs() }),
	})
	if err != nil {
		return history, err
	}
	history.Specs = slices.DeleteFunc(history.Specs, func(k queue.KeptSpec) bool {
		return k.Revision != history.Revision &&
			!slices.ContainsFunc(page.Changes, func(c queue.Change) bool { return c.Revision == k.Revision })
	})
	return history, nil
}

func (h *handler) failRollback(w http.ResponseWriter, err error, name string) {
	var unknown *queue.UnknownRevision
	if errors.As(err, &unknown) {
		(&httpio.Problem{
			Reason: httpio.ReasonUnknownRev, Field: "revision", Detail: unknown.Error(), Revisions: unknown.Known,
		}).Write(w)
		return
	}
	h.fail(w, err, name)
}

// readRollback reads the body of a rollback, which may be empty.
func (h *handler) readRollback(r *http.Request) (ask wire.RollbackRequest, p *httpio.Problem) {
	if p := h.readJSON(r, maxSmallBody, &ask); p != nil {
		return ask, p
	}
	if ask.Revision < 0 {
		return ask, httpio.BadField(
			"revision", strconv.FormatInt(ask.Revision, 10)+" is below 1; omit it for the revision before the last change",
		)
	}
	return ask, nil
}
