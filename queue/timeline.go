package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Attempt is one attempt of a job: a lease that was settled, ran out or is still held by a client. Throttle and Down
// appear in the timeline although they spend no attempt; a Release does not appear.
type Attempt struct {
	At      time.Time // its departure, or its end if that was earlier
	EndedAt time.Time // zero while it lasts
	Drainer string    // the client's Client.Shown; empty if no longer known
	Outcome AttemptOutcome
	// Answer is what the drainer reported, cut to MaxAnswerBytes. JobInfo.Reason has more of the last answer.
	Answer string
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome uint8

// The outcomes of an attempt.
const (
	UnderWay         AttemptOutcome = iota // not ended
	AttemptFailed                          // the job is tried again
	AttemptDied                            // the job is dead
	AttemptDelivered                       // the job was delivered
	AttemptLost                            // the lease ran out
	AttemptUnknown                         // the job may have been sent
	AttemptThrottled                       // the receiver throttled; spends no attempt
	AttemptDown                            // the target was down; spends no attempt
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
		"outcome", string(b), "is not an outcome of an attempt; use one of %s", strings.Join(attemptOutcomes[:], " "),
	)
}

// Limits of a timeline: it has the first attempt and the latest ones.
const (
	MaxTimeline     = 20
	MaxAnswerBytes  = 200
	MaxDrainerBytes = 64
)

// Shown returns the client's name as timelines show it: Name, or ID if that is empty.
func (c *Client) Shown() string {
	if c.Name == "" {
		return clip.Text(c.ID, MaxDrainerBytes)
	}
	return clip.Text(c.Name, MaxDrainerBytes)
}
