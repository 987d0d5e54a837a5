package queue

// What becomes of a job of which nobody can know whether it was sent: its connection was
// lost when the receiver may have had all of it.
const (
	UnknownRetry = "retry" // it is tried again, and may be sent twice
	UnknownHold  = "hold"  // it is Held until a person decides
	UnknownDead  = "dead"  // it is not sent again unless a person replays it
)

func validateUnknown(field, s string) error {
	switch s {
	case "", UnknownRetry, UnknownHold, UnknownDead:
		return nil
	}
	return fieldErr(field, s, "must be retry, hold or dead")
}

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
