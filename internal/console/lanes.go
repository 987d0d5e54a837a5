package console

import (
	"net/url"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// lanesView is the data of the list of a queue's lanes.
type lanesView struct {
	wire.Lanes
	Queue       string
	Rows        []laneOutlook
	Finish      string // of the whole queue
	Held        string // what holds the jobs that never leave
	From, To    int    // positions of the first and last row, counted from 1
	Listed      int64  // lanes on all pages
	Back, Forth string
	Call        action
}

// laneOutlook is a lane with its share of the waiting jobs, and when it will be empty.
type laneOutlook struct {
	wire.Lane
	Jobs   string // link to its jobs; empty for jobs without a lane
	Share  gauge
	Finish string
}

func readLanes(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Lanes of " + name
	page := pageNumber(r.URL.Query())
	first := (page - 1) * listRows
	lanes, err := r.api.Lanes(r.Context(), name, first, listRows)
	if err != nil {
		return nil, err
	}
	v := lanesView{
		Lanes: lanes, Queue: name, From: first + 1, To: first + len(lanes.Lanes), Listed: lanes.Total - lanes.Unlisted,
		Call: action{Method: "GET", Path: apiPath("queues", name, "lanes"), Command: []string{"queue", "lanes", name}},
	}
	if b := lanes.Why; b != nil {
		v.Held = heldBy(b)
	}
	v.Finish = finishText(lanes.FinishAt, lanes.Now)
	for _, ln := range lanes.Lanes {
		row := laneOutlook{Lane: ln, Share: gaugeOf(ln.Waiting, lanes.Waiting, num)}
		row.Share.Tone = "" // a large share is not a warning
		if ln.Lane != "" {
			row.Jobs = r.console.path("queues", name, "jobs") + "?" + url.Values{"lane": {ln.Lane}}.Encode()
		}
		row.Finish = finishText(ln.FinishAt, lanes.Now)
		v.Rows = append(v.Rows, row)
	}
	if page > 1 {
		v.Back = pageLink(page - 1)
	}
	if lanes.Next > 0 {
		v.Forth = pageLink(page + 1)
	}
	return v, nil
}

// finishText formats a finish in UTC; nil is never.
func finishText(at *time.Time, now time.Time) string {
	if at == nil {
		return "never"
	}
	return shortTime(*at, now)
}

// heldBy says what the jobs wait for at the end of a forecast.
func heldBy(b *wire.Bend) string {
	text := wire.WaitsFor(b.Why)
	if b.Queue != "" {
		text += ", by " + b.Queue
	}
	if b.Reason != "" {
		text += " (" + b.Reason + ")"
	}
	return text
}
