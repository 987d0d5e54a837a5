package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// findPatience is how long one request searches. Its answer then has what it found, and where to continue.
const findPatience = 500 * time.Millisecond

// findJobs answers with jobs of all queues that the caller may see, by id, by the beginning of an id, or by lane.
func (h *handler) findJobs(w http.ResponseWriter, r *http.Request) {
	req, p := findRequest(r)
	if p != nil {
		p.Write(w)
		return
	}
	spans, all := visible(r.Context())
	if all {
		spans = []span{{}}
	}
	at, within := 0, ""
	if after := r.URL.Query().Get("after"); after != "" {
		number, rest, found := strings.Cut(after, ".")
		var err error
		if at, err = strconv.Atoi(number); err != nil || !found || at < 0 || at > len(spans) {
			httpio.BadField("after", httpio.Shorten(after)+" is not the next of a search").Write(w)
			return
		}
		within = rest
	}
	page, limit := wire.Jobs{Jobs: []wire.Job{}}, req.Limit
	for begun := time.Now(); at < len(spans); {
		req.From, req.To, req.After, req.Limit = spans[at].from, spans[at].to, within, limit-len(page.Jobs)
		found, err := h.engine.FindJobs(r.Context(), req)
		if err != nil {
			h.fail(w, err, "")
			return
		}
		for i := range found.Jobs {
			page.Jobs = append(page.Jobs, shownJobTo(r.Context(), &found.Jobs[i]))
		}
		if within = found.Next; within == "" {
			at++
		}
		if at < len(spans) && (len(page.Jobs) >= limit || time.Since(begun) > findPatience) {
			page.Next = strconv.Itoa(at) + "." + within
			break
		}
	}
	h.writeJSON(w, r, http.StatusOK, page)
}

func findRequest(r *http.Request) (req queue.FindRequest, p *httpio.Problem) {
	q := r.URL.Query()
	if p := httpio.Once(q, "id", "prefix", "lane", "after"); p != nil {
		return req, p
	}
	req.ID, req.Lane = q.Get("id"), q.Get("lane")
	if prefix := q.Get("prefix"); prefix != "" {
		if req.ID != "" {
			return req, httpio.BadField("prefix", "cannot be given with id")
		}
		req.ID, req.Prefix = prefix, true
	}
	if req.Limit, p = httpio.Limit(q, httpio.DefaultPage, queue.MaxPage); p != nil {
		return req, p
	}
	if err := req.Validate(); err != nil {
		p = httpio.ProblemOf(err)
		if req.Prefix && p.Field == "id" {
			p.Field = "prefix"
		}
	}
	return req, p
}
