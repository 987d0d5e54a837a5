package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Attempt is one attempt of a job: a lease that ended by a verdict or ran out, or that a
// drainer has now, or one that the target refused to look at. One that was given back unused is none.
type Attempt struct {
	At      time.Time // its departure, or its end, if that came before
	EndedAt time.Time // zero while it is under way
	Drainer string    // who had it, as Client.Shown says; empty if that is not known any more
	Outcome AttemptOutcome
	// Answer is what the drainer reported, cut to MaxAnswerBytes. JobInfo.Reason has more of
	// the last one.
	Answer string
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome uint8

// The outcomes of an attempt.
const (
	UnderWay         AttemptOutcome = iota // it has not
	AttemptFailed                          // the job is tried again
	AttemptDied                            // the job is dead by it
	AttemptDelivered                       // well
	AttemptLost                            // the lease ran out
	AttemptUnknown                         // it may have been sent
	AttemptThrottled                       // the receiver asked to be spared; it counts as none
	AttemptDown                            // the target was down; it counts as none
)

var attemptOutcomes = [...]string{"under_way", "retry", "dead", "delivered", "lost", "unknown", "throttled", "down"}

func (o AttemptOutcome) String() string {
	if int(o) < len(attemptOutcomes) {
		return attemptOutcomes[o]
	}
	return fmt.Sprintf("AttemptOutcome(%d)", uint8(o))
}

// MarshalText writes the outcome's name.
func (o AttemptOutcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads an outcome's name.
func (o *AttemptOutcome) UnmarshalText(b []byte) error {
	for i, name := range attemptOutcomes {
		if name == string(b) {
			*o = AttemptOutcome(i)
			return nil
		}
	}
	return invalid.Errorf(
		"outcome", string(b), "is no outcome of an attempt; one of %s", strings.Join(attemptOutcomes[:], " "),
	)
}

// Limits of a timeline: the first attempt and the latest are kept.
const (
	MaxTimeline     = 20
	MaxAnswerBytes  = 200
	MaxDrainerBytes = 64
)

// Shown is what a timeline calls the client: its name, or else its ID.
func (c *Client) Shown() string {
	if c.Name == "" {
		return clip.Text(c.ID, MaxDrainerBytes)
	}
	return clip.Text(c.Name, MaxDrainerBytes)
}
