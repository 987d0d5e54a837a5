package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// maxPages is how many pages of the engine one request looks at.
const maxPages = 20

// listJobs answers with a page of jobs. With a reason it may look at many pages and find
// nothing: the answer then says where to go on.
func (h *handler) listJobs(w http.ResponseWriter, r *http.Request) {
	req, choice, p := listRequest(r)
	carried := false
	if p == nil {
		carried, p = withPayload(r, &req)
	}
	if p == nil && carried && !may(r.Context(), auth.Payloads, req.Queue) {
		p = forbidden("the queue "+req.Queue, auth.Payloads)
		p.Field = "payload"
	}
	if p != nil {
		p.write(w)
		return
	}
	page := wire.Jobs{Jobs: []wire.Job{}}
	c := &charge{account: h.account(r)}
	defer c.free()
	for range maxPages {
		if carried {
			// The page is as long as there is memory for what its jobs carry.
			c.free()
			if req.Limit, p = c.ahead(req.Limit, queue.MaxPayloadBytes); p != nil {
				p.write(w)
				return
			}
		}
		l, err := h.engine.ListJobs(r.Context(), req)
		if err != nil {
			h.fail(w, err, req.Queue)
			return
		}
		size := 0
		for i := range l.Jobs {
			if chooses(&choice, &l.Jobs[i]) {
				page.Jobs = append(page.Jobs, h.listedJob(r.Context(), &l.Jobs[i], carried))
				size += len(l.Jobs[i].Payload)
			}
		}
		c.shrink(size)
		page.Next, req.After = l.Next, l.Next
		if pastChoice(&choice, l.Jobs) {
			page.Next = ""
		}
		if len(page.Jobs) > 0 || page.Next == "" {
			break
		}
	}
	h.writeCharged(w, r, http.StatusOK, page, c)
}

// maxCarried is how many jobs a page has at most with what they carry, which is up to 1 MiB each.
const maxCarried = 20

// withPayload reads whether a list is to tell what its jobs carry, and bounds its pages then.
func withPayload(r *http.Request, req *queue.ListRequest) (bool, *Problem) {
	q := r.URL.Query()
	switch s := q.Get("payload"); {
	case !q.Has("payload"), s == "false":
		return false, nil
	case s != "true":
		return false, badField("payload", shorten(s)+" must be true or false")
	case req.Limit > maxCarried && q.Has("limit"):
		return false, badField(
			"limit", "is "+strconv.Itoa(req.Limit)+", must be from 1 to "+strconv.Itoa(maxCarried)+" with payload=true",
		)
	}
	req.Limit = min(req.Limit, maxCarried)
	return true, nil
}

// listedJob is a job of a list, with what it carries if that is asked for. One that has left the list meanwhile is
// shown as it was, without.
func (h *handler) listedJob(ctx context.Context, info *queue.JobInfo, carried bool) wire.Job {
	if carried {
		if now, err := h.engine.Job(ctx, info.Queue, info.ID); err == nil && now.State == info.State {
			info.Payload, info.ContentType, info.Headers = now.Payload, now.ContentType, now.Headers
		}
	}
	return shownJobTo(ctx, info)
}

func listRequest(r *http.Request) (req queue.ListRequest, c wire.Choice, p *Problem) {
	q := r.URL.Query()
	req = queue.ListRequest{Queue: r.PathValue("queue"), After: q.Get("after"), Limit: defaultPage}
	state := q.Get("state")
	if state == "" {
		return req, c, badField(
			"state", "is missing; say which jobs, such as ?state=waiting: one of waiting, scheduled, leased, held, dead",
		)
	}
	if req.State.UnmarshalText([]byte(state)) != nil {
		return req, c, badField("state", shorten(state)+" must be one of waiting, scheduled, leased, held, dead")
	}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > queue.MaxPage {
			return req, c, badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(queue.MaxPage))
		}
		req.Limit = n
	}
	if q.Has("lane") {
		lane := q.Get("lane")
		req.Lane = &lane
	}
	c.Reason = q.Get("reason")
	for _, f := range []struct {
		name string
		at   **time.Time
	}{{"before", &c.Before}, {"since", &c.Since}} {
		if s := q.Get(f.name); s != "" {
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				return req, c, badField(f.name, shorten(s)+" must be an instant such as 2026-01-02T15:04:05Z")
			}
			*f.at = &t
		}
	}
	for _, name := range []string{"reason", "before", "since"} {
		if q.Get(name) != "" && req.State != queue.Dead && req.State != queue.Held {
			return req, c, badField(name, "can be chosen only among dead and held jobs")
		}
	}
	beginAt(&req, &c)
	return req, c, nil
}

// shownJob is where a job is.
func shownJob(info *queue.JobInfo) wire.Job {
	j := wire.Job{
		Queue: info.Queue, ID: info.ID, State: info.State, Position: info.Position, Cost: info.Cost, Lane: info.Lane,
		Priority: info.Priority, Attempts: info.Attempts,
		AppendedAt: instant(info.AppendedAt), ExpiresAt: instant(info.ExpiresAt), DueAt: instant(info.DueAt),
		HeldAt: instant(info.HeldAt), EndedAt: instant(info.EndedAt), Reason: info.Reason,
		Bounces: bounce.Parse(info.Reason),
	}
	j.SetContent(info)
	if !info.ETA.At.IsZero() {
		j.ETA = &queue.ETA{At: info.ETA.At.UTC(), Exact: info.ETA.Exact}
	}
	if y := info.Why; y.By != "" {
		j.Why = &wire.Why{
			By: y.By, Until: instant(y.Until), Queue: y.Queue, Reason: y.Reason, Who: y.Who, ClaimedBy: y.Note,
		}
	}
	for _, a := range info.Timeline {
		j.Timeline = append(j.Timeline, wire.Attempt{
			At: instant(a.At), EndedAt: instant(a.EndedAt), Drainer: a.Drainer, Outcome: a.Outcome, Answer: a.Answer,
		})
	}
	return j
}
