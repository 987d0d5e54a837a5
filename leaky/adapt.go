package leaky

import (
	"math/bits"
	"time"
)

// Adapt is the rule by which a rate follows what a receiver accepts, between two bounds. It is additive increase while
// all goes well, and multiplicative decrease when a departure is refused (D.-M. Chiu, R. Jain, "Analysis of the
// increase and decrease algorithms for congestion avoidance in computer networks", 1989). The increase has the shape of
// BIC and CUBIC (L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance networks",
// INFOCOM 2004; RFC 9438). It is steep at first and nearly flat just below the last refused rate. There it stays for a
// while; then it grows faster and faster, to find out what else is accepted.
//
// All numbers are integers below 2^53, so that Lua, which only has doubles, computes the same.
type Adapt struct {
	Floor, Ceiling Rate
	// Horizon is how far ahead of now a departure may be granted.
	Horizon time.Duration
}

// Adapted is the state of an adapted rate.
type Adapted struct {
	Rate Rate
	// Level is about the rate, in departures per unit (see Levels); Peak is the level last refused.
	Level, Peak int64
	Run         int64   // increases since the last decrease
	Changed     Instant // the last increase or decrease
	Lowered     Instant // departures up to this instant were granted before the last decrease
}

// The constants of the rule, found by simulation (bench/closedloop).
const (
	adaptPause  = 1_000_000 // minimum microseconds between a change and an increase
	adaptRegain = 4         // an increase covers 1/4 of the distance to the target,
	adaptNear   = 32        // which is the last peak minus 1/32 of it
	adaptStay   = 18        // number of increases after which the peak may be exceeded
	adaptBeyond = 1500      // by 1/1500 of it times the square of the increases since
	adaptMost   = 100       // maximum number of increases that count
	adaptAgain  = 5         // after fewer increases, a decrease belongs to the same drop
	adaptDigits = 100_000   // rates are rounded below this, so that they stay small fractions
)

// Begin returns the state of a rate about which nothing is known.
func (a Adapt) Begin(rate Rate) Adapted {
	level := a.level(rate)
	return Adapted{Rate: rate, Level: level, Peak: level, Run: adaptStay}
}

// Refused records a throttled departure and reports whether the rate has changed. A departure granted before the last
// decrease says nothing about the present rate and is ignored.
func (a Adapt) Refused(s *Adapted, departed, now Instant) bool {
	if departed <= s.Lowered {
		return false
	}
	s.Peak = s.Level
	if s.Run < adaptAgain {
		s.Level /= 2
	} else {
		s.Level = s.Level * 3 / 4
	}
	s.Run, s.Changed, s.Lowered = 0, now, now.Add(a.Horizon)
	return a.set(s)
}

// Taken records a departure that was delivered while the rate held other jobs back, and reports whether the rate
// has changed.
func (a Adapt) Taken(s *Adapted, departed, now Instant) bool {
	if departed <= s.Lowered || now < s.Changed+adaptPause || s.Rate == a.Ceiling {
		return false
	}
	s.Run, s.Changed = min(s.Run+1, adaptMost), now
	if beyond := s.Run - adaptStay; beyond > 0 {
		s.Level += max(1, s.Peak*beyond/adaptBeyond*beyond)
	} else {
		s.Level += max(0, s.Peak-s.Peak/adaptNear-s.Level) / adaptRegain
	}
	return a.set(s)
}

// set sets the rate from the level, within the bounds.
func (a Adapt) set(s *Adapted) bool {
	before := s.Rate
	unit, floor, ceiling := a.Levels()
	s.Level = min(max(s.Level, floor), ceiling)
	switch level := rounded(s.Level); {
	case s.Level == ceiling:
		s.Rate = a.Ceiling
	case level <= floor:
		s.Rate = a.Floor
	default:
		s.Rate = Ratio(level, int64(unit))
	}
	return s.Rate != before
}

// rounded returns the level with only its first digits kept.
func rounded(level int64) int64 {
	scale := int64(1)
	for level/scale >= adaptDigits {
		scale *= 10
	}
	return level - level%scale
}

// Levels returns the numbers with which another program computes the same: the unit of time in which levels count
// departures, and the levels of the bounds. The unit is the shortest of a fixed list with a thousand departures at the
// floor.
func (a Adapt) Levels() (unit Instant, floor, ceiling int64) {
	unit = Instant((1000 * 24 * time.Hour).Microseconds())
	for _, u := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		if a.Floor.Interval() <= u/1000 {
			unit = Instant(u.Microseconds())
			break
		}
	}
	return unit, level(a.Floor, unit), level(a.Ceiling, unit)
}

func (a Adapt) level(r Rate) int64 {
	unit, _, _ := a.Levels()
	return level(r, unit)
}

// level returns r in departures per unit, rounded down. The product may exceed 2^64; the quotient is below 2^53.
func level(r Rate, unit Instant) int64 {
	high, low := bits.Mul64(uint64(r.n), uint64(unit))
	q, _ := bits.Div64(high, low, uint64(r.d))
	return int64(q)
}
