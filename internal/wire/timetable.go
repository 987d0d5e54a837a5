package wire

import (
	"time"

	"github.com/penstock/penstock/queue/quote"
)

// Timetable lists the coming departures of a queue, if no more jobs are appended.
type Timetable struct {
	From  time.Time `json:"from"` // by the engine's clock
	Until time.Time `json:"until"`
	// Status is the present status. Standstill is set if the queue stands still.
	Status     Status      `json:"status"`
	Standstill *Standstill `json:"standstill,omitempty"`
	Departures []Departure `json:"departures"`
	// More means that there are further departures in the span.
	More bool `json:"more,omitempty"`
	// Lanes are the lanes of the waiting jobs, the deepest first. LanesMore means that not all waiting jobs were counted.
	Lanes     []LaneDepth `json:"lanes"`
	LanesMore bool        `json:"lanes_more,omitempty"`
}

// LaneDepth is the number of waiting jobs in a lane, and how many of them depart within the timetable.
type LaneDepth struct {
	Lane    string `json:"lane"`
	Waiting int64  `json:"waiting"`
	Leaves  int64  `json:"leaves"`
}

// Standstill describes a queue that stands still, and what ends that.
type Standstill struct {
	Since *time.Time `json:"since,omitempty"` // nil if unknown
	Until *time.Time `json:"until,omitempty"` // nil if unknown, or if it does not end by itself
	Ends  string     `json:"ends"`
}

// Departure is a coming departure.
type Departure struct {
	At      time.Time `json:"at"`
	ID      string    `json:"id"`
	Lane    string    `json:"lane,omitempty"`
	Attempt int       `json:"attempt"`
	Exact   bool      `json:"exact"`
	// Why the departure is an estimate, if it is.
	Why quote.Doubt `json:"why,omitempty"`
}
