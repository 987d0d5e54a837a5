package boltq

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
)

const (
	saveAfter = 500 * time.Millisecond // how long takes wait to be saved together
	// Limits of the time between checks for expired tallies.
	expiredTalliesLeast = time.Second
	expiredTalliesMost  = time.Minute
)

// saver is the goroutine that puts tallies on file.
type saver struct {
	saveWanted chan struct{} // holds a value while tallies are to be saved
	saverEnded chan struct{} // closed when the saver has ended
}

func (s *saver) wakeSaver() {
	select {
	case s.saveWanted <- struct{}{}:
	default:
	}
}

// runSaver saves what Take took, after a delay so that many takes go together. In between it forgets expired tallies.
// It runs until the engine closes.
func (e *Engine) runSaver() {
	defer close(e.saverEnded)
	for {
		select {
		case <-e.closingCh:
			return
		case <-time.After(e.untilTallyExpires()):
		case <-e.saveWanted:
			select {
			case <-e.closingCh:
				return
			case <-time.After(e.opts.saveAfter):
			}
		}
		for e.saveTallies() {
		}
	}
}

// untilTallyExpires returns how long until the next check for expired tallies.
func (e *Engine) untilTallyExpires() time.Duration {
	e.lock()
	defer e.unlock()
	at, any := e.machine.NextTallyCheck()
	if !any {
		return expiredTalliesMost
	}
	return min(expiredTalliesMost, max(expiredTalliesLeast, at.Sub(e.now())))
}

// forgetExpiredTallies forgets all expired tallies, some at a time, so that other callers get the mutex.
func (e *Engine) forgetExpiredTallies() {
	for more := true; more; {
		e.lock()
		more = e.machine.ForgetExpiredTallies(e.now())
		e.unlock()
	}
}

// saveTallies saves some tallies, and reports whether enough are left for another commit at once. A smaller rest waits;
// otherwise the disk would never rest while callers take.
func (e *Engine) saveTallies() (more bool) {
	e.forgetExpiredTallies()
	o, err := e.decide(0, func(leaky.Instant) (wait uint64, err error) {
		if e.machine.Full != nil {
			e.wakeSaver()
			return 0, nil
		}
		wait, more = e.machine.SaveTallies()
		return wait, nil
	})
	return err == nil && o != nil && o.await(context.Background()).err == nil && more
}
