package boltq

import (
	"time"
)

const (
	saveAfter = 500 * time.Millisecond // what was taken waits so long to be saved together
	// tallies in one change, at least; a sixteenth of all that wait, if that is more. Appends wait for such a change
	saveMax            = 500
	expiredTalliesTurn = 500 // tallies that are checked before others get the mutex
	// Bounds of the time between checks for expired tallies.
	expiredTalliesLeast = time.Second
	expiredTalliesMost  = time.Minute
)

// saver is the goroutine that puts tallies on file.
type saver struct {
	saveWanted chan struct{} // holds a value while something is to be saved
	saverEnded chan struct{} // closed when the saver has ended
}

// wakeSaver wakes the saver.
func (s *saver) wakeSaver() {
	select {
	case s.saveWanted <- struct{}{}:
	default:
	}
}

// runSaver saves what Take took, a while after it was taken so that much goes together, and forgets expired tallies
// while nobody asks, until the engine closes.
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

// untilTallyExpires is how long nobody need check for expired tallies.
func (e *Engine) untilTallyExpires() time.Duration {
	e.lock()
	defer e.unlock()
	if e.tallySets.len() == 0 {
		return expiredTalliesMost
	}
	return min(expiredTalliesMost, max(expiredTalliesLeast, e.tallySets.top().byCheck.top().checkAt.Sub(e.now())))
}

// forgetAllExpiredTallies forgets all expired tallies.
func (e *Engine) forgetAllExpiredTallies() {
	for more := true; more; {
		e.lock()
		more = e.forgetExpiredTallies(e.now(), expiredTalliesTurn)
		e.unlock()
	}
}

// saveTallies saves some, and reports whether enough is left for another change at once. Less than that waits, or
// the disk would never rest while somebody takes.
func (e *Engine) saveTallies() (more bool) {
	e.forgetAllExpiredTallies()
	c := newCall()
	if !e.startSaving(c) {
		return false
	}
	<-c.done
	e.lock()
	defer e.unlock()
	if e.dirtyTallies.n+e.droppedTallies.n > 0 {
		e.toSave = true
	}
	return c.err == nil && (e.dirtyTallies.n >= saveMax || e.droppedTallies.n >= batchForgets)
}

func (e *Engine) startSaving(c *call) bool {
	e.lock()
	defer e.unlock()
	if e.usable() != nil {
		return false
	}
	if e.room.full != nil {
		e.toSave = true
		return false
	}
	if e.dirtyTallies.n+e.droppedTallies.n == 0 {
		return false
	}
	e.enqueue(c, &saveTalliesChange{
		fileChange: fileChange{c}, tallies: e.dirtyTallies.take(max(saveMax, e.dirtyTallies.n/16)),
	})
	return true
}

// saveTalliesChange puts tallies on file, with the batch. If it fails they are saved again.
type saveTalliesChange struct {
	fileChange
	tallies []*tally
}

func (c *saveTalliesChange) prepare(b *batch) {
	for _, t := range c.tallies {
		if t.dirty {
			b.addTally(t)
		}
	}
}

func (c *saveTalliesChange) freesSpace() bool { return len(c.tallies) == 0 }
