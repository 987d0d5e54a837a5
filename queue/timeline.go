package queue

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
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
	return FieldErrorf(
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
		return Cut(c.ID, MaxDrainerBytes)
	}
	return Cut(c.Name, MaxDrainerBytes)
}

// Cut shortens a text for people to n bytes, between characters.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Both engines store a timeline in the same form, so that a Lua script can add to it:
//
//	count    1 byte, how many attempts follow; of none there is nothing at all
//	length   2 bytes, big endian, of the rest of an attempt
//	at       7 bytes, big endian, microseconds since 1970
//	ended    7 bytes, the same
//	outcome  1 byte
//	drainer  1 byte of length, and text
//	answer   text
const (
	attemptLength = 2
	attemptHead   = 2*instantBytes + 2

	maxTimelineBytes = 1 + MaxTimeline*(attemptLength+attemptHead+MaxDrainerBytes+MaxAnswerBytes)
)

// AppendAttempt adds an attempt that has ended to a stored timeline. It returns a new one, as
// others may read the old.
func AppendAttempt(timeline []byte, a Attempt) []byte {
	if a.At.After(a.EndedAt) {
		a.At = a.EndedAt
	}
	drainer, answer := Cut(a.Drainer, MaxDrainerBytes), Cut(a.Answer, MaxAnswerBytes)
	count, first, rest := byte(0), []byte(nil), []byte(nil)
	if len(timeline) > 0 {
		count, rest = timeline[0], timeline[1:]
	}
	if count == MaxTimeline { // the second is left out
		first, rest = cutAttempt(rest)
		_, rest = cutAttempt(rest)
		count--
	}
	n := attemptHead + len(drainer) + len(answer)
	b := append(make([]byte, 0, 1+len(first)+len(rest)+attemptLength+n), count+1)
	b = append(append(b, first...), rest...)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = appendInstant(appendInstant(b, a.At), a.EndedAt)
	b = append(b, byte(a.Outcome), byte(len(drainer)))
	return append(append(b, drainer...), answer...)
}

// cutAttempt takes the first attempt of those in b.
func cutAttempt(b []byte) (first, rest []byte) {
	if len(b) < attemptLength {
		return b, nil
	}
	n := min(len(b), attemptLength+int(binary.BigEndian.Uint16(b)))
	return b[:n], b[n:]
}

// UnpackTimeline reads a stored timeline. The error wraps ErrCorrupt.
func UnpackTimeline(b []byte) ([]Attempt, error) {
	if len(b) == 0 {
		return nil, nil
	}
	list := make([]Attempt, 0, min(int(b[0]), MaxTimeline))
	for rest := b[1:]; len(rest) > 0; {
		var one []byte
		one, rest = cutAttempt(rest)
		if len(one) < attemptLength+attemptHead || len(one) != attemptLength+int(binary.BigEndian.Uint16(one)) {
			return nil, fmt.Errorf("%w: an attempt of %d bytes", ErrCorrupt, len(one))
		}
		r := reader{b: one[attemptLength:]}
		a := Attempt{At: r.instant().Local(), EndedAt: r.instant().Local()}
		head := r.take(2)
		a.Outcome = AttemptOutcome(head[0])
		a.Drainer = string(r.take(int(head[1])))
		a.Answer = string(r.b)
		if r.bad {
			return nil, fmt.Errorf("%w: an attempt cut short", ErrCorrupt)
		}
		list = append(list, a)
	}
	if len(list) != int(b[0]) {
		return nil, fmt.Errorf("%w: %d attempts in place of %d", ErrCorrupt, len(list), b[0])
	}
	return list, nil
}
