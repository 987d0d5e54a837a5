package leaky

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The window law, by brute force: random traces of a bucket's whole life are
// held against the law itself, in every window that begins with a start, and
// against a second pacer that knows nothing but fractions.

// start is a job that left: when, by a clock that nobody sets, and its cost.
type start struct {
	at   Instant
	cost int64
}

// regime is a rule and the instant from which it held.
type regime struct {
	from  Instant
	pacer Pacer
}

// life simulates one bucket under everything that may happen to it.
type life struct {
	rnd     *rand.Rand
	p       Pacer
	b       Bucket
	t       Instant // the true time
	shift   Instant // engine's clock - true time; it only grows
	slack   Instant
	costs   int64 // the greatest cost so far
	regimes []regime
	jumps   []Instant // true instants at which the engine's clock leapt ahead
	starts  []start
	last    int // index in starts of the latest departure granted, -1 if it cannot be given back
	saved   []Bucket
}

func (l *life) now() Instant { return l.t + l.shift }

func (l *life) take() {
	cost := int64(1)
	if l.rnd.IntN(3) == 0 {
		cost = 1 + l.rnd.Int64N(4)
	}
	d, ok := l.p.Take(&l.b, l.now(), cost)
	if !ok {
		return
	}
	l.costs = max(l.costs, cost)
	late := Instant(0)
	switch l.rnd.IntN(3) {
	case 0:
		late = l.slack
	case 1:
		late = Instant(l.rnd.Int64N(int64(l.slack) + 1))
	}
	l.starts = append(l.starts, start{d - l.shift + late, cost})
	l.last = len(l.starts) - 1
}

func (l *life) step() {
	T := Instant(l.p.Rate.Interval().Microseconds()) + 1
	switch l.rnd.IntN(30) {
	case 0: // the rate or the burst is changed
		q := Pacer{Rate: randomRate(l.rnd), Burst: 1 + l.rnd.Int64N(5), Horizon: l.p.Horizon}
		l.b = l.p.Change(l.b, q, l.now())
		l.p = q
		l.regimes = append(l.regimes, regime{l.t, q})
	case 1: // back to an earlier rule
		q := l.regimes[l.rnd.IntN(len(l.regimes))].pacer
		l.b = l.p.Change(l.b, q, l.now())
		l.p = q
		l.regimes = append(l.regimes, regime{l.t, q})
	case 2: // a rest
		l.t += Instant(l.rnd.Int64N(int64(10*T) + 1))
	case 3: // the clock leaps ahead
		if l.rnd.IntN(4) == 0 {
			l.shift += Instant(l.rnd.Int64N(3600_000_000))
			l.jumps = append(l.jumps, l.t)
		}
	case 4: // the latest departure is given back unused
		if l.last >= 0 {
			l.starts = slices.Delete(l.starts, l.last, l.last+1)
			l.last = -1
			l.p.GiveBack(&l.b)
		}
	case 5: // the store restarts, having lost its last writes
		if l.rnd.IntN(4) == 0 {
			lost := Bucket{}
			if n := len(l.saved); n > 0 && l.rnd.IntN(3) > 0 {
				lost = l.saved[l.rnd.IntN(n)]
			}
			l.b = l.p.Delay(lost, l.now(), l.costs)
			l.last = -1
		}
	case 6:
		l.saved = append(l.saved, l.b)
	case 7, 8, 9, 10:
		l.t += Instant(l.rnd.Int64N(int64(T)) + 1)
	case 11, 12: // to just about the next departure
		l.t = max(l.t, l.p.Next(l.b, l.now())-l.shift-Instant(l.rnd.IntN(3)))
	default:
		l.take()
	}
}

