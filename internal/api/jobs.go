package api

import (
	"net/http"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

func (h *handler) getJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		refused(err).write(w)
		return
	}
	info, c, p, err := h.job(r, name, id)
	defer c.free()
	switch {
	case p != nil:
		p.write(w)
	case err != nil:
		h.failJob(w, err, name, id)
	default:
		h.writeCharged(w, r, http.StatusOK, shownJobTo(r.Context(), &info), c)
	}
}

// cancelJob takes a job back that has not left. It may be repeated.
func (h *handler) cancelJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		refused(err).write(w)
		return
	}
	state, err := h.engine.Cancel(r.Context(), name, id)
	switch {
	case err != nil:
		h.failJob(w, err, name, id)
	case state == queue.Cancelled:
		h.writeJSON(w, r, http.StatusOK, wire.Cancelled{Queue: name, ID: id, State: state})
	case state == queue.Leased:
		(&Problem{
			Reason: ReasonNotCancellable, ID: id, State: state,
			Detail: "the job is leased: a drainer has it, and it may have left",
		}).write(w)
	case state == queue.Held:
		(&Problem{
			Reason: ReasonNotCancellable, ID: id, State: state,
			Detail: "the job is held: it may have been sent, and a person decides about it",
		}).write(w)
	default:
		(&Problem{
			Reason: ReasonNotCancellable, ID: id, State: state, Detail: "the job has ended: it is " + state.String(),
		}).write(w)
	}
}

// failJob answers with an engine's error about one job.
func (h *handler) failJob(w http.ResponseWriter, err error, name, id string) {
	p := refused(err)
	if p.Reason == ReasonUnknownQueue {
		p = unknownQueue(name)
	}
	p.ID = id
	h.logInternal(p, err, name)
	p.write(w)
}
