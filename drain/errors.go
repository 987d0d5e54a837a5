package drain

import "errors"

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
	// job had not started. The job is given back.
	ErrStopping = errors.New("the drainer is stopping")
)

// Permanent marks an error after which trying again is pointless: the job is dead
// at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ err error }

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanent
	return errors.As(err, &p)
}
