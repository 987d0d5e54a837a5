package leaky

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// oracle knows all that ever passed, and nothing else. By the definition of an algorithm it says whether an ask passes,
// or would later if nothing else did. It is exact; for an algorithm with an error it gives either the lenient or the
// strict bound.
type oracle interface {
	passes(at Instant, a Ask, strict bool) bool
	took(at Instant, a Ask)
	gaveBack(at Instant, a Ask)
	// law checks that the takes until now, and their counts, are as promised.
	law(at Instant) error
}

// history has the allowed takes in order.
type history struct {
	max    int64
	passed []passed
}

type passed struct {
	at   Instant
	cost int64
}

func (h *history) took(at Instant, a Ask) { h.passed = append(h.passed, passed{at, a.cost()}) }
func (h *history) law(Instant) error      { return nil }

// cost returns the cost that passed in (from, to].
func (h *history) cost(from, to Instant) (sum int64) {
	for _, p := range h.passed {
		if p.at > from && p.at <= to {
			sum += p.cost
		}
	}
	return sum
}

// back takes a cost back from the latest takes after an instant.
func (h *history) back(behind Instant, cost int64) {
	for i := len(h.passed) - 1; i >= 0 && h.passed[i].at > behind && cost > 0; i-- {
		back := min(cost, h.passed[i].cost)
		h.passed[i].cost -= back
		cost -= back
	}
}

// meterOracle: in every span that begins with a take and ends now, no more than Burst passed plus the leakage in the
// span. A refund is a cost below 0. All values are in n-ths of a microsecond since t0.
type meterOracle struct {
	history
	n, d int64
}

func (o *meterOracle) passes(at Instant, a Ask, _ bool) bool {
	sum, most := int64(0), int64(0)
	for i := len(o.passed) - 1; i >= 0; i-- {
		sum += o.passed[i].cost * o.d
		most = max(most, sum-int64(at-o.passed[i].at)*o.n)
	}
	return most+a.cost()*o.d <= o.max*o.d
}

func (o *meterOracle) gaveBack(at Instant, a Ask) { o.took(at, Ask{Cost: -a.cost()}) }

type windowOracle struct {
	history
	period Instant
}

func (o *windowOracle) begins(at Instant) Instant { return at - at%o.period }

func (o *windowOracle) passes(at Instant, a Ask, _ bool) bool {
	return o.cost(o.begins(at)-1, at)+a.cost() <= o.max
}

func (o *windowOracle) gaveBack(at Instant, a Ask) { o.back(o.begins(at)-1, a.cost()) }

// logOracle keeps takes for up to a resolution longer if it is strict.
type logOracle struct {
	history
	period, step Instant
	tally        *Tally
	entries      int64
}

func (o *logOracle) passes(at Instant, a Ask, strict bool) bool {
	from := at - o.period
	if strict && o.step > 1 {
		from -= o.step - 1
	}
	return o.cost(from, at)+a.cost() <= o.max
}

func (o *logOracle) gaveBack(_ Instant, a Ask) { o.back(-1<<60, a.cost()) }

func (o *logOracle) law(at Instant) error {
	if sum := o.cost(at-o.period, at); sum > o.max {
		return fmt.Errorf("%d passed within a period", sum)
	}
	if n := (*o.tally).(*logged).n; int64(n) > o.entries {
		return fmt.Errorf("%d entries, the most are %d", n, o.entries)
	}
	return nil
}

// counterOracle estimates with fractions, and compares with the true takes.
type counterOracle struct{ windowOracle }

func (o *counterOracle) shares(at Instant) (used, before int64, left Instant) {
	begins := o.begins(at)
	return o.cost(begins-1, at), o.cost(begins-o.period-1, begins-1), begins + o.period - at
}

func (o *counterOracle) passes(at Instant, a Ask, _ bool) bool {
	used, before, left := o.shares(at)
	return before*int64(left) <= (o.max-used-a.cost())*int64(o.period)
}

func (o *counterOracle) gaveBack(at Instant, a Ask) { o.back(o.begins(at)-o.period-1, a.cost()) }

func (o *counterOracle) law(at Instant) error {
	used, before, left := o.shares(at)
	truth, period := o.cost(at-o.period, at), int64(o.period)
	estimate := used*period + before*int64(left)
	tooMuch, tooLittle := before*int64(left), before*int64(o.period-left)
	if estimate-truth*period > tooMuch || truth*period-estimate > tooLittle {
		return fmt.Errorf("%d passed, %d/%d estimated with %d before", truth, estimate, period, before)
	}
	if truth*period > o.max*period+tooLittle || truth >= 2*o.max {
		return fmt.Errorf("%d passed within a period, %d before", truth, before)
	}
	return nil
}

// placesOracle asks every place.
type placesOracle struct {
	max    int64
	ttl    Instant
	places []place
}

