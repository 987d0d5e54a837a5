package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// maxSmallBody is the limit of bodies with few fields, such as a pause.
const maxSmallBody = 4 << 10

func (h *handler) listQueues(w http.ResponseWriter, r *http.Request) {
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	c := httpio.NewCharge(h.account(r))
	defer c.Free()
	infos, limit, p, err := h.someQueues(r, after, limit, c)
	switch {
	case p != nil:
		p.Write(w)
		return
	case err != nil:
		h.fail(w, err, "")
		return
	}
	page := wire.Queues{}
	page.Queues, page.Next = httpio.NextPage(
		w, r, infos, limit, h.shownTo(r.Context()), func(q *wire.Queue) string { return q.Name },
	)
	httpio.WriteJSON(w, r, http.StatusOK, page, c)
}

// infoCost is the memory of a listed queue, without its deliver part.
const infoCost = 4 << 10

// someQueues reads the queues of a page and one more, which shows whether there is a next page. The page is shorter if
// there is not enough memory. It returns the limit that applied.
func (h *handler) someQueues(
	r *http.Request, after string, limit int, c *httpio.Charge,
) ([]queue.Info, int, *httpio.Problem, error) {
	var infos []queue.Info
	size := 0
	for {
		n, p := c.Ahead(min(limit+1-len(infos), httpio.DefaultPage+1), infoCost+queue.MaxDeliverBytes)
		switch {
		case p != nil && len(infos) < 2:
			return nil, 0, p, nil
		case p != nil:
			return infos, len(infos) - 1, nil, nil
		}
		some, err := h.seenQueues(r.Context(), after, n)
		if err != nil {
			return nil, 0, nil, err
		}
		for i := range some {
			size += infoCost + len(some[i].Spec.Deliver)
		}
		c.Shrink(size)
		if infos = append(infos, some...); len(some) < n || len(infos) > limit {
			return infos, limit, nil, nil
		}
		after = some[n-1].Spec.Name
	}
}

func (h *handler) getQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	info, err := h.caches.infos.Get(
		r.Context(), h.seenAs(name), httpio.MaxAge(r), func(ctx context.Context) (queue.Info, error) {
			return h.engine.Get(ctx, name)
		},
	)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	q := h.shownTo(r.Context())(&info)
	if row := h.o.Survey.Latest().Row(name); row != nil {
		q.Outlook = shownOutlook(row.Outlook)
	}
	h.writeQueue(w, r, http.StatusOK, q)
}

func (h *handler) writeQueue(w http.ResponseWriter, r *http.Request, status int, q wire.Queue) {
	w.Header().Set("ETag", httpio.ETag(q.Revision))
	h.writeJSON(w, r, status, q)
}

func (h *handler) deleteQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	force, p := httpio.Bool(r.URL.Query(), "force")
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedQueue(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	if err := h.engine.Delete(r.Context(), name, expect, force); err != nil {
		h.fail(w, err, name)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *handler) pauseQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	pause, p := h.readPause(r)
	if p != nil {
		p.Write(w)
		return
	}
	if err := h.engine.Pause(r.Context(), name, pause); err != nil {
		h.fail(w, err, name)
		return
	}
	h.showChanged(w, r, name, "the queue was paused")
}

// readPause reads the body of a pause, which may be empty.
func (h *handler) readPause(r *http.Request) (pause queue.Pause, p *httpio.Problem) {
	var v struct {
		Reason string     `json:"reason"`
		Until  *time.Time `json:"until"`
	}
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		return pause, p
	}
	if len(v.Reason) > queue.MaxReasonBytes {
		return pause, httpio.TooLarge("reason", "the reason", queue.MaxReasonBytes)
	}
	pause.Reason = v.Reason
	if v.Until != nil {
		if v.Until.IsZero() { // the engine takes zero for none
			return pause, httpio.BadField("until", "must be between the years 2000 and 2200")
		}
		pause.Until = *v.Until
	}
	return pause, nil
}

func (h *handler) resumeQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if err := h.engine.Resume(r.Context(), name); err != nil {
		h.fail(w, err, name)
		return
	}
	h.showChanged(w, r, name, "the queue was resumed")
}

