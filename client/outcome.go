package client

import (
	"errors"
	"time"
	"unicode/utf8"
)

// Outcome is an error of a handler that says more than that the job failed. See Retry, Dead, Throttled, Released, Held
// and Down.
type Outcome struct {
	Kind   string // as in the API
	After  time.Duration
	Reason string
	// LaneOnly stops only the job's lane, for throttled.
	LaneOnly bool
}

func (o *Outcome) Error() string {
	if o.Reason == "" {
		return o.Kind
	}
	return o.Kind + ": " + o.Reason
}

// Retry has the job tried again after a time; 0 is the backoff of the queue. This spends an attempt.
func Retry(after time.Duration, reason string) error {
	return &Outcome{Kind: "retry", After: after, Reason: reason}
}

// Dead ends the job in failure. Only a person can replay it.
func Dead(reason string) error { return &Outcome{Kind: "dead", Reason: reason} }

// Throttled stops the queue for a time, since the receiver asked for it; 0 if the receiver named no time. The job keeps
// its turn and spends no attempt.
func Throttled(after time.Duration, reason string) error {
	return &Outcome{Kind: "throttled", After: after, Reason: reason}
}

// ThrottledLane is Throttled that stops only the job's lane.
func ThrottledLane(after time.Duration, reason string) error {
	return &Outcome{Kind: "throttled", After: after, Reason: reason, LaneOnly: true}
}

// Released gives the job back, as if it had not started.
func Released() error { return &Outcome{Kind: "released"} }

// Held has a person decide about the job, since it may have been sent.
func Held(reason string) error { return &Outcome{Kind: "held", Reason: reason} }

// Down gives the job back, since the receiver is down. Several in a row stop the queue until a probe succeeds.
func Down(reason string) error { return &Outcome{Kind: "down", Reason: reason} }

// settlement is the report of an outcome.
type settlement struct {
	ID       string `json:"id"`
	Lease    string `json:"lease"`
	Outcome  string `json:"outcome"`
	After    string `json:"after,omitempty"`
	LaneOnly bool   `json:"lane_only,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Actual is what the job has used, by unit.
	Actual map[string]int64 `json:"actual,omitempty"`
}

// Limits of the API. A settlement beyond them would have the whole request refused.
const (
	maxStop    = 24 * time.Hour
	maxBackoff = 720 * time.Hour
	maxReason  = 512
)

// settlementOf turns the result of a handler into a settlement.
func settlementOf(t *Task, err error) settlement {
	s := settlement{ID: t.ID, Lease: t.Lease, Outcome: "delivered", Actual: t.reported()}
	var o *Outcome
	switch {
	case err == nil:
		return s
	case errors.As(err, &o):
		s.Outcome, s.LaneOnly = o.Kind, o.LaneOnly
		if s.Reason = o.Reason; s.Reason == "" && err.Error() != o.Error() {
			s.Reason = err.Error() // it wraps the outcome, and says more
		}
	default:
		o = &Outcome{}
		s.Outcome, s.Reason = "retry", err.Error()
	}
	switch {
	case s.Outcome == "throttled":
		s.After = min(max(o.After, 0), maxStop).String()
	case s.Outcome == "retry" && o.After > 0:
		s.After = min(o.After, maxBackoff).String()
	}
	if s.Reason = clip(s.Reason); s.Outcome == "released" {
		s.Reason = ""
	}
	return s
}

// clip cuts a reason to the length that the API allows.
func clip(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}