func (o *placesOracle) find(at Instant, name string) int {
	for i, p := range o.places {
		if name != "" && p.name == name && p.until > at {
			return i
		}
	}
	return -1
}

func (o *placesOracle) held(at Instant) (sum int64) {
	for _, p := range o.places {
		if p.until > at {
			sum += p.cost
		}
	}
	return sum
}

func (o *placesOracle) passes(at Instant, a Ask, _ bool) bool {
	return o.find(at, a.Lease) >= 0 || o.held(at)+a.cost() <= o.max
}

func (o *placesOracle) took(at Instant, a Ask) {
	if i := o.find(at, a.Lease); i >= 0 {
		o.places[i].until = at + o.ttl
	} else {
		o.places = append(o.places, place{name: a.Lease, cost: a.cost(), until: at + o.ttl})
	}
}

func (o *placesOracle) gaveBack(at Instant, a Ask) {
	if i := o.find(at, a.Lease); i >= 0 {
		o.places[i].until = at
	}
}

func (o *placesOracle) law(at Instant) error {
	if sum := o.held(at); sum > o.max {
		return fmt.Errorf("%d are held", sum)
	}
	return nil
}

// trial is a random life of one key.
type trial struct {
	rnd     *rand.Rand
	limiter Limiter
	tally   Tally
	oracle  oracle
	now     Instant
	span    Instant // about a period
	due     Instant // promised by the last refusal
	allowed int
	refused int
}

func (r *trial) pass() {
	switch r.rnd.IntN(8) {
	case 0, 1:
	case 2:
		r.now++
	case 3, 4:
		r.now += Instant(r.rnd.Int64N(int64(r.span)/8 + 2))
	case 5:
		r.now += Instant(r.rnd.Int64N(int64(r.span) + 2))
	case 6:
		r.now = max(r.now, r.due-Instant(r.rnd.Int64N(2)))
	case 7:
		if r.rnd.IntN(4) == 0 {
			r.now += Instant(r.rnd.Int64N(3*int64(r.span) + 2))
		}
	}
}

func (r *trial) ask() Ask {
	a := Ask{Lease: "place " + strconv.Itoa(r.rnd.IntN(8))}
	if r.rnd.IntN(3) == 0 {
		a.Cost = 1 + r.rnd.Int64N(min(r.limiter.Limit(), 8))
	}
	if r.limiter.Algorithm() == AlgorithmConcurrency && r.rnd.IntN(8) == 0 { // a holder may pass any cost
		a.Cost = r.limiter.Limit() + 1
	}
	return a
}

func (r *trial) step() error {
	r.pass()
	a := r.ask()
	switch r.rnd.IntN(10) {
	case 0:
		r.oracle.gaveBack(r.now, a)
		if d, peek := r.tally.Refund(r.now, a), r.tally.Peek(r.now, Ask{}); d != peek {
			return fmt.Errorf("refund answers %+v, peek %+v", d, peek)
		}
	case 1:
		if err := r.again(a); err != nil {
			return err
		}
	}
	peek, passes := r.tally.Peek(r.now, a), r.oracle.passes(r.now, a, false)
	d := r.tally.Take(r.now, a)
	if d.Allowed && !passes || !d.Allowed && r.oracle.passes(r.now, a, true) {
		return fmt.Errorf("%+v to %+v", d, a)
	}
	if d != peek {
		return fmt.Errorf("take says %+v, peek %+v", d, peek)
	}
	if d.Allowed {
		r.allowed++
		r.oracle.took(r.now, a)
	} else {
		r.refused++
	}
	if err := r.oracle.law(r.now); err != nil {
		return err
	}
	return r.check(a, d)
}

// check verifies the numbers of a decision: each is right, and one more would be wrong.
func (r *trial) check(a Ask, d Decision) error {
	limit := r.limiter.Limit()
	passes := func(in time.Duration, cost int64) bool { return r.oracle.passes(r.now.Add(in), Ask{Cost: cost}, false) }
	refuses := func(in time.Duration, cost int64) bool { return !r.oracle.passes(r.now.Add(in), Ask{Cost: cost}, true) }
	if d.Limit != limit || d.Remaining < 0 || d.Remaining > limit ||
		d.Remaining > 0 && !passes(0, d.Remaining) || d.Remaining < limit && !refuses(0, d.Remaining+1) {
		return fmt.Errorf("remaining: %+v", d)
	}
	if never := a.cost() > limit; never && d.RetryAfter != 0 ||
		!never && !d.Allowed && (d.RetryAfter <= 0 || !passes(d.RetryAfter, a.cost()) || !refuses(
			d.RetryAfter-time.Microsecond, a.cost(),
		)) {
		return fmt.Errorf("retry after: %+v", d)
	}
	if !passes(d.ResetAfter, limit) || d.ResetAfter > 0 && !refuses(d.ResetAfter-time.Microsecond, limit) {
		return fmt.Errorf("reset after: %+v", d)
	}
	if e := r.tally.Expires(r.now); e != r.now.Add(d.ResetAfter) {
		return fmt.Errorf("expires at %d, %+v", e, d)
	}
	if d.Allowed && d.RetryAfter != 0 {
		return fmt.Errorf("%+v", d)
	}
	r.due = r.now.Add(d.RetryAfter)
	return nil
}

