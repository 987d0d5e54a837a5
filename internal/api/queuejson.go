package api

import (
	"time"

	"github.com/penstock/penstock/queue"
)

// queueJSON is a queue as the API shows it: its spec, and how it is doing.
type queueJSON struct {
	queue.Spec
	Revision    int64     `json:"revision"`
	Paused      bool      `json:"paused"`
	PauseReason string    `json:"pause_reason,omitempty"`
	Stats       statsJSON `json:"stats"`
}

// statsJSON is what a queue holds now and what was counted since it was made.
type statsJSON struct {
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	Dead      int64 `json:"dead"`

	Appended  int64 `json:"appended"`
	Delivered int64 `json:"delivered"`
	Retried   int64 `json:"retried"`
	Died      int64 `json:"died"`
	Released  int64 `json:"released"`
	Expired   int64 `json:"leases_expired"`
	Refused   int64 `json:"refused"`
	Lost      int64 `json:"slots_lost"`

	OldestWaiting *time.Time        `json:"oldest_waiting,omitempty"`
	Outflow       float64           `json:"outflow"`
	Next          *time.Time        `json:"next,omitempty"`
	Errors        []queue.LastError `json:"errors"`
}

type queuePage struct {
	Queues []queueJSON `json:"queues"`
	// Next is what to give as after for the next page; absent on the last one.
	Next string `json:"next,omitempty"`
}

func newQueueJSON(i *queue.Info) queueJSON {
	q := queueJSON{Spec: i.Spec, Revision: i.Revision, Paused: i.Paused, PauseReason: i.PauseReason, Stats: statsJSON{
		Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, Dead: i.Dead,
		Appended: i.Appended, Delivered: i.Delivered, Retried: i.Retried, Died: i.Died, Released: i.Released,
		Expired: i.Expired, Refused: i.Refused, Lost: i.Lost,
		OldestWaiting: instant(i.OldestWaiting), Outflow: i.Outflow, Next: instant(i.Next), Errors: i.Errors,
	}}
	if q.Stats.Errors == nil {
		q.Stats.Errors = []queue.LastError{}
	}
	return q
}

// instant is t in UTC, nil when there is none.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
