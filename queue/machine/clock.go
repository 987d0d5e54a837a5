package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	// followed is the longest jump ahead of the wall clock that a vouched clock takes for time that has passed.
	followed = 500 * time.Millisecond
	// unvouched is how far a clock goes on without a caller that vouches for it, and doubted is for how long it then
	// stands still before it takes the wall clock's word.
	unvouched = 3 * time.Second
	doubted   = 3 * time.Second
	// reported is the shortest jump of the wall clock that is reported.
	reported = 5 * time.Second
)

// Clock is the engine's clock (invariant 9). It goes as the wall clock does, but takes part in none of its jumps:
// Ahead makes up for them. Paces and leases are told by the clock, promises of an hour of the day by the wall clock.
type Clock struct {
	Last    leaky.Instant // what it showed last
	Ahead   leaky.Instant // how far it was ahead of the wall clock then; negative if behind
	jumped  leaky.Instant // when a jump of the wall clock was last noticed; 0 if none was
	jumps   int64         // how many were
	offset  leaky.Instant // how far it is ahead, but for a jump that is doubted
	vouched leaky.Instant // when a caller last vouched for it; 0 if none has lately
	doubt   leaky.Instant // since when, by the wall clock, it stands still for want of one; 0 if it does not
}

// Look reads the clock. wall is what the wall clock shows. A caller with a clock that nobody sets vouches: latest is
// the last instant that the engine's clock can show by that; 0 without one. Where a caller vouched lately, one without
// must not take a jump ahead for time that has passed: the clock stands still until the next that vouches, or none does
// for a while.
func (c *Clock) Look(wall, latest leaky.Instant) leaky.Instant {
	now := wall + c.offset
	switch {
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

// State is what others are told of the clock.
func (c *Clock) State() queue.ClockState {
	s := queue.ClockState{Ahead: c.Ahead.Sub(0), Jumps: c.jumps}
	if c.jumped != 0 {
		s.Jumped = c.jumped.Time()
	}
	return s
}

// wall is what the wall clock shows when the engine's clock shows an instant.
func (e *Environment) wall(at leaky.Instant) leaky.Instant {
	if e == nil {
		return at
	}
	return at - e.Ahead
}

// ahead is Ahead as a span.
func (e *Environment) ahead() time.Duration { return e.Ahead.Sub(0) }

// engine is the opposite of wall.
func (e *Environment) engine(wall leaky.Instant) leaky.Instant {
	if e == nil {
		return wall
	}
	return wall + e.Ahead
}

// nextRevision returns the revision of a change: milliseconds of the engine's clock, and more than every revision
// before. It says when the change was made, and not how many changes of other queues, rules and documents were.
func (m *Machine) nextRevision(now leaky.Instant) int64 {
	return max(m.store.revision+1, int64(now.Sub(queue.FirstRevision)/time.Millisecond))
}
