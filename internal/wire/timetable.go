package wire

import (
	"time"

	"github.com/penstock/penstock/queue/quote"
)

// Timetable is what leaves a queue in the time to come, as it would be if nobody appended anything.
type Timetable struct {
	From  time.Time `json:"from"` // by the engine's clock
	Until time.Time `json:"until"`
	// Status is what the queue does now, and Standstill is there if it stands still.
	Status     Status      `json:"status"`
	Standstill *Standstill `json:"standstill,omitempty"`
	Departures []Departure `json:"departures"`
	// More means that others leave by then that are not told of.
	More bool `json:"more,omitempty"`
	// Lanes are those of the jobs that wait, the deepest first. LanesMore means that others wait that are not counted.
	Lanes     []LaneDepth `json:"lanes"`
	LanesMore bool        `json:"lanes_more,omitempty"`
}

// LaneDepth is how many jobs of a lane wait, and how many of those leave within the timetable.
type LaneDepth struct {
	Lane    string `json:"lane"`
	Waiting int64  `json:"waiting"`
	Leaves  int64  `json:"leaves"`
}

// Standstill says since when a queue stands still, and what ends that.
type Standstill struct {
	Since *time.Time `json:"since,omitempty"` // nil if that is not known
	Until *time.Time `json:"until,omitempty"` // nil if it does not end by itself, or nobody knows when
	Ends  string     `json:"ends"`
}

// Departure is one that is to come.
type Departure struct {
	At      time.Time `json:"at"`
	ID      string    `json:"id"`
	Lane    string    `json:"lane,omitempty"`
	Attempt int       `json:"attempt"`
	Exact   bool      `json:"exact"`
	// Why it is an estimate, if it is.
	Why quote.Doubt `json:"why,omitempty"`
}
