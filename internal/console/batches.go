package console

import (
	"net/url"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

// batchRows is the number of batches on a page: each unfinished one costs a read for each of its lanes.
const batchRows = 50

// batchesView is the data of a queue's campaigns: its batches.
type batchesView struct {
	Name  string
	Rows  []batchRow
	Older string // link to the next page; empty on the last
	Call  action
}

type batchRow struct {
	wire.Batch
	Progress gauge
	Why      string // why it never finishes
	Failures string // link to the failed jobs of the queue; empty without failures
	Lane     string // link to the waiting jobs of the slowest lane
}

func readBatches(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Campaigns of " + name
	page, err := r.api.Batches(r.Context(), name, r.URL.Query().Get("after"), batchRows)
	if err != nil {
		return nil, err
	}
	v := batchesView{Name: name, Older: r.behind("after", page.Next), Call: action{
		Method: "GET", Path: apiPath("queues", name, "batches"), Role: auth.View,
		Command: []string{"queue", "batches", name},
	}}
	for _, b := range page.Batches {
		row := batchRow{Batch: b, Progress: gaugeOf(b.Accepted-b.Remaining, b.Accepted, num)}
		if row.Progress.Tone = ""; b.Remaining > 0 { // a batch that is nearly done is no warning
			row.Progress.Percent = min(row.Progress.Percent, 99)
			if b.FinishAt == nil && b.Why != "" {
				row.Why = b.Why.Text()
			}
		}
		if b.Failures > 0 {
			row.Failures = r.console.path("queues", name, "failures")
		}
		if b.SlowestLane != "" {
			row.Lane = r.console.path("queues", name, "jobs") + "?" + url.Values{"lane": {b.SlowestLane}}.Encode()
		}
		v.Rows = append(v.Rows, row)
	}
	return v, nil
}
