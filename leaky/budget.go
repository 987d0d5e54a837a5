package leaky

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// MaxUnits is the maximum cost of a job in one unit, and the maximum burst of a Budget.
const MaxUnits = 1_000_000_000

// maxDebt bounds how far ahead of a departure its charge can put a Balance.
const maxDebt = int64(MaxBurstSpan / time.Microsecond)

// Budget is a rate of something that jobs use up in very different amounts, such as tokens. A departure needs credit
// for its cost, or a full Burst if it costs more. Its whole cost is then charged: a job that costs more than Burst
// leaves a debt, and the next one waits until the debt is paid.
//
// In any half-open window of length W, the charged cost is at most Rate x W + Burst. What the last departure in the
// window costs beyond Burst comes on top. Correct corrects charges afterwards: a refund leaves what would be there if
// the departure had been charged less, and a further charge counts as of its own instant. So the bound holds for the
// corrected costs, too, but for what departures cost beyond their charges before these are corrected.
type Budget struct {
	Rate  Rate  // limited
	Burst int64 // 1 to MaxUnits
}

// Balance is the state of a Budget. The zero Balance has never let anything out. It is plain data, for engines to
// store.
type Balance struct {
	// TAT is when the whole Burst is available, and Rem a fraction of a microsecond, as in a Bucket. A TAT in the past
	// counts as now: idleness earns no more than Burst.
	TAT Instant
	Rem int64
	// Last is the latest departure, which may be ahead; 0 if it does not matter any more.
	Last Instant
	// Wants is the credit that the next departure needs. It is 0 until a job was found that needs more than there is.
	// Later, cheaper jobs then cannot overtake that job forever, and the next opening does not depend on which job is
	// first.
	Wants int64

	// lows are in the order of their instants, and each is above the one before it: a low at or above a later one says
	// nothing.
	lows [maxLows]low
	kept int
}

// A low is how much was in use, as the time until the whole burst was available, just before a charge. A refund cannot
// exceed the lows since its departure: what is then full anyway gains nothing from a lower charge before it.
type low struct {
	at   Instant
	used Instant
}

// maxLows is how many lows a Balance keeps. Beyond it, the two oldest become one, which permits less.
const maxLows = 8

// Validate reports whether the numbers can be computed exactly.
func (p Budget) Validate() error {
	if p.Burst < 1 || p.Burst > MaxUnits {
		return fmt.Errorf("burst %d: must be from 1 to %d", p.Burst, MaxUnits)
	}
	if span := float64(p.Burst) * float64(p.Rate.Interval()); span > float64(MaxBurstSpan) {
		return fmt.Errorf(
			"burst %d at rate %s spans more than %v: lower the burst or raise the rate", p.Burst, p.Rate, MaxBurstSpan,
		)
	}
	return nil
}

// Next returns the earliest instant, not before now, at which the credit that the next departure needs is there.
func (p Budget) Next(b *Balance, now Instant) Instant {
	if b.TAT < now {
		return now
	}
	return max(now, p.Free(b, now))
}

// Free is Next without regard to now: it may return an earlier instant, since when the credit has been there.
func (p Budget) Free(b *Balance, now Instant) Instant {
	if most := now.Add(MaxBurstSpan + time.Second); b.TAT > most {
		return p.allows(most, 0, min(b.Wants, p.Burst))
	}
	return p.allows(b.TAT, b.Rem, min(b.Wants, p.Burst))
}

// Affords reports whether there is credit at d for a departure of that cost.
func (p Budget) Affords(b *Balance, d Instant, cost int64) bool {
	return d > b.TAT || d >= p.allows(b.TAT, b.Rem, min(cost, p.Burst))
}

// Want notes that the next departure needs credit for that cost.
func (p Budget) Want(b *Balance, cost int64) { b.Wants = max(b.Wants, min(cost, p.Burst)) }

// Take charges a departure at d, which Affords allows.
func (p Budget) Take(b *Balance, d Instant, cost int64) {
	p.charge(b, d, cost)
	b.Last, b.Wants = max(b.Last, d), 0
}

// Correct charges actual in place of the charge for a departure at d.
func (p Budget) Correct(b *Balance, d, now Instant, charged, actual int64) {
	if actual >= charged {
		p.charge(b, now, actual-charged)
		return
	}
	since := b.lowsUntil(d)
	whole, rest := p.span(charged - actual)
	if since < b.kept && Instant(whole) >= b.lows[since].used {
		whole, rest = int64(b.lows[since].used), 0
	}
	tat, rem := b.TAT-Instant(whole), b.Rem-rest
	if rem < 0 {
		tat, rem = tat-1, rem+p.Rate.n
	}
	b.TAT, b.Rem = tat, rem
	if rest > 0 {
		whole++
	}
	b.lower(since, Instant(whole))
}

// charge adds a cost as of an instant.
func (p Budget) charge(b *Balance, at Instant, cost int64) {
	if cost == 0 {
		return
	}
	b.noteLow(at, max(0, b.TAT-at))
	if b.TAT < at {
		b.TAT, b.Rem = at, 0
	}
	whole, rest := p.span(cost)
	if rest += b.Rem; rest >= p.Rate.n {
		whole, rest = whole+1, rest-p.Rate.n
	}
	b.TAT, b.Rem = b.TAT+Instant(whole), rest
	if most := at + Instant(maxDebt); b.TAT >= most {
		b.TAT, b.Rem = most, 0
	}
}

