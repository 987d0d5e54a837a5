package queue

// What to do with a job that may have been sent: its connection was lost when the receiver may have had all of it.
const (
	UnknownRetry = "retry" // it is tried again, and may be sent twice
	UnknownHold  = "hold"  // it is Held until a person decides
	UnknownDead  = "dead"  // it is not sent again unless a person replays it
)

// Abandoned returns the state of a job whose lease ran out while it has attempts left: Waiting, Held or Dead.
func (s *Spec) Abandoned() State {
	switch s.OnUnknown {
	case UnknownHold:
		return Held
	case UnknownDead:
		return Dead
	}
	return Waiting
}

// Lends reports whether the engine must remember a lease after its holder is gone, because it does not simply give the
// job to another client.
func (s *Spec) Lends() bool { return s.OnUnknown == UnknownHold || s.OnUnknown == UnknownDead }

// Fate returns the verdict on a job that may have been sent.
func (s *Spec) Fate() Verdict {
	switch s.OnUnknown {
	case UnknownRetry:
		return Fail
	case UnknownDead:
		return Bury
	}
	return Hold
}