// checkLaw counts the starts in every half-open window [a, a+W) of whole
// microseconds: at most ceil((W + slack)/T) + burst - 1 + c_max - 1 in units of
// cost. A leap of the clock looks like idleness, so that what follows is a new
// trace beside the one before it, whose granted departures reach H beyond: it
// adds ceil(H/T) + burst + c_max - 1.
func (l *life) checkLaw() error {
	s := slices.Clone(l.starts)
	slices.SortFunc(s, func(a, b start) int { return int(a.at - b.at) })
	H := Instant(l.p.Horizon.Microseconds())
	for i := range s {
		cost, in := int64(0), extremes{from: s[i].at - l.slack - H}
		for j := i; j < len(s) && j < i+60; j++ {
			cost += s[j].cost
			a, end := s[i].at, s[j].at+1 // the shortest window that holds i to j
			if in.reach(l.regimes, end); in.free {
				break
			}
			n, d, burst := in.n, in.d, in.burst
			W := end - a
			allowed := ceilDiv(int64(W+l.slack), n, d) + burst - 1 + l.costs - 1
			for _, at := range l.jumps {
				if at >= a-l.slack-H && at < end {
					allowed += ceilDiv(int64(H), n, d) + burst + l.costs - 1
				}
			}
			if cost > allowed {
				return fmt.Errorf(
					"cost %d starts in [%d, %d), the law allows %d (T = %d/%d, burst %d)", cost, a, end, allowed, d, n,
					burst,
				)
			}
		}
	}
	return nil
}

// extremes are the shortest interval d/n and the greatest burst in force from an instant on up to the one that was
// reached, and whether the rate was unlimited there.
type extremes struct {
	from        Instant
	n, d, burst int64
	free        bool
	seen        int // how many regimes
}

// reach looks at the regimes that begin before to, which is no earlier than the last time.
func (x *extremes) reach(regimes []regime, to Instant) {
	for ; x.seen < len(regimes) && regimes[x.seen].from < to; x.seen++ {
		if next := x.seen + 1; next < len(regimes) && regimes[next].from < x.from {
			continue // it was over
		}
		p := regimes[x.seen].pacer
		n, d := p.Rate.Fraction()
		if n == 0 {
			x.free = true
			return
		}
		if x.n == 0 || float64(d)/float64(n) < float64(x.d)/float64(x.n) {
			x.n, x.d = n, d
		}
		x.burst = max(x.burst, p.Burst)
	}
}

// ceilDiv is ceil(w / (d/n)), of a product of 128 bits; a quotient that needs more than 64 panics.
func ceilDiv(w, n, d int64) int64 {
	hi, lo := bits.Mul64(uint64(w), uint64(n))
	lo, carry := bits.Add64(lo, uint64(d-1), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(d))
	return int64(q)
}

func randomRate(rnd *rand.Rand) Rate {
	for {
		if r, err := NewRate(1+rnd.Int64N(200), time.Duration(1+rnd.Int64N(3_000_000))*time.Microsecond); err == nil {
			return r
		}
	}
}

