package leaky

import (
	"encoding/binary"
	"time"
)

// Allowance is a Budget that decides about work as it comes: it allows a take if there is credit for its cost. Takes
// use very different amounts, such as tokens, and may cost more or less than was thought: Tally.Correct of its states
// charges the actual cost afterwards, in place of the first charge. A lower cost leaves what the lower charge would
// have left, so it never makes more credit than Burst. A higher cost is a charge of that moment: it may leave a debt,
// which later takes wait for.
//
// Worst burst: Burst at once. What passes in any half-open window of W costs at most Burst + floor(W/T), by the charges
// of the takes, each lowered to its actual cost once that is known. Actual costs exceed this by at most what the takes
// of the window cost beyond their charges, and later takes wait for that.
//
// Memory: one instant, a remainder, and up to 8 pairs of instants.
type Allowance struct {
	Rate  Rate  // limited
	Burst int64 // 1 to MaxUnits
}

// AlgorithmBudget is the name of Allowance.
const AlgorithmBudget Algorithm = "budget"

// stateAllowance is the first byte of its states.
const stateAllowance = 'b'

// Correction states what an earlier take cost in fact.
type Correction struct {
	At      Instant // of the take
	Charged int64   // what the take cost
	Actual  int64   // what it should have cost, 0 to MaxUnits
}

// Corrector is a Tally whose takes can be corrected.
type Corrector interface {
	Tally
	// Correct charges the actual cost of a take in place of what it was charged. Call it once for each take. It answers
	// as a Peek of cost 1 afterwards.
	Correct(now Instant, c Correction) Decision
}

// Algorithm implements Limiter.
func (a Allowance) Algorithm() Algorithm { return AlgorithmBudget }

// Validate implements Limiter.
func (a Allowance) Validate() error { return Meter(a).validate("burst", MaxUnits) }

// Limit implements Limiter. It returns Burst.
func (a Allowance) Limit() int64 { return a.Burst }

// Most implements Limiter. It returns Burst + floor(w/T).
func (a Allowance) Most(w time.Duration) int64 { return Meter(a).Most(w) }

// Fresh implements Limiter.
func (a Allowance) Fresh() Tally { return &spent{rule: Budget(a), by: Budget(a)} }

// spent is the state of an Allowance.
type spent struct {
	rule    Budget
	by      Budget // that wrote the balance
	balance Balance
}

func (t *spent) Take(now Instant, a Ask) Decision {
	b, d := t.decide(now, a.cost())
	t.keep(b)
	return d
}

func (t *spent) Peek(now Instant, a Ask) Decision {
	_, d := t.decide(now, a.cost())
	return d
}

// Refund does not know the take, so it lowers all lows: a correction then refunds less than it could.
func (t *spent) Refund(now Instant, a Ask) Decision {
	b := t.at(now)
	whole, rest := t.rule.span(min(max(a.cost(), 0), t.rule.Burst))
	b.TAT, b.Rem = b.TAT-Instant(whole), b.Rem-rest
	if b.Rem < 0 {
		b.TAT, b.Rem = b.TAT-1, b.Rem+t.rule.Rate.n
	}
	if rest > 0 {
		whole++
	}
	if b.kept > 0 {
		b.lows[0] = low{b.lows[b.kept-1].at, max(0, b.lows[0].used-Instant(whole))}
		b.kept = 1
	}
	t.keep(b.since(now))
	return t.Peek(now, Ask{})
}

// Correct implements Corrector.
func (t *spent) Correct(now Instant, c Correction) Decision {
	b := t.at(now)
	t.rule.Correct(&b, c.At, now, min(max(c.Charged, 0), MaxUnits), min(max(c.Actual, 0), MaxUnits))
	t.keep(b.since(now))
	return t.Peek(now, Ask{})
}

func (t *spent) Expires(now Instant) Instant {
	b := t.at(now)
	return max(now, b.TAT+Instant(min(b.Rem, 1)))
}

