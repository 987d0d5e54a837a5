package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// Pages of the list of queues.
const (
	defaultPage = 100
	maxPage     = 1000
)

// maxSmallBody is the limit of a body that says little, as pause's does.
const maxSmallBody = 4 << 10

func (h *handler) listQueues(w http.ResponseWriter, r *http.Request) {
	after, limit, p := pageOf(r)
	if p != nil {
		p.write(w)
		return
	}
	c := &charge{account: h.account(r)}
	defer c.free()
	infos, limit, p, err := h.someQueues(r, after, limit, c)
	switch {
	case p != nil:
		p.write(w)
		return
	case err != nil:
		h.fail(w, err, "")
		return
	}
	page := wire.Queues{}
	page.Queues, page.Next = pageFrom(
		w, r, infos, limit, shownTo(r.Context()), func(q *wire.Queue) string { return q.Name },
	)
	h.writeCharged(w, r, http.StatusOK, page, c)
}

// infoCost is what a queue in a list takes beside how its jobs are delivered.
const infoCost = 4 << 10

// someQueues reads as many queues as a page may have, and one more, which tells whether there is a next page. The page
// is shorter if there is no memory for all.
func (h *handler) someQueues(r *http.Request, after string, limit int, c *charge) ([]queue.Info, int, *Problem, error) {
	var infos []queue.Info
	size := 0
	for {
		n, p := c.ahead(min(limit+1-len(infos), defaultPage+1), infoCost+queue.MaxDeliverBytes)
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
		c.shrink(size)
		if infos = append(infos, some...); len(some) < n || len(infos) > limit {
			return infos, limit, nil, nil
		}
		after = some[n-1].Spec.Name
	}
}

// pageFrom is the page of a list of which one more was asked for than it has, and behind which name the next one
// begins, if there is one: a header links to that.
func pageFrom[I, S any](
	w http.ResponseWriter, r *http.Request, infos []I, limit int, shown func(*I) S, name func(*S) string,
) (page []S, next string) {
	page = make([]S, 0, min(len(infos), limit))
	for i := range infos {
		if i == limit {
			next = name(&page[i-1])
			query := r.URL.Query()
			query.Set("after", next)
			query.Set("limit", strconv.Itoa(limit))
			w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+query.Encode()+`>; rel="next"`)
			break
		}
		page = append(page, shown(&infos[i]))
	}
	return page, next
}

// pageOf reads which page of a list is asked for.
func pageOf(r *http.Request) (after string, limit int, p *Problem) {
	q := r.URL.Query()
	limit = defaultPage
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxPage {
			return "", 0, badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(maxPage))
		}
		limit = n
	}
	return q.Get("after"), limit, nil
}

func (h *handler) getQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	info, err := h.looks.infos.get(
		r.Context(), h.seenAs(name), mayBeOld(r), func(ctx context.Context) (queue.Info, error) {
			return h.engine.Get(ctx, name)
		},
	)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeQueue(w, r, http.StatusOK, shownTo(r.Context())(&info))
}

// writeQueue answers with a queue.
func (h *handler) writeQueue(w http.ResponseWriter, r *http.Request, status int, q wire.Queue) {
	w.Header().Set("ETag", etag(q.Revision))
	h.writeJSON(w, r, status, q)
}

func (h *handler) deleteQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	force, p := forced(r)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expected(r, name)
	if p != nil {
		p.write(w)
		return
	}
	if err := h.engine.Delete(r.Context(), name, expect, force); err != nil {
		h.fail(w, err, name)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// forced reads whether to delete whatever is lost by it.
func forced(r *http.Request) (bool, *Problem) {
	s := r.URL.Query().Get("force")
	if s == "" {
		return false, nil
	}
	force, err := strconv.ParseBool(s)
	if err != nil {
		return false, badField("force", shorten(s)+" must be true or false")
	}
	return force, nil
}

func (h *handler) pauseQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	pause, p := h.readPause(r)
	if p != nil {
		p.write(w)
		return
	}
	if err := h.engine.Pause(r.Context(), name, pause); err != nil {
		h.fail(w, err, name)
		return
	}
	h.showChanged(w, r, name, "the queue was paused")
}

// readPause reads the body of a pause: nothing, or {"reason": "...", "until": "..."}.
func (h *handler) readPause(r *http.Request) (pause queue.Pause, p *Problem) {
	var v struct {
		Reason string     `json:"reason"`
		Until  *time.Time `json:"until"`
	}
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		return pause, p
	}
	if len(v.Reason) > queue.MaxReasonBytes {
		return pause, tooLarge("reason", "the reason", queue.MaxReasonBytes)
	}
	pause.Reason = v.Reason
	if v.Until != nil {
		if v.Until.IsZero() { // which would mean that there is none
			return pause, badField("until", "must be between the years 2000 and 2200")
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

// showChanged answers with a queue after done was done to it. Should it not be
// readable now, then that was done all the same, and no answer may say otherwise.
func (h *handler) showChanged(w http.ResponseWriter, r *http.Request, name, done string) {
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		h.logInternal(refused(err), err, name)
		(&Problem{
			Reason: ReasonOutcomeUnknown, RetryAfter: retryUnavailable,
			Detail: done + ", but how it is now could not be read; doing it again is safe",
		}).write(w)
		return
	}
	q := shownTo(r.Context())(&info)
	warn(&q, info.Group.Children)
	h.writeQueue(w, r, http.StatusOK, q)
}

// fail answers with an engine's error.
func (h *handler) fail(w http.ResponseWriter, err error, name string) {
	p := refused(err)
	if p.Reason == ReasonUnknownQueue {
		p = unknownQueue(name)
	}
	h.logInternal(p, err, name)
	p.write(w)
}
