package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// listDeadQueues answers with the names that have dead jobs, those of deleted queues among
// them, or with one of them.
func (h *handler) listDeadQueues(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query().Get("queue")
	after, limit, p := pageOf(r)
	if p != nil {
		p.write(w)
		return
	}
	if only != "" {
		if err := names.Validate(only); err != nil {
			badField("queue", shorten(only)+" is not a queue name").write(w)
			return
		}
		after, limit = before(only), 1
	}
	found, err := h.seenDead(r.Context(), after, limit+1)
	if err != nil {
		h.fail(w, err, "")
		return
	}
	page := wire.DeadQueues{Queues: []wire.DeadQueue{}}
	for i, d := range found {
		if i == limit || only != "" && d.Queue != only {
			break
		}
		page.Queues = append(page.Queues, wire.DeadQueue{
			Queue: d.Queue, Dead: d.Dead, Oldest: instant(d.Oldest), Gone: d.Gone,
		})
	}
	if only == "" && len(found) > limit {
		page.Next = found[limit-1].Queue
	}
	h.writeJSON(w, r, http.StatusOK, page)
}

// replayJob puts one dead job back into its queue.
func (h *handler) replayJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		refused(err).write(w)
		return
	}
	outcomes, err := h.engine.Replay(r.Context(), name, []string{id})
	switch {
	case errors.Is(err, queue.ErrUnknownQueue):
		p := unknownQueue(name)
		p.ID, p.Detail = id, p.Detail+"; its dead jobs can be replayed when it is made again"
		p.write(w)
	case err != nil:
		h.failJob(w, err, name, id)
	case outcomes[0] == queue.NotDead:
		h.notDead(w, r, name, id)
	case outcomes[0] == queue.NoRoom:
		(&Problem{
			Reason: ReasonFull, ID: id, RetryAfter: retryUnavailable,
			Detail: "the queue, the job's lane or the schedule has no room for it: the job is still dead",
		}).write(w)
	case outcomes[0] == queue.Broken:
		(&Problem{
			Reason: ReasonInternal, ID: id, Detail: "what the store has kept of this job is not a job; it can only be deleted",
		}).write(w)
	default:
		state := queue.Waiting
		if info, err := h.engine.Job(r.Context(), name, id); err == nil { // else that it was replayed is true all the same
			state = info.State
		}
		h.writeJSON(w, r, http.StatusOK, wire.Replayed{Queue: name, ID: id, State: state})
	}
}

