package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/ruleset"
)

// maxKeepTries is how often a put that keeps stored secrets is retried after a concurrent change.
const maxKeepTries = 10

func (h *handler) putQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	spec, p := h.readSpec(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedQueue(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	result, err := h.put(r.Context(), &spec, expect)
	if errors.Is(err, queue.ErrRevision) {
		p := httpio.ProblemOf(err)
		p.Revision = result.Revision
		p.Write(w)
		return
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	status := http.StatusOK
	if result.Created {
		status = http.StatusCreated
		w.Header().Set("Location", h.o.Prefix+"/v1/queues/"+name)
	}
	// The change was made, even if the queue cannot be read now. The answer then has only the spec that was put. It never
	// shows a later change by another client.
	q := shownSpec(spec, result.Revision)
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		h.logInternal(httpio.ProblemOf(err), err, name)
	} else if info.Revision == result.Revision {
		q = h.shownTo(r.Context())(&info)
	}
	warn(&q, info.Group.Children)
	h.writeQueue(w, r, status, q)
}

const noTarget = "the queue has neither deliver nor pull, so its jobs will wait; only a parent of other " +
	"queues needs neither"

// warn adds the warnings about a queue's spec to an answer.
func warn(q *wire.Queue, children int64) {
	if q.Spec.NeedsTarget() && children == 0 {
		q.Warnings = append(q.Warnings, noTarget)
	}
}

// put stores a spec. A masked secret is replaced by the stored one. The spec is then stored only if the queue is still
// at the revision that was read, so that no outdated secret is stored.
func (h *handler) put(ctx context.Context, spec *queue.Spec, expect int64) (queue.PutResult, error) {
	unlock, err := h.lockLimits(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	defer unlock()
	err = h.allowedSpec(ctx, spec)
	if err == nil {
		err = ruleset.CheckOthers(ctx, h.engine, spec)
	}
	if err != nil {
		return queue.PutResult{}, err
	}
	if !secrets.Masked(spec.Deliver) {
		if err := h.validTarget(ctx, spec); err != nil {
			return queue.PutResult{}, err
		}
		return h.engine.Put(ctx, *spec, expect)
	}
	masked := spec.Deliver
	for try := 1; ; try++ {
		stored, err := h.engine.Get(ctx, spec.Name)
		if err != nil && !errors.Is(err, queue.ErrUnknownQueue) {
			return queue.PutResult{}, err
		}
		if expect != queue.AnyRevision && expect != stored.Revision { // the revision is 0 if the queue is new
			return queue.PutResult{Revision: stored.Revision}, queue.ErrRevision
		}
		if spec.Deliver, err = deliver.Unmask(masked, stored.Spec.Deliver); err != nil {
			return queue.PutResult{}, err
		}
		if err := h.validTarget(ctx, spec); err != nil {
			return queue.PutResult{}, err
		}
		result, err := h.engine.Put(ctx, *spec, stored.Revision)
		if !errors.Is(err, queue.ErrRevision) || expect != queue.AnyRevision || try == maxKeepTries {
			return result, err
		}
	}
}

// readSpec reads the spec of a PUT, without checking its target. The body may omit the name, but must not contradict
// the URL.
func (h *handler) readSpec(r *http.Request, name string) (queue.Spec, *httpio.Problem) {
	if p := httpio.RequireJSON(r); p != nil {
		return queue.Spec{}, p
	}
	body, charged, p := httpio.ReadBody(r, h.account(r), nil, queue.MaxSpecBytes)
	defer charged.Free()
	if p != nil {
		return queue.Spec{}, p
	}
	return h.parseSpec(body, name)
}

// parseSpec is readSpec of a body.
func (h *handler) parseSpec(body []byte, name string) (queue.Spec, *httpio.Problem) {
	spec, err := queue.ParseSpec(body)
	if err != nil {
		return queue.Spec{}, httpio.ProblemOf(err)
	}
	if spec.Name == "" {
		spec.Name = name
	}
	if spec.Name != name {
		return queue.Spec{}, httpio.BadField(
			"name", "is "+httpio.Shorten(spec.Name)+" but the URL says "+httpio.Shorten(name),
		)
	}
	if err := spec.Validate(); err != nil {
		return queue.Spec{}, httpio.ProblemOf(err)
	}
	if p := h.o.refusesSpec(&spec); p != nil {
		return queue.Spec{}, p
	}
	return spec, nil
}

// validTarget checks the target of a spec and completes the spec from it. Its error is a *httpio.Problem.
func (h *handler) validTarget(ctx context.Context, spec *queue.Spec) error {
	if len(spec.Deliver) == 0 {
		return nil
	}
	// The app's permissions come first: later errors reveal which secrets exist and where they may be sent.
	err := h.allowedTarget(ctx, spec)
	if err == nil {
		err = h.o.ValidateTarget(spec.Name, spec.Deliver)
	}
	var field *invalid.Error
	switch {
	case err == nil:
		deliver.Complete(spec)
		return nil
	case errors.As(err, &field):
		return httpio.InvalidField(field)
	}
	return httpio.BadField("deliver", err.Error())
}
