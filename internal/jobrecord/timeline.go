package jobrecord

import (
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue"
)

// Both engines store a timeline in the same form, so that a Lua script can add to it:
//
//	count    1 byte, number of attempts; an empty timeline has no bytes
//	length   2 bytes, big endian, of the rest of the attempt
//	at       7 bytes, big endian, microseconds since 1970
//	ended    7 bytes, the same
//	outcome  1 byte
//	drainer  1 byte of length, and text
//	answer   text
const (
	attemptLength = 2
	attemptHead   = 2*pack.InstantBytes + 2

	// MaxTimelineBytes is the maximum length of a timeline.
	MaxTimelineBytes = 1 + queue.MaxTimeline*(attemptLength+attemptHead+queue.MaxDrainerBytes+queue.MaxAnswerBytes)
)

// AppendAttempt returns a copy of a stored timeline with an ended attempt added; others may still read the old one.
func AppendAttempt(timeline []byte, a queue.Attempt) []byte {
	if a.At.After(a.EndedAt) {
		a.At = a.EndedAt
	}
	drainer, answer := clip.Text(a.Drainer, queue.MaxDrainerBytes), clip.Text(a.Answer, queue.MaxAnswerBytes)
	count, first, rest := byte(0), []byte(nil), []byte(nil)
	if len(timeline) > 0 {
		count, rest = timeline[0], timeline[1:]
	}
	if count == queue.MaxTimeline { // drop the second attempt
		first, rest = cutAttempt(rest)
		_, rest = cutAttempt(rest)
		count--
	}
	n := attemptHead + len(drainer) + len(answer)
	b := append(make([]byte, 0, 1+len(first)+len(rest)+attemptLength+n), count+1)
	b = append(append(b, first...), rest...)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = pack.AppendInstant(pack.AppendInstant(b, a.At), a.EndedAt)
	b = append(b, byte(a.Outcome), byte(len(drainer)))
	return append(append(b, drainer...), answer...)
}

// cutAttempt splits off the first attempt in b.
func cutAttempt(b []byte) (first, rest []byte) {
	if len(b) < attemptLength {
		return b, nil
	}
	n := min(len(b), attemptLength+int(binary.BigEndian.Uint16(b)))
	return b[:n], b[n:]
}

// UnpackTimeline reads a stored timeline. The error wraps ErrCorrupt.
func UnpackTimeline(b []byte) ([]queue.Attempt, error) {
	if len(b) == 0 {
		return nil, nil
	}
	list := make([]queue.Attempt, 0, min(int(b[0]), queue.MaxTimeline))
	for rest := b[1:]; len(rest) > 0; {
		var one []byte
		one, rest = cutAttempt(rest)
		if len(one) < attemptLength+attemptHead || len(one) != attemptLength+int(binary.BigEndian.Uint16(one)) {
			return nil, fmt.Errorf("%w: an attempt of %d bytes", queue.ErrCorrupt, len(one))
		}
		r := pack.Reader{Rest: one[attemptLength:]}
		a := queue.Attempt{At: r.Instant().Local(), EndedAt: r.Instant().Local()}
		head := r.Next(2)
		a.Outcome = queue.AttemptOutcome(head[0])
		a.Drainer = string(r.Next(int(head[1])))
		a.Answer = string(r.Rest)
		if r.Bad {
			return nil, fmt.Errorf("%w: an attempt cut short", queue.ErrCorrupt)
		}
		list = append(list, a)
	}
	if len(list) != int(b[0]) {
		return nil, fmt.Errorf("%w: %d attempts in place of %d", queue.ErrCorrupt, len(list), b[0])
	}
	return list, nil
}