// again continues with the state after writing and reading it.
func (r *trial) again(a Ask) error {
	b, _ := r.tally.AppendBinary(nil)
	t, err := r.limiter.Restore(b)
	if err != nil {
		return err
	}
	if again, _ := t.AppendBinary(nil); !bytes.Equal(again, b) {
		return fmt.Errorf("read %x, wrote %x", b, again)
	}
	if d, was := t.Peek(r.now, a), r.tally.Peek(r.now, a); d != was {
		return fmt.Errorf("read again it says %+v, before %+v", d, was)
	}
	r.tally = t
	return nil
}

func randomMeter(r *trial) {
	m := Meter{Rate: randomRate(r.rnd), Burst: 1 + r.rnd.Int64N(12)}
	n, d := m.Rate.Fraction()
	r.limiter, r.span = m, Instant(m.Burst*d/n)+1
	r.oracle = &meterOracle{history{max: m.Burst}, n, d}
}

func randomAllowance(r *trial) {
	a := Allowance{Rate: randomRate(r.rnd), Burst: 1 + r.rnd.Int64N(12)}
	n, d := a.Rate.Fraction()
	r.limiter, r.span = a, Instant(a.Burst*d/n)+1
	r.oracle = &meterOracle{history{max: a.Burst}, n, d}
}

func randomWindow(r *trial) {
	f := FixedWindow{Max: 1 + r.rnd.Int64N(12), Period: micros(1000 + r.rnd.Int64N(100_000))}
	r.limiter, r.span = f, Instant(f.Period.Microseconds())
	r.oracle = &windowOracle{history{max: f.Max}, r.span}
}

func randomLog(r *trial) {
	s := SlidingLog{Max: 1 + r.rnd.Int64N(12), Period: micros(1000 + r.rnd.Int64N(100_000))}
	r.limiter, r.span = s, Instant(s.Period.Microseconds())
	r.oracle = &logOracle{history{max: s.Max}, r.span, 1, &r.tally, s.Entries()}
}

func randomPackedLog(r *trial) {
	s := SlidingLog{Max: 1 + r.rnd.Int64N(30), Period: micros(1000 + r.rnd.Int64N(100_000))}
	s.Resolution = micros(1 + r.rnd.Int64N(s.Period.Microseconds()))
	r.limiter, r.span = s, Instant(s.Period.Microseconds())
	r.oracle = &logOracle{history{max: s.Max}, r.span, Instant(s.Resolution.Microseconds()), &r.tally, s.Entries()}
}

func randomCounter(r *trial) {
	s := SlidingCounter{Max: 1 + r.rnd.Int64N(30), Period: micros(1000 + r.rnd.Int64N(100_000))}
	r.limiter, r.span = s, Instant(s.Period.Microseconds())
	r.oracle = &counterOracle{windowOracle{history{max: s.Max}, r.span}}
}

func randomConcurrency(r *trial) {
	c := Concurrency{Max: 1 + r.rnd.Int64N(8), TTL: micros(1000 + r.rnd.Int64N(100_000))}
	r.limiter, r.span = c, Instant(c.TTL.Microseconds())
	r.oracle = &placesOracle{max: c.Max, ttl: r.span}
}

func TestAgainstOracles(t *testing.T) {
	const traces, steps = 10_000, 20
	for _, c := range []struct {
		name string
		make func(*trial)
	}{
		{"meter", randomMeter},
		{"budget", randomAllowance},
		{"fixed window", randomWindow},
		{"sliding log", randomLog},
		{"sliding log, packed", randomPackedLog},
		{"sliding counter", randomCounter},
		{"concurrency", randomConcurrency},
	} {
		t.Run(c.name, func(t *testing.T) {
			allowed, refused := 0, 0
			for seed := range uint64(traces) {
				r := &trial{rnd: rand.New(rand.NewPCG(seed, 13)), now: 1_790_000_000_000_000}
				c.make(r)
				if err := r.limiter.Validate(); err != nil {
					continue // too fast a rate
				}
				r.tally = r.limiter.Fresh()
				for i := range steps {
					if err := r.step(); err != nil {
						t.Fatalf("seed %d, step %d, %+v: %v", seed, i, r.limiter, err)
					}
				}
				allowed, refused = allowed+r.allowed, refused+r.refused
			}
			if least := traces * steps / 5; allowed < least || refused < least {
				t.Errorf("%d allowed, %d refused: too few to say anything", allowed, refused)
			}
		})
	}
}
