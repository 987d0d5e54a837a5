package api

import (
	"context"
	"net/http"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// decisions are the possible decisions about held jobs.
var decisions = map[string]struct {
	verdict queue.Verdict
	state   queue.State
}{
	"release": {queue.Release, queue.Waiting}, "delivered": {queue.Deliver, queue.Delivered},
	"dead": {queue.Bury, queue.Dead},
}

func validDecision(d, note string) *httpio.Problem {
	if _, ok := decisions[d]; !ok {
		return httpio.BadField("decision", httpio.Shorten(d)+" must be release, delivered or dead")
	}
	if len(note) > queue.MaxReasonBytes {
		return httpio.TooLarge("note", "the note", queue.MaxReasonBytes)
	}
	if note != "" && d == "release" {
		return httpio.BadField("note", "is allowed only with delivered and dead")
	}
	return nil
}

// decideJobs decides about the held jobs that a request selects. It is idempotent.
func (h *handler) decideJobs(w http.ResponseWriter, r *http.Request) {
	var v wire.Decision
	p := h.readJSON(r, maxChoice, &v)
	if p == nil {
		p = validDecision(v.Decision, v.Note)
	}
	if p != nil {
		p.Write(w)
		return
	}
	to := decisions[v.Decision]
	h.decideChosen(w, r, queue.Held, &v.Choice, func(
		ctx context.Context, name string, ids []string, d *wire.Decided,
	) error {
		states, err := h.engine.Decide(ctx, name, ids, to.verdict, v.Note)
		for _, s := range states {
			switch {
			case s != to.state:
				d.NotHeld++
			case s == queue.Waiting:
				d.Released++
			case s == queue.Delivered:
				d.Delivered++
			default:
				d.Dead++
			}
		}
		return err
	})
}

// decideJob decides about one held job. It is idempotent.
func (h *handler) decideJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	var v wire.OneDecision
	p := h.readJSON(r, maxChoice, &v)
	if p == nil {
		p = validDecision(v.Decision, v.Note)
	}
	if p != nil {
		p.Write(w)
		return
	}
	if err := names.ValidateID(id); err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	to := decisions[v.Decision]
	states, err := h.engine.Decide(r.Context(), name, []string{id}, to.verdict, v.Note)
	switch {
	case err != nil:
		h.failJob(w, err, name, id)
	case states[0] == queue.StateNone:
		h.failJob(w, queue.ErrUnknownJob, name, id)
	case states[0] != to.state:
		(&httpio.Problem{
			Reason: httpio.ReasonNotHeld, ID: id, State: states[0],
			Detail: "the job is " + states[0].String() + ", not held; nothing was changed",
		}).Write(w)
	default:
		h.writeJSON(w, r, http.StatusOK, wire.Replayed{Queue: name, ID: id, State: to.state})
	}
}
