package queue

import (
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Pause says why nothing leaves a queue. The zero Pause means that the queue is not paused.
type Pause struct {
	By     string    `json:"by,omitempty"`         // the Name of the Actor who paused it
	Note   string    `json:"claimed_by,omitempty"` // the name the caller claimed, unverified
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"` // by the engine's clock
	// Until is when the queue resumes by itself, by the engine's clock; zero means only when it is resumed.
	Until time.Time `json:"until,omitzero"`
}

// On reports whether the queue is paused.
func (p *Pause) On() bool { return !p.Since.IsZero() }

// Normalize cuts Reason to its maximum length and Until to whole microseconds.
func (p *Pause) Normalize() {
	p.Reason = strings.Clone(clip.Text(p.Reason, MaxReasonBytes))
	p.Until = p.Until.Truncate(time.Microsecond)
}

// Validate checks everything that needs no clock. Its error is an *invalid.Error.
func (p *Pause) Validate() error { return validateInstant("until", p.Until) }

// ValidateAhead checks that Until is in the future, but not too far, by the engine's clock. Its error is an
// *invalid.Error.
func (p *Pause) ValidateAhead(now time.Time) error {
	const form = time.RFC3339
	switch {
	case p.Until.IsZero():
		return nil
	case !p.Until.After(now):
		return invalid.Errorf(
			"until", p.Until.UTC().Format(form), "is not after now, which is %s by the engine's clock",
			now.UTC().Format(form),
		)
	case p.Until.Sub(now) > MaxAhead:
		return invalid.Errorf(
			"until", p.Until.UTC().Format(form),
			"is more than %d days ahead; leave it out to pause until the queue is resumed", MaxAhead/(24*time.Hour),
		)
	}
	return nil
}