// decide returns the answer and the balance after it.
func (t *spent) decide(now Instant, cost int64) (Balance, Decision) {
	b, p := t.at(now), t.rule
	d := Decision{Limit: p.Burst}
	if cost >= 1 && cost <= p.Burst {
		if p.Affords(&b, now, cost) {
			d.Allowed = true
			p.charge(&b, now, cost)
		} else {
			d.RetryAfter = p.allows(b.TAT, b.Rem, cost).Sub(now)
		}
	}
	d.Remaining = p.remaining(&b, now)
	d.ResetAfter = max(0, (b.TAT + Instant(min(b.Rem, 1))).Sub(now))
	return b, d
}

// at returns the balance as of now, within its bounds. Of a balance of other numbers, a debt beyond the burst is
// forgiven, and takes before are refunded nothing.
func (t *spent) at(now Instant) Balance {
	b := t.balance.since(now)
	b.Rem = min(max(b.Rem, 0), t.rule.Rate.n-1)
	most, rest := maxDebt, int64(0)
	if t.by != t.rule {
		most, rest = t.rule.span(t.rule.Burst)
		b.NoRefunds(now)
	}
	if ahead := int64(b.TAT - now); ahead > most || ahead == most && b.Rem > rest {
		b.TAT, b.Rem = now+Instant(most), rest
	}
	return b
}

func (t *spent) keep(b Balance) { t.balance, t.by = b, t.rule }

// since returns the balance at an instant: what has become available beyond the burst is lost.
func (b Balance) since(now Instant) Balance {
	if b.TAT < now {
		b.TAT, b.Rem = now, 0
	}
	return b
}

// remaining returns the highest cost for which there is credit. The floating-point quotient is corrected, so that the
// result is exact.
func (p Budget) remaining(b *Balance, now Instant) int64 {
	if b.TAT < now {
		return p.Burst
	}
	ahead := int64(b.TAT - now)
	k := min(int64(float64(ahead)*float64(p.Rate.n)/float64(p.Rate.d)), p.Burst)
	for k > 0 && !p.less(k-1, ahead, b.Rem) {
		k--
	}
	for k < p.Burst && p.less(k, ahead, b.Rem) {
		k++
	}
	return p.Burst - k
}

// less reports whether a cost is less than what is owed.
func (p Budget) less(cost, us, rest int64) bool {
	whole, part := p.span(cost)
	return whole < us || whole == us && part < rest
}

func (t *spent) Clone() Tally {
	c := *t
	return &c
}

func (t *spent) AppendBinary(b []byte) ([]byte, error) {
	l := &t.balance
	b = append(b, stateAllowance)
	for _, v := range [...]int64{t.by.Rate.n, t.by.Rate.d, t.by.Burst, int64(l.TAT), l.Rem, int64(l.kept)} {
		b = binary.AppendVarint(b, v)
	}
	for _, low := range l.lows[:l.kept] {
		b = binary.AppendVarint(binary.AppendVarint(b, int64(l.TAT-low.at)), int64(low.used))
	}
	return b, nil
}

// Restore implements Limiter. The first use forgives a debt beyond the burst if the balance is of other numbers.
func (a Allowance) Restore(b []byte) (Tally, error) {
	r := readState(b, stateAllowance)
	n, d := r.number(1, maxNumerator), r.number(1, maxDenominator)
	t := &spent{rule: Budget(a), by: Budget{Rate{n, d}, r.number(1, MaxUnits)}}
	l := &t.balance
	l.TAT, l.Rem = r.instant(), r.number(0, maxNumerator)
	l.kept = int(r.number(0, maxLows))
	for i := range l.kept {
		at := l.TAT - Instant(r.number(-1<<53, 1<<53))
		l.lows[i] = low{at, Instant(r.number(0, maxDebt))}
		if i > 0 && (at < l.lows[i-1].at || l.lows[i].used <= l.lows[i-1].used) {
			r.bad = true
		}
	}
	return r.end(a, t)
}
