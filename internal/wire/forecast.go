package wire

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
)

// QueueForecast is the departure curve of a queue, if no more jobs are appended.
type QueueForecast struct {
	Now   time.Time `json:"now"` // by the engine's clock
	Bends []Bend    `json:"bends"`
	// FinishAt is when the last job leaves; nil if some jobs never leave as things are.
	FinishAt *time.Time `json:"finish_at"`
	// Exact means that arithmetic alone decides the curve. Estimated means that it does not follow each lane.
	Exact     bool `json:"exact"`
	Estimated bool `json:"estimated,omitempty"`
	// Missing is how many queues with jobs a sum leaves out, because they were not looked at yet.
	Missing int `json:"missing,omitempty"`
	// Unchanged is the end without the assumed settings; nil without such settings.
	Unchanged *ForecastEnd `json:"unchanged,omitempty"`
}

// ForecastEnd is the end of a forecast.
type ForecastEnd struct {
	FinishAt *time.Time `json:"finish_at"`
	Exact    bool       `json:"exact"`
}

// Bend is where a departure curve changes its slope.
type Bend struct {
	At        time.Time `json:"at"`
	Remaining float64   `json:"remaining"` // jobs left
	Rate      float64   `json:"rate"`      // jobs a second from here on
	// Why is what decides the rate from here on, and Until when that is over, if it is known to end.
	Why    string     `json:"why,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Queue  string     `json:"queue,omitempty"`  // the parent, if it is the parent's pause, rate or quota
	Reason string     `json:"reason,omitempty"` // the quota, or the reason of the pause or stop
	// Drained is a lane that is empty from here on.
	Drained string `json:"drained_lane,omitempty"`
}

// Lanes is a page of the lanes of a queue with waiting jobs, the slowest first, if no more jobs are appended.
type Lanes struct {
	Now   time.Time `json:"now"` // by the engine's clock
	Lanes []Lane    `json:"lanes"`
	// Total is how many lanes have waiting jobs, and Waiting how many jobs wait in all of them. Unlisted is how many of
	// these lanes no page has: they are beyond the number that a forecast follows.
	Total    int64 `json:"total"`
	Waiting  int64 `json:"waiting"`
	Unlisted int64 `json:"unlisted,omitempty"`
	// Never is how many of the listed lanes never empty as things are, and Why what holds their jobs.
	Never int   `json:"never"`
	Why   *Bend `json:"why,omitempty"`
	// FinishAt is when the last job of the queue leaves; nil is never. Exact and Estimated are as in a QueueForecast.
	FinishAt  *time.Time `json:"finish_at"`
	Exact     bool       `json:"exact"`
	Estimated bool       `json:"estimated,omitempty"`
	// Next is the offset of the next page; absent on the last.
	Next int `json:"next,omitempty"`
}

// Lane is a lane with waiting jobs.
type Lane struct {
	Lane    string `json:"lane"` // "" for jobs without a lane
	Waiting int64  `json:"waiting"`
	// FinishAt is when its last waiting job leaves; nil is never. PerSecond is how many leave until then, on average.
	FinishAt  *time.Time `json:"finish_at"`
	PerSecond float64    `json:"per_second,omitempty"`
	Limit     string     `json:"limit,omitempty"` // the rate of the lane, if it has one
	Budgets   []Budget   `json:"budgets,omitempty"`
	Weight    int64      `json:"weight,omitempty"`
	// Guaranteed is the lane's part of the queue's rate beside the lanes that have waiting jobs now.
	Guaranteed float64 `json:"guaranteed_per_second,omitempty"`
	// StoppedUntil is until when the receiver asked the lane to wait.
	StoppedUntil *time.Time `json:"stopped_until,omitempty"`
}

// WaitsFor returns what a job waits for, by the why of a forecast, to follow "waits for".
func WaitsFor(why string) string { return cause.Cause(why).Text() }
