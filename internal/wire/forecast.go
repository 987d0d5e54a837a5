package wire

import "time"

// QueueForecast is the departure curve of a queue, if no more jobs are appended.
type QueueForecast struct {
	Now   time.Time `json:"now"` // by the engine's clock
	Bends []Bend    `json:"bends"`
	// FinishAt is when the last job leaves; nil if some jobs never leave as things are.
	FinishAt *time.Time `json:"finish_at"`
	// Exact means that arithmetic alone decides the curve. Estimated means that it does not follow each lane.
	Exact     bool `json:"exact"`
	Estimated bool `json:"estimated,omitempty"`
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
