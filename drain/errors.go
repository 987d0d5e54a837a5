package drain

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

// ErrLate is what a Gate says when the job must not start: its window is over,
// its lease is gone, or the drainer is stopping. A handler returns it, wrapped or
// not, and the job is given back: it keeps its turn and spends no attempt. A handler
// that was kept from running after the gate had let it start may look at Gate.Closes, or
// wait again, and return it too, if the receiver has noticed nothing: then the job
// is late and has not departed.
var ErrLate = errors.New("too late to start")

// Causes of a handler's context being cancelled; see context.Cause.
var (
	// ErrLeaseLost: the job belongs to somebody else by now, or may. What the
	// handler returns is not settled.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrStopping: the drainer is stopping and its grace period is over, or the
	// job had not started. The job is given back, or unknown; see Handler.
	ErrStopping = errors.New("the drainer is stopping")
)

// What a handler's error says besides its text. The outermost mark counts, of errors that are joined the first; but
// Permanent wherever it is, beside a DeliveredThen too: who says both has a person look at it. Each of nil is nil.

// Permanent marks an error after which trying again is pointless: the job is dead
// at once.
func Permanent(err error) error { return marked(err, Said{Verdict: queue.Bury}) }

// RetryAt marks an error after which the job is tried again, not before that instant, which
// the receiver named. It spends an attempt.
func RetryAt(err error, at time.Time) error { return marked(err, Said{Verdict: queue.Fail, Until: at}) }

// Throttled is what a handler returns when the receiver asks to be spared until an instant: nothing leaves the queue
// until then, whichever drainer has it, and the job spends no attempt. A zero instant is of a receiver that does not
// say until when: the queue stops for 1 s, then 2, 4 and so on to 60, until a job is taken. So too where it says less
// than a second again and again.
func Throttled(until time.Time) error {
	if until.IsZero() {
		return ThrottledBy(errors.New("throttled"), until)
	}
	return ThrottledBy(fmt.Errorf("throttled until %s", until.UTC().Format(time.RFC3339)), until)
}

// ThrottledBy is Throttled with the receiver's answer.
func ThrottledBy(err error, until time.Time) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: until})
}

// noTargetFor is how long a queue without a target stops: a drainer that still goes by an earlier spec may stop it
// after it was given one.
const noTargetFor = time.Minute

// NoTarget marks an error of a queue that has no target. Nothing leaves the queue for a minute, or until its spec
// changes. The job spends no attempt, and the queue's circuit and adapted rate stay as they are.
func NoTarget(err error) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: time.Now().Add(noTargetFor), NoTarget: true})
}

// LaneThrottled is ThrottledBy for the job's lane alone.
func LaneThrottled(err error, until time.Time) error {
	return marked(err, Said{Verdict: queue.Throttle, Until: until, LaneOnly: true})
}

// DeliveredThen is what a handler returns that has delivered the job, of a receiver that asks to be spared until an
// instant: nothing leaves the queue until then, whichever drainer has it. reason is for people.
func DeliveredThen(until time.Time, reason string) error {
	return marked(errors.New(reason), Said{Verdict: queue.Deliver, Until: until})
}

// Down marks an error of a target that is down: nothing of the job was sent, it spends no attempt, and after
// some in a row the queue's circuit opens. Said before the gate it gives back its departure and its part of quotas.
func Down(err error) error { return marked(err, Said{Verdict: queue.Down}) }

// Unknown marks an error after which nobody can know whether the job was sent. The queue's on_unknown says
// what becomes of it.
func Unknown(err error) error { return marked(err, Said{Verdict: queue.Hold}) }

// Unsent marks an error of a handler that knows, behind the gate, that the receiver has nothing of the job: because it
// was interrupted, say. The job is given back: it keeps its turn and spends no attempt.
func Unsent(err error) error { return marked(err, Said{Verdict: queue.Release}) }

// Trouble marks an error as the target's fault, whosever job it was: the circuit counts it. What another
// mark in it says stands.
func Trouble(err error) error {
	said := What(err)
	said.Trouble = true
	return marked(err, said)
}

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool { return What(err).Verdict == queue.Bury }

// Said is what an error of a handler says.
type Said struct {
	// Verdict is Fail without a mark, Hold of Unknown, whatever the queue makes of it, Release of Unsent, and Deliver
	// of DeliveredThen.
	Verdict  queue.Verdict
	Until    time.Time // of RetryAt, DeliveredThen and of the throttled
	LaneOnly bool
	Trouble  bool
	NoTarget bool
}

// What returns what an error of a handler says; Deliver if it is nil.
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

// marks are all in an error, those of joined ones too, from the outermost on.
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
