package leaky

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Meter is the leaky bucket as a meter. Each unit of cost pours T = 1/Rate into a bucket that leaks steadily and holds
// Burst x T; a take that would make it overflow is refused. It is GCRA (ITU-T I.371, annex A; ATM Forum UNI 3.1,
// 3.6.2.4), an exact version without ticks of the counter of J. S. Turner, "New directions in communications", IEEE
// Communications Magazine, October 1986. It answers the numbers of redis-cell's CL.THROTTLE key Burst-1 n d.
//
// It is exact: a take is allowed if and only if max(TAT, now) + cost x T - now <= Burst x T, with T a fraction.
//
// Worst burst: Burst at once. Over any half-open window of W at most Burst + floor(W/T) pass, so over Burst x T nearly
// 2 x Burst.
//
// Memory: one instant and a remainder.
type Meter struct {
	Rate  Rate  // limited
	Burst int64 // 1 to MaxBurst
}

// Level is the state of a Meter. The zero Level is unused.
type Level struct {
	// TAT is the theoretical arrival time of GCRA: when the bucket will be empty. Rem is the fraction of a
	// microsecond, in units of 1/n microseconds for a rate of n/d (see Rate.Fraction). After a change of the rate it
	// still uses the old unit, an error of less than a microsecond.
	TAT Instant
	Rem int64
}

// AlgorithmMeter is the name of Meter.
const AlgorithmMeter Algorithm = "meter"

// stateMeter is the first byte of its states.
const stateMeter = 'm'

// Algorithm implements Limiter.
func (m Meter) Algorithm() Algorithm { return AlgorithmMeter }

// Validate implements Limiter.
func (m Meter) Validate() error { return m.validate("burst", MaxBurst) }

func (m Meter) validate(burst string, most int64) error {
	if m.Rate.Unlimited() {
		return fmt.Errorf("%w: rate %s: must be from 1/%v to %d/s", ErrLimit, m.Rate, MaxInterval, MaxPerSecond)
	}
	if err := checkMax(burst, m.Burst, most); err != nil {
		return err
	}
	if span := float64(m.Burst) * float64(m.Rate.Interval()); span > float64(MaxBurstSpan) {
		return fmt.Errorf(
			"%w: %s %d at rate %s spans more than %v: lower it or raise the rate", ErrLimit, burst, m.Burst, m.Rate,
			MaxBurstSpan,
		)
	}
	return nil
}

// Limit implements Limiter. It returns Burst.
func (m Meter) Limit() int64 { return m.Burst }

// Most implements Limiter. It returns Burst + floor(w/T).
func (m Meter) Most(w time.Duration) int64 {
	return m.Burst + mulDiv(int64(w), m.Rate.n, m.Rate.d*int64(time.Microsecond))
}

// Take does what Tally.Take does.
func (m Meter) Take(l *Level, now Instant, cost int64) Decision {
	after, d := m.decide(*l, now, cost)
	*l = after
	return d
}

// Peek does what Tally.Peek does.
func (m Meter) Peek(l Level, now Instant, cost int64) Decision {
	_, d := m.decide(l, now, cost)
	return d
}

// Refund does what Tally.Refund does.
func (m Meter) Refund(l *Level, now Instant, cost int64) Decision {
	us, rest := m.owed(*l, now)
	back, backRest := m.Rate.times(min(max(cost, 0), m.Burst))
	us, rest = us-back, rest-backRest
	if rest < 0 {
		us, rest = us-1, rest+m.Rate.n
	}
	if us < 0 {
		us, rest = 0, 0
	}
	*l = Level{TAT: now + Instant(us), Rem: rest}
	return m.Peek(*l, now, 1)
}

// Expires does what Tally.Expires does.
func (m Meter) Expires(l Level, now Instant) Instant {
	us, rest := m.owed(l, now)
	return now + Instant(ceilRest(us, rest))
}

// decide returns the answer and the state after it. If TAT is ahead of now, and honest, a refusal changes nothing.
func (m Meter) decide(l Level, now Instant, cost int64) (Level, Decision) {
	us, rest := m.owed(l, now)
	d := Decision{Limit: m.Burst}
	if cost >= 1 && cost <= m.Burst {
		more, moreRest := m.Rate.times(cost)
		if more, moreRest = more+us, moreRest+rest; moreRest >= m.Rate.n {
			more, moreRest = more+1, moreRest-m.Rate.n
		}
		most, mostRest := m.Rate.times(m.Burst)
		if more < most || more == most && moreRest <= mostRest {
			d.Allowed, us, rest = true, more, moreRest
		} else {
			d.RetryAfter = micros(ceilRest(more-most, moreRest-mostRest))
		}
	}
	d.Remaining = m.Burst - m.units(us, rest)
	d.ResetAfter = micros(ceilRest(us, rest))
	return Level{TAT: now + Instant(us), Rem: rest}, d
}

// owed returns how far TAT is ahead of now, at most Burst x T. This bound makes clock jumps, planted values and
// changed rules harmless.
func (m Meter) owed(l Level, now Instant) (us, rest int64) {
	if l.TAT < now {
		return 0, 0
	}
	us, rest = int64(l.TAT-now), min(max(l.Rem, 0), m.Rate.n-1)
	if most, mostRest := m.Rate.times(m.Burst); us > most || us == most && rest > mostRest {
		return most, mostRest
	}
	return us, rest
}

// units returns what is owed in units of T, rounded up. The floating-point quotient may be too low but never too high;
// it is then corrected, so that the result is the same everywhere.
func (m Meter) units(us, rest int64) int64 {
	k := int64(float64(us) * float64(m.Rate.n) / float64(m.Rate.d))
	for less(m.Rate, k, us, rest) {
		k++
	}
	return k
}

// less reports whether k x T is less than what is owed.
func less(r Rate, k, us, rest int64) bool {
	whole, part := r.times(k)
	return whole < us || whole == us && part < rest
}

func ceilRest(us, rest int64) int64 {
	if rest > 0 {
		return us + 1
	}
	return us
}

// Fresh implements Limiter.
func (m Meter) Fresh() Tally { return &metered{rule: m} }

// Restore implements Limiter. The states of Meter, TokenBucket and Gap are the same.
func (m Meter) Restore(b []byte) (Tally, error) {
	r := readState(b, stateMeter)
	l := Level{TAT: r.instant(), Rem: r.number(0, maxNumerator)}
	return r.end(m, &metered{rule: m, level: l})
}

type metered struct {
	rule  Meter
	level Level
}

func (t *metered) Take(now Instant, a Ask) Decision   { return t.rule.Take(&t.level, now, a.cost()) }
func (t *metered) Peek(now Instant, a Ask) Decision   { return t.rule.Peek(t.level, now, a.cost()) }
func (t *metered) Refund(now Instant, a Ask) Decision { return t.rule.Refund(&t.level, now, a.cost()) }
func (t *metered) Expires(now Instant) Instant        { return t.rule.Expires(t.level, now) }

func (t *metered) Clone() Tally {
	c := *t
	return &c
}

func (t *metered) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendVarint(append(b, stateMeter), int64(t.level.TAT))
	return binary.AppendVarint(b, t.level.Rem), nil
}