// deleteJob drops a dead job for good.
func (h *handler) deleteJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		refused(err).write(w)
		return
	}
	dropped, err := h.engine.Forget(r.Context(), name, []string{id})
	switch {
	case err != nil:
		h.failJob(w, err, name, id)
	case !dropped[0]:
		h.notDead(w, r, name, id)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// notDead says where a job is that is not dead.
func (h *handler) notDead(w http.ResponseWriter, r *http.Request, name, id string) {
	info, err := h.engine.Job(r.Context(), name, id)
	if err != nil {
		h.failJob(w, err, name, id)
		return
	}
	(&Problem{
		Reason: ReasonNotDead, ID: id, State: info.State,
		Detail: "the job is " + info.State.String() + ", not dead; nothing was changed",
	}).write(w)
}

func (h *handler) replayJobs(w http.ResponseWriter, r *http.Request) {
	h.decide(w, r, func(ctx context.Context, name string, ids []string, d *wire.Decided) error {
		outcomes, err := h.engine.Replay(ctx, name, ids)
		for _, o := range outcomes {
			switch o {
			case queue.Replayed:
				d.Replayed++
			case queue.NoRoom:
				d.NoRoom++
			case queue.Broken:
				d.Broken++
			default:
				d.NotDead++
			}
		}
		return err
	})
}

func (h *handler) forgetJobs(w http.ResponseWriter, r *http.Request) {
	h.decide(w, r, func(ctx context.Context, name string, ids []string, d *wire.Decided) error {
		dropped, err := h.engine.Forget(ctx, name, ids)
		for _, gone := range dropped {
			if gone {
				d.Forgotten++
			} else {
				d.NotDead++
			}
		}
		return err
	})
}

// maxChoice is the limit of a body that names jobs.
const maxChoice = 128 << 10

// deciding does something with some jobs, and counts what became of them.
type deciding func(ctx context.Context, name string, ids []string, d *wire.Decided) error

// decide does something with the dead jobs that a request chooses.
func (h *handler) decide(w http.ResponseWriter, r *http.Request, do deciding) {
	var c wire.Choice
	if p := h.readJSON(r, maxChoice, &c); p != nil {
		p.write(w)
		return
	}
	h.decideChosen(w, r, queue.Dead, &c, do)
}

// decideChosen does something with the jobs in a state that are chosen, up to maxPages pages of them.
func (h *handler) decideChosen(w http.ResponseWriter, r *http.Request, state queue.State, c *wire.Choice, do deciding) {
	name := r.PathValue("queue")
	var d wire.Decided
	var err error
	if len(c.IDs) > 0 {
		if c.Reason != "" || c.Before != nil || c.Since != nil || c.After != "" || c.DryRun {
			(&Problem{
				Reason: ReasonInvalidRequest, Field: "ids", Detail: "cannot be given with reason, before, since, after or dry_run",
			}).write(w)
			return
		}
		d.LookedAt, d.Matched = int64(len(c.IDs)), int64(len(c.IDs))
		err = do(r.Context(), name, c.IDs, &d)
	} else {
		err = h.decidePages(
			r.Context(), queue.ListRequest{Queue: name, State: state, After: c.After, Limit: queue.MaxPage}, c, &d, do,
		)
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, d)
}

// decidePages does something with the jobs of pages of a list. Where it fails behind the first page it says how far it
// has come, and the next request, which goes on there, finds what is wrong.
func (h *handler) decidePages(
	ctx context.Context, req queue.ListRequest, c *wire.Choice, d *wire.Decided, do deciding,
) error {
	beginAt(&req, c)
	for range maxPages {
		l, err := h.engine.ListJobs(ctx, req)
		ids := chosen(l.Jobs, c)
		if err == nil && len(ids) > 0 && !c.DryRun {
			err = do(ctx, req.Queue, ids, d)
		}
		if err != nil && d.Next != "" {
			h.logInternal(refused(err), err, req.Queue)
			return nil
		}
		if err != nil {
			return err
		}
		d.LookedAt += int64(len(l.Jobs))
		d.Matched += int64(len(ids))
		d.Next, req.After = l.Next, l.Next
		if l.Next == "" {
			break
		}
		if pastChoice(c, l.Jobs) {
			d.Next = ""
			break
		}
	}
	return nil
}

func chosen(jobs []queue.JobInfo, c *wire.Choice) (ids []string) {
	for i := range jobs {
		if chooses(c, &jobs[i]) {
			ids = append(ids, jobs[i].ID)
		}
	}
	return ids
}

func chooses(c *wire.Choice, j *queue.JobInfo) bool {
	return strings.Contains(j.Reason, c.Reason) && (c.Before == nil || stands(j).Before(*c.Before)) && (c.Since == nil ||
		!stands(j).Before(*c.Since))
}

// stands is the instant by which a job stands in its list: when it died, or since when it is held.
func stands(j *queue.JobInfo) time.Time {
	if j.State == queue.Held {
		return j.HeldAt
	}
	return j.EndedAt
}

// beginAt lets a list of dead or held jobs, which stand by such an instant, begin with the first that may
// be chosen.
func beginAt(r *queue.ListRequest, c *wire.Choice) {
	if c.Since != nil && r.After == "" {
		r.After = r.Next(queue.Cursor{At: max(0, c.Since.UnixMicro()) - 1, ID: "~"})
	}
}

// pastChoice reports whether none behind these can be chosen.
func pastChoice(c *wire.Choice, jobs []queue.JobInfo) bool {
	n := len(jobs)
	return n > 0 && c.Before != nil && !stands(&jobs[n-1]).Before(*c.Before)
}
