package leaky

import (
	"math/bits"
	"time"
)

// Adapt is the rule by which a rate follows what a receiver takes, between two bounds: it is multiplied down
// when a departure is refused, and added to while all goes well (D.-M. Chiu, R. Jain, "Analysis of the
// increase and decrease algorithms for congestion avoidance in computer networks", 1989). What is added has
// the shape of BIC and CUBIC (L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast
// long-distance networks", INFOCOM 2004; RFC 9438): much at first, next to nothing just below the rate that was
// refused last, where it stays for a while, and then more from time to time, to find out what else is taken.
//
// All of it is integers below 2^53, so that the same numbers are exact in Lua.
type Adapt struct {
	Floor, Ceiling Rate
	// Horizon is how far ahead of now a departure may be granted.
	Horizon time.Duration
}

// Adapted is the state of an adapted rate.
type Adapted struct {
	Rate Rate
	// Level is about the rate, in departures in Adapt.Unit; Peak is that which was refused last.
	Level, Peak int64
	Run         int64   // increases since
	Changed     Instant // the last increase or decrease
	Lowered     Instant // what departs until then was granted before the last decrease
}

// The numbers of the rule, found by simulation (bench/closedloop).
const (
	adaptPause  = 1_000_000 // from any change to an increase
	adaptRegain = 4         // an increase makes good this part of what is missing to
	adaptNear   = 32        // the last peak less this part of it
	adaptStay   = 18        // increases, behind which the peak is passed
	adaptBeyond = 1500      // by this part of it x the square of how many there were since then
	adaptMost   = 100       // increases that count
	adaptAgain  = 5         // a decrease behind fewer of them is of the same fall of what is taken
	adaptDigits = 100_000   // the digits that a rate has, so that it stays a small fraction
)

// Begin returns the state of a rate of which nothing is known.
func (a Adapt) Begin(rate Rate) Adapted {
	level := a.level(rate)
	return Adapted{Rate: rate, Level: level, Peak: level, Run: adaptStay}
}

// Refused tells of a departure that was throttled, and reports whether the rate is another one now. One that
// was granted before the last decrease says nothing of the rate as it is.
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

// Taken tells of a departure that was delivered while nothing but the rate holds others up, and reports
// whether the rate is another one now.
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

// set makes the rate that of the level, within the bounds.
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

// rounded is a level of which the first digits count.
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

// Levels are the numbers by which another program computes the same: the time in which a level counts departures,
// which is the shortest of these in which there are a thousand at the floor, and the levels of the bounds.
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
