package pull

import "time"

// Observer is told what happens at a dispatcher: metrics are made of it. Its methods are called from
// many goroutines and must not block.
type Observer interface {
	// Waiting: so many requests wait.
	Waiting(requests int)
	// Handed: a job's answer was written, late after its departure at most.
	Handed(queue string, late time.Duration)
	// Released: a job was given back instead.
	Released(queue string, why Reason)
	// Lost: a backlogged queue could have had so many departures since anybody asked, and did
	// not.
	Lost(queue string, slots int64)
	// Expired: the engine took back a lease that ran out, of any queue.
	Expired(queue string)
}

// Reason is why a job was given back.
type Reason uint8

// The reasons.
const (
	Late      Reason = iota + 1 // its window was over before it could be handed over
	Unclaimed                   // nobody waited for it any more
	Gone                        // whoever it was handed to had gone before it was written
	Stopping                    // the dispatcher stops
)

func (r Reason) String() string { return [...]string{"", "late", "unclaimed", "gone", "stopping"}[r] }

type noObserver struct{}

func (noObserver) Waiting(int)                  {}
func (noObserver) Handed(string, time.Duration) {}
func (noObserver) Released(string, Reason)      {}
func (noObserver) Lost(string, int64)           {}
func (noObserver) Expired(string)               {}