// noteLow notes how much was in use before a charge.
func (b *Balance) noteLow(at, used Instant) {
	if b.kept > 0 {
		at = max(at, b.lows[b.kept-1].at)
	}
	for b.kept > 0 && b.lows[b.kept-1].used >= used {
		b.kept--
	}
	if b.kept == maxLows {
		oldest := b.lows[0].used
		b.kept = copy(b.lows[:], b.lows[1:])
		b.lows[0].used = oldest
	}
	b.lows[b.kept] = low{at, used}
	b.kept++
}

// lowsUntil returns how many lows are not after a departure at d.
func (b *Balance) lowsUntil(d Instant) int {
	for i := b.kept; i > 0; i-- {
		if b.lows[i-1].at <= d {
			return i
		}
	}
	return 0
}

// lower lowers the lows from an index on.
func (b *Balance) lower(since int, by Instant) {
	if since == b.kept {
		return
	}
	for i := since; i < b.kept; i++ {
		b.lows[i].used -= by
	}
	keep := since
	for keep > 0 && b.lows[keep-1].used >= b.lows[since].used {
		keep--
	}
	b.kept = keep + copy(b.lows[keep:], b.lows[since:b.kept])
}

// NoRefunds makes departures before an instant non-refundable, because later charges may be unknown.
func (b *Balance) NoRefunds(before Instant) { b.noteLow(before, 0) }

// Change converts a balance from the rule p to the rule q, as Pacer.Change does. What the next departure needs is to be
// found out again.
func (p Budget) Change(b Balance, q Budget, now Instant) Balance {
	b = p.Bounded(b, now)
	tat := b.TAT
	if b.Rem > 0 {
		tat++
	}
	if tat > now {
		scale := float64(q.Rate.d) / float64(q.Rate.n) / (float64(p.Rate.d) / float64(p.Rate.n))
		tat = now + Instant(math.Ceil(min(float64(tat-now)*scale, float64(maxDebt))))
	}
	if q.Burst > p.Burst {
		whole, rest := q.span(q.Burst - p.Burst)
		if tat += Instant(whole); rest > 0 {
			tat++
		}
	}
	return q.Bounded(Balance{TAT: tat, Last: b.Last}, now)
}

// Bucket returns the balance as a Bucket in which the last cost is what the next departure wants. BalanceOf is its
// inverse, but does not know what may be refunded.
func (b Balance) Bucket() Bucket {
	return Bucket{TAT: b.TAT, Rem: b.Rem, Last: b.Last, LastCost: b.Wants}
}

// BalanceOf returns a balance that was shown as a bucket.
func BalanceOf(b Bucket) Balance {
	return Balance{TAT: b.TAT, Rem: b.Rem, Last: b.Last, Wants: b.LastCost}
}

// Lost returns a balance whose state was, or may have been, lost: none of the burst is left at an instant.
func (p Budget) Lost(b Balance, at Instant) Balance {
	whole, rest := p.span(p.Burst)
	if rest > 0 {
		whole++
	}
	if tat := at + Instant(whole); b.TAT < tat {
		b.TAT, b.Rem = tat, 0
	}
	b.NoRefunds(at)
	return b
}

// Later returns the balance that lets out less.
func (p Budget) Later(a, b Balance, now Instant) Balance {
	a, b = p.Bounded(a, now), p.Bounded(b, now)
	if b.TAT > a.TAT || b.TAT == a.TAT && b.Rem > a.Rem {
		return b
	}
	return a
}

// Used returns how much of the burst is not available at an instant, rounded up; more than Burst is a debt.
func (p Budget) Used(b *Balance, at Instant) int64 {
	if b.TAT <= at {
		return 0
	}
	return int64(math.Ceil(float64(b.TAT-at) * float64(p.Rate.n) / float64(p.Rate.d)))
}

// Bounded returns b within its bounds as of now, so that no foreign balance blocks a queue for good.
func (p Budget) Bounded(b Balance, now Instant) Balance {
	b.Rem, b.Wants = min(max(b.Rem, 0), p.Rate.n-1), min(max(b.Wants, 0), p.Burst)
	b.Last = min(b.Last, now.Add(time.Second))
	if most := now.Add(MaxBurstSpan + time.Second); b.TAT > most {
		b.TAT, b.Rem = most, 0
	}
	return b
}

// allows returns ceil(TAT - (Burst-need)T): from then on there is that much credit.
func (p Budget) allows(tat Instant, rem, need int64) Instant {
	whole, rest := p.span(p.Burst - need)
	d := tat - Instant(whole)
	if rem > rest {
		d++
	}
	return d
}

// span returns cost x T in whole microseconds, at most maxDebt, and the remaining n-ths of one.
func (p Budget) span(cost int64) (whole, rest int64) {
	n, d := uint64(p.Rate.n), uint64(p.Rate.d)
	hi, lo := bits.Mul64(uint64(cost), d)
	if hi == 0 {
		return clipDebt(lo/n, lo%n)
	}
	if hi >= n {
		return maxDebt, 0
	}
	return clipDebt(bits.Div64(hi, lo, n))
}

// Correct counts actual in place of an earlier charge, if the window of the departure at d is the present one.
func (q Quota) Correct(w *Window, d Instant, charged, actual int64) {
	if q.Calendar.End(d) == w.Ends {
		w.Used = min(mostUsed, max(0, w.Used-min(charged, q.Most(*w))+actual))
	}
}

func clipDebt(whole, rest uint64) (int64, int64) {
	if whole >= uint64(maxDebt) {
		return maxDebt, 0
	}
	return int64(whole), int64(rest)
}
