package queue

import (
	"time"

	"github.com/penstock/penstock/queue/unit"
)

// MaxStop is the maximum time that a throttling answer or a probe puts departures off.
const MaxStop = 24 * time.Hour

// SlowReason is the reason of a failure counted because Circuit.Slow had passed.
const SlowReason = "no answer for longer than circuit.slow"

// StopCause says what stopped the departures of a queue.
type StopCause string

// The causes.
const (
	StopThrottled StopCause = "throttled" // the receiver asked for it
	StopDown      StopCause = "down"      // the circuit is open; Until is the next probe
	StopNoTarget  StopCause = "no_target" // a drainer found no target; Put ends it
)

// StopCauses has all causes.
var StopCauses = []StopCause{StopThrottled, StopDown, StopNoTarget}

// Stop says until when nothing leaves a queue because of its receiver's answer. The zero Stop means that the queue is
// not stopped.
type Stop struct {
	Until  time.Time `json:"until"` // by the engine's clock
	Cause  StopCause `json:"cause"`
	Reason string    `json:"reason,omitempty"` // the answer
}

// On reports whether the queue is stopped.
func (s *Stop) On() bool { return !s.Until.IsZero() }

// CircuitInfo is the state of a queue's circuit.
type CircuitInfo struct {
	Failures int64         `json:"failures"`         // in a row
	Opened   time.Time     `json:"opened,omitzero"`  // zero while it is closed
	Probe    unit.Duration `json:"probe,omitzero"`   // wait before the next probe; while open
	Reason   string        `json:"reason,omitempty"` // of the latest failure; while open
}

// Open reports whether the circuit is open.
func (c *CircuitInfo) Open() bool { return !c.Opened.IsZero() }
