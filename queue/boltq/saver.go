package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

const (
	saveAfter  = 500 * time.Millisecond // what was taken is put on its way to disk
	saveMax    = 500                    // tallies in one change, or a sixteenth of all that wait, up to batchForgets: those who append wait for them
	witherTurn = 500                    // tallies that are looked at before others have their turn
	// How long nobody need look whether a tally has expired.
	witherLeast = time.Second
	witherMost  = time.Minute
)

// stir lets the saver know that something is to be saved.
func (e *Engine) stir() {
	select {
	case e.stirred <- struct{}{}:
	default:
	}
}

// saves is the saver: it puts what was taken by itself on its way to disk, a while after it was taken so that much goes
// along, and forgets what has expired while nobody asks, until the engine closes.
func (e *Engine) saves() {
	defer close(e.saved)
	for {
		select {
		case <-e.leaving:
			return
		case <-time.After(e.untilWither()):
		case <-e.stirred:
			select {
			case <-e.leaving:
				return
			case <-time.After(e.opts.saveAfter):
			}
		}
		for e.save() {
		}
	}
}

// untilWither is how long nobody need look for what has expired.
func (e *Engine) untilWither() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tallies.len() == 0 {
		return witherMost
	}
	return min(witherMost, max(witherLeast, e.tallies.top().looks.Sub(e.now())))
}

// witherAll forgets all that has expired.
func (e *Engine) witherAll() {
	for more := true; more; {
		e.mu.Lock()
		more = e.wither(e.now(), witherTurn)
		e.mu.Unlock()
	}
}

// save saves some, and reports whether enough is left to be worth another change. What is less waits for company, with what was
// taken meanwhile: else the disk would never rest while somebody takes.
func (e *Engine) save() (more bool) {
	e.witherAll()
	c := newCall()
	if !e.startSaving(c) {
		return false
	}
	<-c.done
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dirty.n+e.dropped.n > 0 {
		e.stir()
	}
	return c.err == nil && (e.dirty.n >= saveMax || e.dropped.n >= batchForgets)
}

func (e *Engine) startSaving(c *call) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usable() != nil {
		return false
	}
	if e.full() {
		e.stir()
		return false
	}
	if e.dirty.n+e.dropped.n == 0 {
		return false
	}
	e.enqueue(c, &saving{call: c, tallies: e.dirty.take(max(saveMax, e.dirty.n/16))})
	return true
}

// saving puts tallies on file. Those that could not be are saved again.
type saving struct {
	call    *call
	tallies []*tally
}

func (c *saving) tally(b *batch) {
	for _, t := range c.tallies {
		if t.dirty {
			b.keepTally(t)
		}
	}
}

func (c *saving) write(*tables) error { return nil } // they go with the batch

func (c *saving) done(*Engine, leaky.Instant) { c.call.settle(nil) }

func (c *saving) undone(_ *Engine, err error) { c.call.settle(err) }

func (c *saving) frees() bool { return len(c.tallies) == 0 }
