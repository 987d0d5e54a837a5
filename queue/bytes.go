package queue

import (
	"math"
)

// Bounds of max_bytes.
const (
	leastMaxBytes = 1 << 10
	MostMaxBytes  = 1 << 40
	// AnyBytes is the bound of a queue that nothing bounds in bytes.
	AnyBytes = 1 << 53
)

// ByteBound says how a bound in bytes refused a job: what was held, how much may be, and what the job takes. It is zero
// when something else did.
type ByteBound struct {
	Held  int64 `json:"held"`
	Max   int64 `json:"max"`
	Needs int64 `json:"needs"`
}

// MarkBytes is how much of most bytes is for jobs that come back from the overflow, as Mark is of the capacity.
func (s *Spec) MarkBytes(most int64) int64 {
	return int64(math.Floor(float64(most) * float64(s.Mark()) / float64(s.Capacity)))
}