// showChanged answers with a queue after a change, which done describes. If the queue cannot be read now, the change
// was made all the same, and the answer must say so.
func (h *handler) showChanged(w http.ResponseWriter, r *http.Request, name, done string) {
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		h.logInternal(httpio.ProblemOf(err), err, name)
		(&httpio.Problem{
			Reason: httpio.ReasonOutcomeUnknown, RetryAfter: httpio.RetryUnavailable,
			Detail: done + ", but its state could not be read; repeating the request is safe",
		}).Write(w)
		return
	}
	q := h.shownTo(r.Context())(&info)
	warn(&q, info.Group.Children)
	h.writeQueue(w, r, http.StatusOK, q)
}

// purgeQueue cancels jobs that have not departed, up to maxPages pages of them. Next says in which state to continue,
// and where.
func (h *handler) purgeQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var c wire.PurgeRequest
	if p := h.readJSON(r, maxSmallBody, &c); p != nil {
		p.Write(w)
		return
	}
	states, after, p := purgeStates(&c)
	if p != nil {
		p.Write(w)
		return
	}
	var done wire.Purged
	pages := maxPages
	for i, state := range states {
		next, err := h.purgeState(r.Context(), name, state, &c, after, &pages, &done)
		if err != nil && done.Jobs == 0 {
			h.fail(w, err, name)
			return
		}
		if err != nil { // the next request continues here and finds the error
			h.logInternal(httpio.ProblemOf(err), err, name)
			done.Next = state.String() + "." + next
			break
		}
		if after = ""; next != "" || pages == 0 && i+1 < len(states) {
			if next == "" {
				state = states[i+1]
			}
			done.Next = state.String() + "." + next
			break
		}
	}
	h.writeJSON(w, r, http.StatusOK, done)
}

// purgeStates returns the states that remain to be purged. Scheduled jobs come first: a job that becomes due meanwhile
// is then found among the waiting ones.
func purgeStates(c *wire.PurgeRequest) (states []queue.State, after string, p *httpio.Problem) {
	if len(c.States) == 0 {
		if states = []queue.State{queue.Scheduled, queue.Waiting}; c.Lane != nil {
			states = []queue.State{queue.Waiting}
		}
	}
	for _, s := range []queue.State{queue.Scheduled, queue.Waiting} {
		if slices.Contains(c.States, s) {
			states = append(states, s)
		}
	}
	for _, s := range c.States {
		if s != queue.Waiting && s != queue.Scheduled {
			return nil, "", httpio.BadField("states", s.String()+" cannot be purged; waiting and scheduled can")
		}
	}
	if c.Lane != nil && slices.Contains(states, queue.Scheduled) {
		return nil, "", httpio.BadField("lane", "can filter only waiting jobs")
	}
	if c.After == "" {
		return states, "", nil
	}
	name, after, _ := strings.Cut(c.After, ".")
	at := slices.IndexFunc(states, func(s queue.State) bool { return s.String() == name })
	if at < 0 {
		return nil, "", httpio.BadField("after", httpio.Shorten(c.After)+" must be the next of a purge of the same states")
	}
	return states[at:], after, nil
}

// purgeState purges one state, or only counts in a dry run, for as many pages as are left. It returns where to
// continue, also with an error. An empty next without an error means done.
func (h *handler) purgeState(
	ctx context.Context, name string, s queue.State, c *wire.PurgeRequest, after string, pages *int, done *wire.Purged,
) (next string, err error) {
	for ; *pages > 0; *pages-- {
		var page queue.Purged
		if c.DryRun {
			var l queue.Listing
			l, err = h.engine.ListJobs(ctx, queue.ListRequest{
				Queue: name, State: s, Lane: c.Lane, After: after, Limit: queue.MaxPage,
			})
			page = queue.Purged{Jobs: int64(len(l.Jobs)), Next: l.Next}
		} else {
			page, err = h.engine.Purge(ctx, queue.PurgeRequest{
				Queue: name, State: s, Lane: c.Lane, After: after, Limit: queue.MaxPage,
			})
		}
		done.Jobs += page.Jobs
		if err != nil {
			return after, err
		}
		if after = page.Next; after == "" {
			return "", nil
		}
	}
	return after, nil
}

// expectedQueue reads the conditions of a change of a queue.
func (h *handler) expectedQueue(r *http.Request, name string) (int64, *httpio.Problem) {
	return httpio.Expected(r, func() (int64, *httpio.Problem) {
		info, err := h.engine.Get(r.Context(), name)
		if errors.Is(err, queue.ErrUnknownQueue) {
			return 0, &httpio.Problem{Reason: httpio.ReasonRevision, Detail: "there is no such queue"}
		}
		if err != nil {
			return 0, httpio.ProblemOf(err)
		}
		return info.Revision, nil
	})
}
