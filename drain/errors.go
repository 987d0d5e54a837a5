package drain

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// ErrLate is returned by a Gate when the job must not start: its window is over, its lease is lost, or the drainer is
// stopping. A handler returns it, wrapped or not, and the job is given back: it keeps its turn and spends no attempt.
// A handler that was delayed behind the gate may check Gate.Closes, or wait again. It may still return ErrLate if the
// receiver has noticed nothing: then the job is late and has not departed.
var ErrLate = errors.New("too late to start")

// Causes of a handler's context being canceled; see context.Cause.
var (
	// ErrLeaseLost: another client has the job, or may have it. The handler's result is not settled.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrStopping: the drainer is stopping, and its grace period is over or the job had not started. The job is given
	// back, or counts as Unknown; see Handler.
	ErrStopping = errors.New("the drainer is stopping")
)

// The functions below mark a handler's error. The outermost mark counts, and in joined errors the first. Permanent
// counts wherever it is, even beside DeliveredThen: such a job needs a person. A marked nil is nil.

// Permanent marks an error that a retry would not change: the job is dead at once.
func Permanent(err error) error { return marked(err, Said{Verdict: queue.Bury}) }

// RetryAt marks an error after which the job is retried, not before the instant that the receiver named. It spends an
// attempt.
func RetryAt(err error, at time.Time) error { return marked(err, Said{Verdict: queue.Fail, Until: at}) }

// Throttled returns the error of a handler whose receiver asks for no jobs until an instant. Nothing leaves the queue
// until then, from any drainer, and the job spends no attempt. With a zero instant the queue stops for 1 s, then 2, 4
// and so on up to 60, until the receiver takes a job. The same holds if a receiver repeatedly names less than a second.
func Throttled(until time.Time) error {
	if until.IsZero() {
		return ThrottledBy(errors.New("throttled"), until)
	}
	return ThrottledBy(fmt.Errorf("throttled until %s", until.UTC().Format(time.RFC3339)), until)
}

// ThrottledBy is like Throttled, with the receiver's answer as the reason.
func ThrottledBy(err error, until time.Time) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: until})
}

// noTargetFor is how long a queue without a target stops. The stop must end by itself, because a drainer with an
// outdated spec may stop a queue that has just got a target.
const noTargetFor = time.Minute

// NoTarget marks the error of a queue that has no target. Nothing leaves the queue for a minute, or until its spec
// changes. The job spends no attempt, and the queue's circuit and adapted rate stay as they are.
func NoTarget(err error) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: time.Now().Add(noTargetFor), NoTarget: true})
}

// LaneThrottled is like ThrottledBy, but stops only the job's lane.
func LaneThrottled(err error, until time.Time) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: until, LaneOnly: true})
}

// DeliveredThen returns the error of a handler that has delivered the job to a receiver that asks for no further jobs
// until an instant. Nothing leaves the queue until then, from any drainer. reason is for people.
func DeliveredThen(until time.Time, reason string) error {
	return marked(errors.New(reason), Said{Verdict: queue.Deliver, Until: until})
}

// Down marks the error of a target that is down: nothing of the job was sent, it spends no attempt, and after several
// in a row the queue's circuit opens. If the job has not passed its gate, its departure and its part of quotas are
// given back, too.
func Down(err error) error { return marked(err, Said{Verdict: queue.Down}) }

// Unknown marks an error that leaves open whether the job was sent. The queue's on_unknown decides what happens to it.
func Unknown(err error) error { return marked(err, Said{Verdict: queue.Hold}) }

// Unsent marks an error behind the gate if the handler knows that nothing of the job was sent, for example because the
// handler was interrupted. The job is given back: it keeps its turn and spends no attempt.
func Unsent(err error) error { return marked(err, Said{Verdict: queue.Release}) }

// Trouble marks an error as the target's fault, independent of the job: the circuit counts it. Other marks in err keep
// their meaning.
func Trouble(err error) error {
	said := What(err)
	said.Trouble = true
	return marked(err, said)
}

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool { return What(err).Verdict == queue.Bury }

// Said is what the marks of a handler's error say.
type Said struct {
	// Verdict is Fail without a mark, Hold for Unknown (whatever the queue's on_unknown), Release for Unsent, and Deliver
	// for DeliveredThen.
	Verdict  queue.Verdict
	Until    time.Time // of RetryAt, DeliveredThen and Throttled
	LaneOnly bool
	Trouble  bool
	NoTarget bool
}

// What returns what a handler's error says. For nil the verdict is Deliver.
func What(err error) Said {
	if err == nil {
		return Said{Verdict: queue.Deliver}
	}
	said := Said{Verdict: queue.Fail}
	for i, m := range marks(err, nil) {
		if i == 0 || m.said.Verdict == queue.Bury {
			said = m.said
		}
	}
	return said
}

// marks appends to found all marks of an error, outermost first, including joined errors.
func marks(err error, found []*markedError) []*markedError {
	switch e := any(err).(type) {
	case *markedError:
		return marks(e.err, append(found, e))
	case interface{ Unwrap() error }:
		return marks(e.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			found = marks(joined, found)
		}
	}
	return found
}

type markedError struct {
	err  error
	said Said
}

func (m *markedError) Error() string { return m.err.Error() }
func (m *markedError) Unwrap() error { return m.err }

func marked(err error, said Said) error {
	if err == nil {
		return nil
	}
	return &markedError{err, said}
}
