package leaky

import (
	"fmt"
	"math"
	"time"
)

// Instant is a point on an engine's clock, in microseconds. Only differences have a meaning.
type Instant int64

// Add returns t + d, truncated to the microsecond.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d/time.Microsecond) }

// Sub returns t - u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t-u) * time.Microsecond }

// Time returns t on the wall clock, for engines whose instants count from the Unix epoch.
func (t Instant) Time() time.Time { return time.UnixMicro(int64(t)) }

// Bucket is the state of a leaky bucket. The zero Bucket has never let anything out. It is plain data, for engines to
// store.
type Bucket struct {
	// TAT is the theoretical arrival time of GCRA: the earliest next departure at burst 1. Rem is the fraction of a
	// microsecond, in units of 1/n microseconds for a rate of n/d (see Rate.Fraction).
	TAT Instant
	Rem int64
	// Last is the latest departure granted and LastCost its cost. They bound TAT, so that no clock jump and no planted
	// value stops a bucket for good.
	Last     Instant
	LastCost int64
}

// Pacer is the rule by which a Bucket lets jobs out: departures are at least cost x T apart, with up to Burst of them
// back to back after idleness. A Burst of 1 is the strict leaky bucket: idleness earns no credit.
//
// Over any half-open window [a, a+W) it grants at most ceil(W/T) + Burst - 1 departures of cost 1 (the window law).
type Pacer struct {
	Rate  Rate
	Burst int64 // at least 1
	// Horizon is how far ahead of now a departure may be granted.
	Horizon time.Duration
}

// Validate reports whether the numbers can be computed exactly.
func (p Pacer) Validate() error {
	if p.Burst < 1 || p.Burst > MaxBurst {
		return fmt.Errorf("burst %d: must be from 1 to %d", p.Burst, MaxBurst)
	}
	if span := float64(p.Burst) * float64(p.Rate.Interval()); span > float64(MaxBurstSpan) {
		return fmt.Errorf(
			"burst %d at rate %s spans more than %v: lower the burst or raise the rate", p.Burst, p.Rate, MaxBurstSpan,
		)
	}
	return nil
}

// Next returns the earliest instant, not before now, at which the bucket lets the next job out. It is exact, rounded
// up to the microsecond.
func (p Pacer) Next(b Bucket, now Instant) Instant {
	b = p.bounded(b, now)
	return max(now, p.conforming(b))
}

// Free is Next without regard to now: it may return an earlier instant, since when the next job could have left.
func (p Pacer) Free(b Bucket, now Instant) Instant { return p.conforming(p.bounded(b, now)) }

// Take grants a departure of the given cost and returns its instant. It returns false, without a change, if the
// departure is more than Horizon ahead. The one exception is a Last that no honest grant can have left: Take moves it
// back to the horizon. Otherwise the bound of the bucket would move along with now and block it for good.
func (p Pacer) Take(b *Bucket, now Instant, cost int64) (Instant, bool) {
	s := p.bounded(*b, now)
	d := max(now, p.conforming(s))
	if d > now.Add(p.Horizon) {
		if b.Last > s.Last {
			*b = s
		}
		return 0, false
	}
	if s.TAT < now {
		s.TAT, s.Rem = now, 0
	}
	s = p.advance(s, cost)
	s.Last, s.LastCost = d, cost
	*b = s
	return d, true
}

// TakeAt is Take for a departure at d, which must not be before Next(b, now). A later d means that something else
// delays the departure. If d is Next(b, now), no fraction of a microsecond is lost.
func (p Pacer) TakeAt(b *Bucket, now, d Instant, cost int64) {
	*b = p.bounded(*b, now)
	if p.conforming(*b) < d && now < d {
		now = d
	}
	p.Take(b, now, cost)
}

// GiveBack undoes the latest departure if it was never used. It must not be called once a later departure was granted:
// a slot in the middle is lost, never saved up.
func (p Pacer) GiveBack(b *Bucket) {
	if b.LastCost == 0 {
		return
	}
	*b = p.retreat(*b, b.LastCost)
	b.LastCost = 0
}

// ETA returns when a job departs that has a cost of ahead before it, if only the pace holds jobs back.
func (p Pacer) ETA(b Bucket, now Instant, ahead int64) Instant {
	s := p.bounded(b, now)
	if s.TAT < now {
		s.TAT, s.Rem = now, 0
	}
	// ahead may be far more than MaxCost. The error of the floating-point product is far below a millisecond, the
	// precision of an ETA.
	if p.Rate.n == 0 {
		return now
	}
	d := float64(p.conforming(s)) + math.Ceil(float64(ahead)*float64(p.Rate.d)/float64(p.Rate.n))
	return max(now, Instant(min(d, farthest)))
}

// farthest is the end of the year 9999, the last instant that RFC 3339 can express.
const farthest = 253_402_300_799_000_000

