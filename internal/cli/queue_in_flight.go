package cli

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// mostInFlight bounds how many jobs are looked at to find the one that has been at work for longest.
const mostInFlight = 1000

// inFlight tells of the jobs of a queue that have left and are not settled: each holds a handler of a drainer.
type inFlight struct {
	Jobs int64 `json:"jobs"`
	// The one that left first, if it has left.
	Longest *longest `json:"longest,omitempty"`
}

type longest struct {
	ID      string    `json:"id"`
	Since   time.Time `json:"since"`
	Drainer string    `json:"drainer,omitempty"`
}

// inFlightOf asks for it; it is nil if nothing is leased.
func inFlightOf(r *run, api *client.Client, q *wire.Queue) (*inFlight, error) {
	if q.Stats.Leased == 0 {
		return nil, nil
	}
	jobs, _, err := listed(r, api, q.Name, client.List{State: queue.Leased.String()}, mostInFlight)
	if err != nil {
		return nil, err
	}
	f := &inFlight{Jobs: q.Stats.Leased}
	now := time.Now()
	for i := range jobs {
		if at := jobs[i].DueAt; at != nil && at.Before(now) && (f.Longest == nil || at.Before(f.Longest.Since)) {
			f.Longest = &longest{ID: jobs[i].ID, Since: *at}
		}
	}
	if f.Longest == nil {
		return f, nil
	}
	j, err := api.Job(r.ctx, q.Name, f.Longest.ID)
	if err != nil || j.State != queue.Leased || len(j.Timeline) == 0 {
		return f, nil //nolint:nilerr // it has ended meanwhile
	}
	f.Longest.Drainer = j.Timeline[len(j.Timeline)-1].Drainer
	return f, nil
}

func (f *inFlight) text(now time.Time) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%d", f.Jobs)
	if f.Longest != nil {
		text += fmt.Sprintf(", the longest for %s: %s", age(now, &f.Longest.Since), plain(f.Longest.ID))
		if f.Longest.Drainer != "" {
			text += " with " + plain(f.Longest.Drainer)
		}
	}
	return text
}
