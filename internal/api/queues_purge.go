package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// purgeQueue takes jobs back that have not left, up to maxPages pages of them. Next says
// in which state to go on, and where.
func (h *handler) purgeQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var c wire.PurgeRequest
	if p := h.readJSON(r, maxSmallBody, &c); p != nil {
		p.write(w)
		return
	}
	states, after, p := purgeStates(&c)
	if p != nil {
		p.write(w)
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
		if err != nil { // the next request, which goes on here, finds what is wrong
			h.logInternal(refused(err), err, name)
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

// purgeStates returns the states that are still to be purged, what is scheduled first: a
// job that is due meanwhile then waits, and is found.
func purgeStates(c *wire.PurgeRequest) (states []queue.State, after string, p *Problem) {
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
			return nil, "", badField("states", s.String()+" cannot be purged; waiting and scheduled can")
		}
	}
	if c.Lane != nil && slices.Contains(states, queue.Scheduled) {
		return nil, "", badField("lane", "can be chosen only among waiting jobs")
	}
	if c.After == "" {
		return states, "", nil
	}
	name, after, _ := strings.Cut(c.After, ".")
	at := slices.IndexFunc(states, func(s queue.State) bool { return s.String() == name })
	if at < 0 {
		return nil, "", badField("after", shorten(c.After)+" is not what a purge of these ended with")
	}
	return states[at:], after, nil
}

// purgeState purges one state, or counts what would be, for as many pages as are left. It returns where to go on, also
// with an error; empty without one is nowhere.
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