// Change converts a bucket from the rule p to the rule q. A higher rate helps the backlog at once; neither a lower
// rate nor a higher burst lets anything out early.
func (p Pacer) Change(b Bucket, q Pacer, now Instant) Bucket {
	s := p.bounded(b, now)
	tat := s.TAT
	if s.Rem > 0 {
		tat++
	}
	a := max(now, s.Last)
	switch {
	case q.Rate.n == 0:
		tat = min(tat, a)
	case p.Rate.n == 0:
		tat = a + Instant(ceilMul(s.LastCost, q.Rate))
	default:
		if tat > a {
			scale := float64(q.Rate.d) / float64(q.Rate.n) / (float64(p.Rate.d) / float64(p.Rate.n))
			tat = a + Instant(math.Ceil(float64(tat-a)*scale))
		}
		if q.Burst > p.Burst {
			tat += Instant(ceilMul(q.Burst-p.Burst, q.Rate))
		}
	}
	s.TAT, s.Rem = tat, 0
	return q.bounded(s, now)
}

// Delay returns a bucket whose state was, or may have been, lost. It lets nothing out until it has covered every
// departure that could have been granted, with costs up to maxCost.
func (p Pacer) Delay(b Bucket, now Instant, maxCost int64) Bucket {
	at := now.Add(p.Horizon)
	held := p.advance(Bucket{TAT: at + Instant(p.burstSpan())}, maxCost)
	if b.TAT < held.TAT || (b.TAT == held.TAT && b.Rem < held.Rem) {
		b.TAT, b.Rem = held.TAT, held.Rem
	}
	b.Last, b.LastCost = at, maxCost
	return b
}

// Cover returns a delayed bucket as if maxCost had been higher by more.
func (p Pacer) Cover(b Bucket, more int64) Bucket {
	b = p.advance(b, more)
	b.LastCost += more
	return b
}

// Rise returns a bucket that has let nothing out for a while before at, and must earn no credit for it. It lets a job
// out at at and continues at the rate from there.
func (p Pacer) Rise(b Bucket, at Instant) Bucket {
	var low Bucket
	if p.Rate.n == 0 {
		low.TAT = at
	} else {
		whole, rest := p.burstParts()
		low = Bucket{TAT: at + Instant(whole), Rem: rest}
	}
	if b.TAT < low.TAT || b.TAT == low.TAT && b.Rem < low.Rem {
		b.TAT, b.Rem, b.Last = low.TAT, low.Rem, max(b.Last, at)
	}
	return b
}

// Bounded returns b within its bounds as of now, so that no foreign bucket blocks a queue for good.
func (p Pacer) Bounded(b Bucket, now Instant) Bucket { return p.bounded(b, now) }

// conforming returns ceil(TAT - (Burst-1)T).
func (p Pacer) conforming(b Bucket) Instant {
	if p.Rate.n == 0 {
		return b.TAT
	}
	whole, rest := p.burstParts()
	d := b.TAT - Instant(whole)
	if b.Rem > rest {
		d++
	}
	return d
}

// bounded returns b with TAT at most Last + (Burst-1+LastCost)T, the bound that makes clock jumps and planted values
// harmless, and with Last at most a horizon ahead, as every honest grant leaves it.
func (p Pacer) bounded(b Bucket, now Instant) Bucket {
	if h := now.Add(p.Horizon); b.Last > h {
		b.Last = h
	}
	if p.Rate.n == 0 {
		b.Rem = 0
		b.TAT = min(b.TAT, b.Last)
		return b
	}
	b.Rem = min(max(b.Rem, 0), p.Rate.n-1)
	b.LastCost = min(max(b.LastCost, 0), MaxCost)
	whole, rest := p.burstParts()
	limit := p.advance(Bucket{TAT: b.Last + Instant(whole), Rem: rest}, b.LastCost)
	// The departure was rounded up by less than a microsecond, never down, so the bound computed from it is never
	// below an honest TAT.
	if b.TAT > limit.TAT || (b.TAT == limit.TAT && b.Rem > limit.Rem) {
		b.TAT, b.Rem = limit.TAT, limit.Rem
	}
	return b
}

// advance returns b with TAT later by cost x T, exactly.
func (p Pacer) advance(b Bucket, cost int64) Bucket {
	n, d := p.Rate.n, p.Rate.d
	if n == 0 {
		return b
	}
	rem := b.Rem + cost*(d%n)
	b.TAT += Instant(cost*(d/n) + rem/n)
	b.Rem = rem % n
	return b
}

// retreat is the reverse of advance.
func (p Pacer) retreat(b Bucket, cost int64) Bucket {
	n, d := p.Rate.n, p.Rate.d
	if n == 0 {
		return b
	}
	b.TAT -= Instant(cost * (d / n))
	rem := b.Rem - cost*(d%n)
	if rem < 0 {
		borrow := (-rem + n - 1) / n
		b.TAT -= Instant(borrow)
		rem += borrow * n
	}
	b.Rem = rem
	return b
}

// burstParts returns (Burst-1)T in whole microseconds and n-ths of one.
func (p Pacer) burstParts() (whole, rest int64) {
	return p.Rate.times(p.Burst - 1)
}

func (p Pacer) burstSpan() int64 {
	if p.Rate.n == 0 {
		return 0
	}
	whole, rest := p.burstParts()
	if rest > 0 {
		whole++
	}
	return whole
}

func ceilMul(k int64, r Rate) int64 {
	rem := k * (r.d % r.n)
	v := k*(r.d/r.n) + rem/r.n
	if rem%r.n > 0 {
		v++
	}
	return v
}
