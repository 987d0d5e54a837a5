package queuecmd

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/jobcmd"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// mostInFlight is the maximum number of jobs to search for the one that has been in flight for longest.
const mostInFlight = 1000

// inFlight describes the jobs of a queue that have left and are not settled. Each uses a handler of a drainer.
type inFlight struct {
	Jobs int64 `json:"jobs"`
	// Longest is the job that left first; nil if none has left.
	Longest *longest `json:"longest,omitempty"`
}

type longest struct {
	ID      string    `json:"id"`
	Since   time.Time `json:"since"`
	Drainer string    `json:"drainer,omitempty"`
}

// inFlightOf asks the server for the jobs in flight; nil without leases.
func inFlightOf(ctx context.Context, api *client.Client, q *wire.Queue) (*inFlight, error) {
	if q.Stats.Leased == 0 {
		return nil, nil
	}
	jobs, _, err := jobcmd.List(ctx, api, q.Name, client.List{State: queue.Leased.String()}, mostInFlight)
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
	j, err := api.Job(ctx, q.Name, f.Longest.ID)
	if err != nil || j.State != queue.Leased || len(j.Timeline) == 0 {
		return f, nil //nolint:nilerr // the job has ended meanwhile
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
		text += fmt.Sprintf(", the longest for %s: %s", show.Age(now, &f.Longest.Since), f.Longest.ID)
		if f.Longest.Drainer != "" {
			text += " with " + f.Longest.Drainer
		}
	}
	return text
}
