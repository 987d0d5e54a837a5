package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// maxPages is how many pages of the engine one request looks at.
const maxPages = 20

// listJobs answers with a page of jobs. With a reason it may look at many pages and find
// nothing: the answer then says where to go on.
func (h *handler) listJobs(w http.ResponseWriter, r *http.Request) {
	req, reason, p := listRequest(r)
	if p != nil {
		p.write(w)
		return
	}
	page := wire.Jobs{Jobs: []wire.Job{}}
	for range maxPages {
		l, err := h.engine.ListJobs(r.Context(), req)
		if err != nil {
			h.fail(w, err, req.Queue)
			return
		}
		for i := range l.Jobs {
			if strings.Contains(l.Jobs[i].Reason, reason) {
				page.Jobs = append(page.Jobs, shownJob(&l.Jobs[i]))
			}
		}
		page.Next, req.After = l.Next, l.Next
		if len(page.Jobs) > 0 || page.Next == "" {
			break
		}
	}
	writeJSON(w, http.StatusOK, page)
}

func listRequest(r *http.Request) (req queue.ListRequest, reason string, p *Problem) {
	q := r.URL.Query()
	req = queue.ListRequest{Queue: r.PathValue("queue"), After: q.Get("after"), Limit: defaultPage}
	state := q.Get("state")
	if req.State.UnmarshalText([]byte(state)) != nil {
		return req, "", badField("state", shorten(state)+" must be one of waiting, scheduled, leased, dead")
	}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > queue.MaxPage {
			return req, "", badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(queue.MaxPage))
		}
		req.Limit = n
	}
	if q.Has("lane") {
		lane := q.Get("lane")
		req.Lane = &lane
	}
	if reason = q.Get("reason"); reason != "" && req.State != queue.Dead {
		return req, "", badField("reason", "can be chosen only among dead jobs")
	}
	return req, reason, nil
}

// shownJob is where a job is.
func shownJob(info *queue.JobInfo) wire.Job {
	j := wire.Job{
		Queue: info.Queue, ID: info.ID, State: info.State, Position: info.Position, Cost: info.Cost, Lane: info.Lane, Priority: info.Priority, Attempts: info.Attempts,
		AppendedAt: instant(info.AppendedAt), ExpiresAt: instant(info.ExpiresAt), DueAt: instant(info.DueAt), EndedAt: instant(info.EndedAt), Reason: info.Reason,
	}
	if !info.ETA.At.IsZero() {
		j.ETA = &queue.ETA{At: info.ETA.At.UTC(), Exact: info.ETA.Exact}
	}
	if y := info.Why; y.By != "" {
		j.Why = &wire.Why{By: y.By, Until: instant(y.Until), Queue: y.Queue, Reason: y.Reason, Who: y.Who}
	}
	for _, a := range info.Timeline {
		j.Timeline = append(j.Timeline, wire.Attempt{
			At: instant(a.At), EndedAt: instant(a.EndedAt), Drainer: a.Drainer, Outcome: a.Outcome, Answer: a.Answer,
		})
	}
	return j
}
