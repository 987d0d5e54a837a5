package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	// followed is the longest jump ahead of the wall clock that a vouched clock takes for time that has passed.
	followed = 500 * time.Millisecond
	// unvouched is how long a clock runs without a caller that vouches for it. doubted is how long it then stands still
	// before it trusts the wall clock.
	unvouched = 3 * time.Second
	doubted   = 3 * time.Second
	// reported is the shortest jump of the wall clock that is reported.
	reported = 5 * time.Second
)

// Clock is the engine's clock (invariant 9). It runs like the wall clock but follows none of its jumps: Ahead makes
// up for them. Paces and leases go by the engine's clock. Instants that users name go by the wall clock.
type Clock struct {
	Last    leaky.Instant // the last reading
	Ahead   leaky.Instant // how far it was ahead of the wall clock then; negative if behind
	jumped  leaky.Instant // when a jump of the wall clock was last noticed; 0 is never
	jumps   int64         // number of jumps
	offset  leaky.Instant // how far it is ahead, apart from a jump in doubt
	vouched leaky.Instant // when a caller last vouched for it; 0 if not recently
	doubt   leaky.Instant // since when, by the wall clock, it stands still and waits for a vouching caller; 0 if it runs
}

// Look reads the clock. wall is the reading of the wall clock. A caller whose own clock is never set vouches: latest is
// the latest instant that the engine's clock can show by the caller's clock. It is 0 for other callers, which cannot
// tell a jump ahead from time that has passed. So once the clock has run for unvouched since the last vouching caller,
// it stands still, at most for doubted; a vouching caller lets it go on from where it stood at the last reading.
func (c *Clock) Look(wall, latest leaky.Instant) leaky.Instant {
	now := wall + c.offset
	switch {
	case latest != 0 && c.doubt != 0:
		now = min(now, latest, wall+c.Ahead)
	case latest != 0 && now > latest.Add(followed):
		now = latest
	case latest == 0 && c.vouched != 0 && now > c.vouched.Add(unvouched):
		if c.doubt == 0 || wall < c.doubt {
			c.doubt = wall
		}
		if wall <= c.doubt.Add(doubted) {
			c.Ahead = c.Last - wall
			return c.Last
		}
		c.vouched, c.doubt = 0, 0
	}
	now = max(now, c.Last)
	if by := now - wall - c.offset; max(by, -by) >= leaky.Instant(reported.Microseconds()) {
		c.jumped, c.jumps = now, c.jumps+1
	}
	c.Last, c.offset, c.Ahead = now, now-wall, now-wall
	if latest != 0 {
		c.vouched, c.doubt = now, 0
	}
	return now
}

// State returns the clock's state for clients.
func (c *Clock) State() queue.ClockState {
	s := queue.ClockState{Ahead: c.Ahead.Sub(0), Jumps: c.jumps}
	if c.jumped != 0 {
		s.Jumped = c.jumped.Time()
	}
	return s
}

// wall converts an instant of the engine's clock to the wall clock.
func (e *Environment) wall(at leaky.Instant) leaky.Instant {
	if e == nil {
		return at
	}
	return at - e.Ahead
}

func (e *Environment) ahead() time.Duration { return e.Ahead.Sub(0) }

// engine converts an instant of the wall clock to the engine's clock.
func (e *Environment) engine(wall leaky.Instant) leaky.Instant {
	if e == nil {
		return wall
	}
	return wall + e.Ahead
}

// nextRevision returns the revision of a change: milliseconds of the engine's clock, and more than every earlier
// revision. It says when the change was made, and does not reveal how many changes there were of other queues, rules
// and documents.
func (m *Machine) nextRevision(now leaky.Instant) int64 {
	return max(m.store.revision+1, int64(now.Sub(queue.FirstRevision)/time.Millisecond))
}
