package queue

import (
	"time"

	"github.com/penstock/penstock/queue/unit"
)

// MaxStop is the longest that a throttled answer puts departures off, and that a probe waits.
const MaxStop = 24 * time.Hour

// SlowReason is the reason of a failure that was counted because Circuit.Slow had passed.
const SlowReason = "no answer for longer than circuit.slow"

// StopCause is what puts the departures of a queue off.
type StopCause string

// The causes.
const (
	StopThrottled StopCause = "throttled" // the receiver asked for it
	StopDown      StopCause = "down"      // the circuit is open; Until is the next probe
	StopNoTarget  StopCause = "no_target" // a drainer found no target to deliver to; Put ends it
)

// StopCauses are all causes.
var StopCauses = []StopCause{StopThrottled, StopDown, StopNoTarget}

// Stop says until when nothing leaves a queue because of what its receiver answered. The zero
// Stop is that of a queue that goes on.
type Stop struct {
	Until  time.Time `json:"until"` // by the engine's clock
	Cause  StopCause `json:"cause"`
	Reason string    `json:"reason,omitempty"` // the answer
}

// On reports whether the queue stops.
func (s *Stop) On() bool { return !s.Until.IsZero() }

// CircuitInfo is the state of a queue's circuit.
type CircuitInfo struct {
	Failures int64         `json:"failures"`         // in a row
	Opened   time.Time     `json:"opened,omitzero"`  // zero while it is closed
	Probe    unit.Duration `json:"probe,omitzero"`   // how long it waits for the next; while it is open
	Reason   string        `json:"reason,omitempty"` // of the latest failure; while it is open
}

// Open reports whether it is.
func (c *CircuitInfo) Open() bool { return !c.Opened.IsZero() }
