package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/ruleset"
)

// maxKeepTries is how often a spec whose secrets are to be kept is put once more
// because somebody else changed the queue between reading them and putting it.
const maxKeepTries = 10

func (h *handler) putQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	spec, p := h.readSpec(r, name)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expected(r, name)
	if p != nil {
		p.write(w)
		return
	}
	result, err := h.put(r.Context(), &spec, expect)
	if errors.Is(err, queue.ErrRevision) {
		p := refused(err)
		p.Revision = result.Revision
		p.write(w)
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
	// The change was made, whatever becomes of reading it: what is known of it is
	// then the answer. What somebody else made of the queue meanwhile is not.
	q := shownSpec(spec, result.Revision)
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		h.logInternal(refused(err), err, name)
	} else if info.Revision == result.Revision {
		q = shownTo(r.Context())(&info)
	}
	warn(&q, info.Group.Children)
	h.writeQueue(w, r, status, q)
}

const noTarget = "the queue has neither deliver nor pull, so jobs that come to it will wait; only a parent of other " +
	"queues needs neither"

// warn adds to a queue that is answered what is doubtful about its spec.
func warn(q *wire.Queue, children int64) {
	if q.Spec.NeedsTarget() && children == 0 {
		q.Warnings = append(q.Warnings, noTarget)
	}
}

// put gives a spec to the engine. Where it has the mask of a secret it gets the
// secret that is stored there; then the engine is told to insist on the revision at
// which that was read, so that it is never one of an older spec.
func (h *handler) put(ctx context.Context, spec *queue.Spec, expect int64) (queue.PutResult, error) {
	unlock, err := h.onePut(ctx)
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
		if expect != queue.AnyRevision && expect != stored.Revision { // 0 if there is none
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

// readSpec reads the spec of a PUT, all but its target. The name may be left out of
// the body; it cannot be another one than the URL's.
func (h *handler) readSpec(r *http.Request, name string) (queue.Spec, *Problem) {
	if p := requireJSON(r); p != nil {
		return queue.Spec{}, p
	}
	body, charged, p := h.readBody(r, nil, queue.MaxSpecBytes)
	defer charged.free()
	if p != nil {
		return queue.Spec{}, p
	}
	spec, err := queue.ParseSpec(body)
	if err != nil {
		return queue.Spec{}, refused(err)
	}
	if spec.Name == "" {
		spec.Name = name
	}
	if spec.Name != name {
		return queue.Spec{}, badField("name", "is "+shorten(spec.Name)+" but the URL says "+shorten(name))
	}
	if err := spec.Validate(); err != nil {
		return queue.Spec{}, refused(err)
	}
	if p := h.o.refusesSpec(&spec); p != nil {
		return queue.Spec{}, p
	}
	return spec, nil
}

// validTarget checks the target of a spec, and completes the spec by it; its error is a *Problem.
func (h *handler) validTarget(ctx context.Context, spec *queue.Spec) error {
	if len(spec.Deliver) == 0 {
		return nil
	}
	// What the app may name comes first: what follows tells which secrets there are, and where they may go.
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
		return refusedField(field)
	}
	return badField("deliver", err.Error())
}
