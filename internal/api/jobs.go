package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

func (h *handler) getJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	info, c, p, err := h.readJob(r, name, id)
	defer c.Free()
	switch {
	case p != nil:
		p.Write(w)
	case err != nil:
		h.failJob(w, err, name, id)
	default:
		httpio.WriteJSON(w, r, http.StatusOK, shownJobTo(r.Context(), &info), c)
	}
}

// cancelJob cancels a job that has not departed. It is idempotent.
func (h *handler) cancelJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := names.ValidateID(id); err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	state, err := h.engine.Cancel(r.Context(), name, id)
	switch {
	case err != nil:
		h.failJob(w, err, name, id)
	case state == queue.Cancelled:
		h.writeJSON(w, r, http.StatusOK, wire.Cancelled{Queue: name, ID: id, State: state})
	case state == queue.Leased:
		(&httpio.Problem{
			Reason: httpio.ReasonNotCancellable, ID: id, State: state,
			Detail: "the job is leased: a drainer has it and may have sent it",
		}).Write(w)
	case state == queue.Held:
		(&httpio.Problem{
			Reason: httpio.ReasonNotCancellable, ID: id, State: state,
			Detail: "the job is held: it may have been sent and needs a decision",
		}).Write(w)
	default:
		(&httpio.Problem{
			Reason: httpio.ReasonNotCancellable, ID: id, State: state, Detail: "the job has ended: it is " + state.String(),
		}).Write(w)
	}
}

// failJob answers with an error about one job.
func (h *handler) failJob(w http.ResponseWriter, err error, name, id string) {
	p := httpio.ProblemOf(err)
	if p.Reason == httpio.ReasonUnknownQueue {
		p = httpio.UnknownQueue(name)
	}
	p.ID = id
	h.logInternal(p, err, name)
	p.Write(w)
}

// maxPages is how many pages of the engine one request reads at most.
const maxPages = 20

// listJobs answers with a page of jobs. With a filter it may read many pages and find nothing; next then says where to
// continue.
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
		p.Write(w)
		return
	}
	page := wire.Jobs{Jobs: []wire.Job{}}
	c := httpio.NewCharge(h.account(r))
	defer c.Free()
	for range maxPages {
		if carried {
			// The memory that is left for payloads limits the page.
			c.Free()
			if req.Limit, p = c.Ahead(req.Limit, queue.MaxPayloadBytes); p != nil {
				p.Write(w)
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
		c.Shrink(size)
		page.Next, req.After = l.Next, l.Next
		if pastChoice(&choice, l.Jobs) {
			page.Next = ""
		}
		if len(page.Jobs) > 0 || page.Next == "" {
			break
		}
	}
	httpio.WriteJSON(w, r, http.StatusOK, page, c)
}

// maxCarried is the maximum number of jobs in a page with payloads of up to 1 MiB each.
const maxCarried = 20

// withPayload reads the parameter payload. If it is true, it also bounds the page.
func withPayload(r *http.Request, req *queue.ListRequest) (bool, *httpio.Problem) {
	q := r.URL.Query()
	switch s := q.Get("payload"); {
	case !q.Has("payload"), s == "false":
		return false, nil
	case s != "true":
		return false, httpio.BadField("payload", httpio.Shorten(s)+" must be true or false")
	case req.Limit > maxCarried && q.Has("limit"):
		return false, httpio.BadField(
			"limit", "is "+strconv.Itoa(req.Limit)+", must be from 1 to "+strconv.Itoa(maxCarried)+" with payload=true",
		)
	}
	req.Limit = min(req.Limit, maxCarried)
	return true, nil
}

// listedJob converts a listed job, with its payload if carried. A job that has left the list meanwhile is shown
// without.
func (h *handler) listedJob(ctx context.Context, info *queue.JobInfo, carried bool) wire.Job {
	if carried {
		if now, err := h.engine.Job(ctx, info.Queue, info.ID); err == nil && now.State == info.State {
			info.Payload, info.ContentType, info.Headers = now.Payload, now.ContentType, now.Headers
		}
	}
	return shownJobTo(ctx, info)
}

const listedStates = "waiting, scheduled, leased, held, dead, delivered, cancelled, expired"

func listRequest(r *http.Request) (req queue.ListRequest, c wire.Choice, p *httpio.Problem) {
	q := r.URL.Query()
	req = queue.ListRequest{Queue: r.PathValue("queue"), After: q.Get("after")}
	state := q.Get("state")
	if state == "" {
		return req, c, httpio.BadField(
			"state", "is missing; give a state, such as ?state=waiting: one of "+listedStates,
		)
	}
	if req.State.UnmarshalText([]byte(state)) != nil {
		return req, c, httpio.BadField(
			"state", httpio.Shorten(state)+" must be one of "+listedStates,
		)
	}
	if req.Limit, p = httpio.Limit(q, httpio.DefaultPage, queue.MaxPage); p != nil {
		return req, c, p
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
				return req, c, httpio.BadField(f.name, httpio.Shorten(s)+" must be an instant such as 2026-01-02T15:04:05Z")
			}
			*f.at = &t
		}
	}
	for _, name := range []string{"reason", "before", "since"} {
		if q.Get(name) != "" && req.State != queue.Dead && req.State != queue.Held {
			return req, c, httpio.BadField(name, "can filter only dead and held jobs")
		}
	}
	beginAt(&req, &c)
	return req, c, nil
}

// shownJob converts a job to its form on the wire.
func shownJob(info *queue.JobInfo) wire.Job {
	j := wire.Job{
		Queue: info.Queue, ID: info.ID, State: info.State, Position: info.Position, Cost: info.Cost,
		Costs: info.Costs, Lane: info.Lane,
		Batch: info.Batch, Priority: info.Priority, Attempts: info.Attempts,
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

// readJob reads a job and charges for its content: first for the largest possible, then for its true size.
func (h *handler) readJob(
	r *http.Request, name, id string,
) (info queue.JobInfo, c *httpio.Charge, p *httpio.Problem, err error) {
	c = httpio.NewCharge(h.account(r))
	if p = c.Raise(queue.MaxPayloadBytes); p != nil {
		return info, c, p, nil
	}
	info, err = h.engine.Job(r.Context(), name, id)
	c.Shrink(len(info.Payload))
	if err == nil {
		p = c.Grow(len(info.Payload))
	}
	return info, c, p, err
}

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
