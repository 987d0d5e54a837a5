package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// listDeadQueues answers with the queues that have dead jobs, deleted queues included. With the parameter queue it
// answers with only that queue.
func (h *handler) listDeadQueues(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query().Get("queue")
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	if only != "" {
		if err := names.Validate(only); err != nil {
			httpio.BadField("queue", httpio.Shorten(only)+" is not a queue name").Write(w)
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

// replayJob returns a dead job to its queue.
func (h *handler) replayJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	outcomes, err := h.engine.Replay(r.Context(), name, []string{id})
	switch {
	case errors.Is(err, queue.ErrUnknownQueue):
		p := httpio.UnknownQueue(name)
		p.ID, p.Detail = id, p.Detail+"; recreate it to replay its dead jobs"
		p.Write(w)
	case err != nil:
		h.failJob(w, err, name, id)
	case outcomes[0] == queue.NotDead:
		h.notDead(w, r, name, id)
	case outcomes[0] == queue.NoRoom:
		(&httpio.Problem{
			Reason: httpio.ReasonFull, ID: id, RetryAfter: httpio.RetryUnavailable,
			Detail: "the queue, the job's lane or the schedule is full: the job is still dead",
		}).Write(w)
	case outcomes[0] == queue.Broken:
		(&httpio.Problem{
			Reason: httpio.ReasonInternal, ID: id, Detail: "the stored job is corrupt; it can only be deleted",
		}).Write(w)
	default:
		state := queue.Waiting
		if info, err := h.engine.Job(r.Context(), name, id); err == nil { // on an error, the job was replayed all the same
			state = info.State
		}
		h.writeJSON(w, r, http.StatusOK, wire.Replayed{Queue: name, ID: id, State: state})
	}
}

// deleteJob deletes a dead job.
func (h *handler) deleteJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		httpio.ProblemOf(err).Write(w)
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

// notDead answers about a job that is not dead.
func (h *handler) notDead(w http.ResponseWriter, r *http.Request, name, id string) {
	info, err := h.engine.Job(r.Context(), name, id)
	if err != nil {
		h.failJob(w, err, name, id)
		return
	}
	(&httpio.Problem{
		Reason: httpio.ReasonNotDead, ID: id, State: info.State,
		Detail: "the job is " + info.State.String() + ", not dead; nothing was changed",
	}).Write(w)
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

// maxChoice is the limit of a body that selects jobs.
const maxChoice = 128 << 10

// deciding applies a decision to jobs and counts the results in d.
type deciding func(ctx context.Context, name string, ids []string, d *wire.Decided) error

// decide applies a decision to the dead jobs that a request selects.
func (h *handler) decide(w http.ResponseWriter, r *http.Request, do deciding) {
	var c wire.Choice
	if p := h.readJSON(r, maxChoice, &c); p != nil {
		p.Write(w)
		return
	}
	h.decideChosen(w, r, queue.Dead, &c, do)
}

// decideChosen applies a decision to the selected jobs in a state, up to maxPages pages of them.
func (h *handler) decideChosen(w http.ResponseWriter, r *http.Request, state queue.State, c *wire.Choice, do deciding) {
	name := r.PathValue("queue")
	var d wire.Decided
	var err error
	if len(c.IDs) > 0 {
		if c.Reason != "" || c.Before != nil || c.Since != nil || c.After != "" || c.DryRun {
			(&httpio.Problem{
				Reason: httpio.ReasonInvalidRequest, Field: "ids", Detail: "cannot be given with reason, before, since, after " +
					"or dry_run",
			}).Write(w)
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

// decidePages applies a decision to the jobs of a list, page by page. On an error after the first page it reports how
// far it got; the next request continues there and finds the error.
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
			h.logInternal(httpio.ProblemOf(err), err, req.Queue)
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

// stands returns the instant that orders a job in its list: when it died, or when it was held.
func stands(j *queue.JobInfo) time.Time {
	if j.State == queue.Held {
		return j.HeldAt
	}
	return j.EndedAt
}

// beginAt makes a list of dead or held jobs begin with the first job that can match.
func beginAt(r *queue.ListRequest, c *wire.Choice) {
	if c.Since != nil && r.After == "" {
		r.After = r.Next(queue.Cursor{At: max(0, c.Since.UnixMicro()) - 1, ID: "~"})
	}
}

// pastChoice reports whether no later job can match.
func pastChoice(c *wire.Choice, jobs []queue.JobInfo) bool {
	n := len(jobs)
	return n > 0 && c.Before != nil && !stands(&jobs[n-1]).Before(*c.Before)
}
