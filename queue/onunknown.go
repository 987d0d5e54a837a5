package queue

// What becomes of a job of which nobody can know whether it was sent: its connection was
// lost when the receiver may have had all of it.
const (
	UnknownRetry = "retry" // it is tried again, and may be sent twice
	UnknownHold  = "hold"  // it is Held until a person decides
	UnknownDead  = "dead"  // it is not sent again unless a person replays it
)

// Abandoned is where a job goes whose lease ran out, when it is not its last attempt: Waiting, Held or
// Dead.
func (s *Spec) Abandoned() State {
	switch s.OnUnknown {
	case UnknownHold:
		return Held
	case UnknownDead:
		return Dead
	}
	return Waiting
}

// Lends reports whether a lease must be known of after its holder is gone: the job is not just given
// to somebody else.
func (s *Spec) Lends() bool { return s.OnUnknown == UnknownHold || s.OnUnknown == UnknownDead }

// Fate is the verdict on a job that may have been sent.
func (s *Spec) Fate() Verdict {
	switch s.OnUnknown {
	case UnknownRetry:
		return Fail
	case UnknownDead:
		return Bury
	}
	return Hold
}
