package leaky

import (
	"math/bits"
	"time"
)

// Adapt is the rule by which a rate follows what a receiver accepts, between two bounds: it is multiplied down when
// a departure is refused, and added to while all goes well (D.-M. Chiu, R. Jain, "Analysis of the increase and
// decrease algorithms for congestion avoidance in computer networks", 1989). What is added has the shape of BIC and
// CUBIC (L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance networks", INFOCOM
// 2004; RFC 9438): much at first, next to nothing just below the rate that was refused last, where it stays for a
// while, and then ever more, to find out what else is accepted.
//
// All of it is integers below 2^53, so that Lua computes the same, where all numbers are doubles.
type Adapt struct {
	Floor, Ceiling Rate
	// Horizon is how far ahead of now a departure may be granted.
	Horizon time.Duration
}

// Adapted is the state of an adapted rate.
type Adapted struct {
	Rate Rate
	// Level is about the rate, in departures in Adapt.Unit; Peak is the level that was refused last.
	Level, Peak int64
	Run         int64   // increases since the last decrease
	Changed     Instant // the last increase or decrease
	Lowered     Instant // departures up to then were granted before the last decrease
}

// The numbers of the rule, found by simulation (bench/closedloop).
const (
	adaptPause  = 1_000_000 // microseconds from any change to an increase
	adaptRegain = 4         // an increase makes good this fraction of what is missing to
	adaptNear   = 32        // the last peak less this fraction of it
	adaptStay   = 18        // increases after which the peak is passed
	adaptBeyond = 1500      // by this fraction of it times the square of the increases since then
	adaptMost   = 100       // increases that count
	adaptAgain  = 5         // a decrease after fewer increases belongs to the same drop of what is accepted
	adaptDigits = 100_000   // a rate is rounded to so many digits, so that it stays a small fraction
)

// Begin returns the state of a rate of which nothing is known.
func (a Adapt) Begin(rate Rate) Adapted {
	level := a.level(rate)
	return Adapted{Rate: rate, Level: level, Peak: level, Run: adaptStay}
}

// Refused notes that a departure was throttled, and reports whether the rate has changed. A departure that was
// granted before the last decrease says nothing about the present rate.
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

// Taken notes that a departure was delivered while only the rate held others up, and reports whether the rate has
// changed.
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
		s.Rate = lowest(level, int64(unit))
	}
	return s.Rate != before
}

// rounded is the level with all but its first digits 0.
func rounded(level int64) int64 {
	scale := int64(1)
	for level/scale >= adaptDigits {
		scale *= 10
	}
	return level - level%scale
}

// lowest is the rate n/d in lowest terms.
func lowest(n, d int64) Rate {
	a, b := n, d
	for b != 0 {
		a, b = b, a%b
	}
	return Rate{n / a, d / a}
}

// Levels returns the numbers by which another program computes the same: the time in which a level counts
// departures, which is the shortest in a fixed list that has a thousand at the floor, and the levels of the bounds.
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

// level is rounded down. The product may be beyond 2^64; what is left of it is below 2^53.
func level(r Rate, unit Instant) int64 {
	high, low := bits.Mul64(uint64(r.n), uint64(unit))
	q, _ := bits.Div64(high, low, uint64(r.d))
	return int64(q)
}