func TestWindowLaw(t *testing.T) {
	traces := 4000
	if testing.Short() {
		traces = 400
	}
	total := 0
	for seed := range uint64(traces) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		p := Pacer{Rate: randomRate(rnd), Burst: 1 + rnd.Int64N(5), Horizon: 50 * time.Millisecond}
		if rnd.IntN(3) == 0 {
			p.Burst = 1
		}
		l := &life{rnd: rnd, p: p, t: 1_790_000_000_000_000, slack: Instant(rnd.Int64N(20_000)), costs: 1, last: -1}
		l.regimes = []regime{{l.t - 3600*sec, p}}
		if rnd.IntN(4) == 0 {
			l.regimes = append(
				l.regimes, regime{l.t - 1800*sec, Pacer{Burst: 2, Horizon: p.Horizon}}, regime{l.t - 900*sec, p},
			)
		}
		for range 400 {
			l.step()
		}
		total += len(l.starts)
		if err := l.checkLaw(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if total < 20*traces {
		t.Fatalf("only %d starts in %d traces: the traces say nothing", total, traces)
	}
}

// The law must be able to fail: a pacer that is one interval too generous is caught.
func TestWindowLawCatchesCheats(t *testing.T) {
	for name, cheat := range map[string]func(l *life){
		"a forgotten bucket": func(l *life) { l.b = Bucket{} },
		"a start before time": func(l *life) {
			l.starts[len(l.starts)-1].at -= Instant(l.p.Rate.Interval().Microseconds())
		},
		"a rate changed by hand": func(l *life) { l.p.Rate = PerSecond(1000) },
	} {
		l := &life{
			rnd: rand.New(rand.NewPCG(1, 1)), p: Pacer{Rate: PerSecond(10), Burst: 1, Horizon: 50 * time.Millisecond},
			t: 1_000 * sec, costs: 1,
		}
		l.regimes = []regime{{0, l.p}}
		for i := range 50 {
			l.t += 100 * ms
			if d, ok := l.p.Take(&l.b, l.now(), 1); ok {
				l.starts = append(l.starts, start{d, 1})
			}
			if i%10 == 9 {
				cheat(l)
				if d, ok := l.p.Take(&l.b, l.now()+50*ms, 1); ok {
					l.starts = append(l.starts, start{d, 1})
				}
			}
		}
		if l.checkLaw() == nil {
			t.Errorf("%s was not caught", name)
		}
	}
}

// fluid is the same rule written down a second time, with fractions of any size
// and no bound, no remainder and no rounding but the last.
type fluid struct {
	T     *big.Rat
	burst int64
	tat   *big.Rat
}

func newFluid(p Pacer) *fluid {
	n, d := p.Rate.Fraction()
	return &fluid{T: big.NewRat(d, n), burst: p.Burst, tat: new(big.Rat)}
}

// departure returns when a job leaves that is asked for at now, and take lets it.
func (f *fluid) departure(now Instant) Instant {
	credit := new(big.Rat).Mul(f.T, big.NewRat(f.burst-1, 1))
	at := new(big.Rat).Sub(f.tat, credit)
	up := new(big.Int).Add(at.Num(), new(big.Int).Sub(at.Denom(), big.NewInt(1)))
	up.Div(up, at.Denom()) // floor((num + den - 1)/den) is the ceiling
	return max(now, Instant(up.Int64()))
}

func (f *fluid) take(now Instant, cost int64) {
	if whole := big.NewRat(int64(now), 1); f.tat.Cmp(whole) < 0 {
		f.tat = whole
	}
	f.tat = new(big.Rat).Add(f.tat, new(big.Rat).Mul(f.T, big.NewRat(cost, 1)))
}

func TestAgainstFractions(t *testing.T) {
	granted := 0
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		p := Pacer{
			Rate: randomRate(rnd), Burst: 1 + rnd.Int64N(6), Horizon: time.Duration(rnd.IntN(100)) * time.Millisecond,
		}
		f := newFluid(p)
		var b Bucket
		now := 1_790_000_000 * sec
		for i := range 200 {
			cost := 1 + rnd.Int64N(5)
			want := f.departure(now)
			d, ok := p.Take(&b, now, cost)
			if ok != (want <= now.Add(p.Horizon)) || (ok && d != want) {
				t.Fatalf(
					"seed %d, take %d at %s burst %d: got %d, %v, fractions say %d", seed, i, p.Rate, p.Burst, d-now,
					ok, want-now,
				)
			}
			if ok {
				granted++
				f.take(now, cost)
			}
			switch rnd.IntN(4) {
			case 0:
				now = max(now, p.Next(b, now)-Instant(rnd.Int64N(3)))
			case 1:
				now += Instant(rnd.Int64N(2*p.Rate.Interval().Microseconds() + 2))
			case 2:
				if rnd.IntN(10) == 0 {
					now += Instant(rnd.Int64N(20*p.Rate.Interval().Microseconds() + 2))
				}
			}
		}
	}
	if granted < 20_000 {
		t.Fatalf("only %d departures", granted)
	}
}
