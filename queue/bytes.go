package queue

import (
	"math"
)

// Bounds of max_bytes.
const (
	leastMaxBytes = 1 << 10
	MostMaxBytes  = 1 << 40
	// AnyBytes is the bound of a queue without a limit in bytes.
	AnyBytes = 1 << 53
)

// ByteBound says how a limit in bytes refused a job: the bytes held, the maximum, and the bytes the job needs. It is
// zero if something else refused the job.
type ByteBound struct {
	Held  int64 `json:"held"`
	Max   int64 `json:"max"`
	Needs int64 `json:"needs"`
}

// MarkBytes returns how many of most bytes returning jobs may fill. It is the counterpart of Mark.
func (s *Spec) MarkBytes(most int64) int64 {
	return int64(math.Floor(float64(most) * float64(s.Mark()) / float64(s.Capacity)))
}
