package leaky

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawBudget draws a budget that Validate accepts.
func drawBudget(t *rapid.T) Budget {
	rate := rapid.SampledFrom([]string{
		"200000/m", "1000/m", "7/s", "1/h", "999983/s", "3.7/m", "5000000/d", "123.456/h", "1000000/s", "1/31ms",
	}).Draw(t, "rate")
	r, err := ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	p := Budget{Rate: r, Burst: rapid.SampledFrom([]int64{1, 2, 10, 1000, 8760, 20_000, MaxUnits}).Draw(t, "burst")}
	for p.Validate() != nil {
		p.Burst = max(1, p.Burst/10)
	}
	return p
}

func drawUnits(t *rapid.T, label string) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3), rapid.Int64Range(0, 5000), rapid.SampledFrom([]int64{20_000, 50_000}),
	).Draw(t, label)
}

// exactBalance is a balance in exact arithmetic: how much of the burst is there, and as of when.
type exactBalance struct {
	credit *big.Rat
	at     Instant
}

func (e *exactBalance) advance(p Budget, to Instant) {
	if to <= e.at {
		return
	}
	earned := big.NewRat(int64(to-e.at), 1)
	earned.Mul(earned, big.NewRat(p.Rate.n, p.Rate.d))
	if e.credit.Add(e.credit, earned); e.credit.Cmp(big.NewRat(p.Burst, 1)) > 0 {
		e.credit.SetInt64(p.Burst)
	}
	e.at = to
}

func (e *exactBalance) has(need int64) bool { return e.credit.Cmp(big.NewRat(need, 1)) >= 0 }

// A balance behaves as a bucket of tokens in exact arithmetic that fills at the rate up to the burst.
func TestBudgetIsABucketOfTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawBudget(t)
		now := Instant(1_790_000_000_000_000)
		var b Balance
		e := exactBalance{credit: big.NewRat(p.Burst, 1), at: now}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(p.Rate.Interval())*3+5000).Draw(t, "later")))
			e.advance(p, now)
			cost := drawUnits(t, "cost")
			need := min(cost, p.Burst)
			if got, want := p.Affords(&b, now, cost), e.has(need); got != want {
				t.Fatalf("affords %d is %v, want %v: credit %s", cost, got, want, e.credit.FloatString(6))
			}
			if !p.Affords(&b, now, cost) {
				p.Want(&b, cost)
				d := p.Next(&b, now)
				if d <= now || p.Affords(&b, d-1, cost) || !p.Affords(&b, d, cost) {
					t.Fatalf("the next departure of cost %d is in %v", cost, d.Sub(now))
				}
				now = d
				e.advance(p, now)
			}
			p.Take(&b, now, cost)
			e.credit.Sub(e.credit, big.NewRat(cost, 1))
			if b.TAT >= now+Instant(maxDebt) {
				return // debts are bounded
			}
			if b.Rem < 0 || b.Rem >= p.Rate.n || b.Wants != 0 {
				t.Fatalf("%+v", b)
			}
		}
	})
}

// In any window, the charged cost is at most rate x W + burst, but for what the last departure costs beyond the burst.
func TestBudgetLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawBudget(t)
		now := Instant(1_790_000_000_000_000)
		var b Balance
		var starts []charged
		for range rapid.IntRange(1, 40).Draw(t, "departures") {
			cost := drawUnits(t, "cost")
			if d := p.Next(&b, now); d > now {
				now = d
			}
			if !p.Affords(&b, now, cost) {
				p.Want(&b, cost)
				now = p.Next(&b, now)
			}
			if now > 1_800_000_000_000_000 {
				break
			}
			p.Take(&b, now, cost)
			starts = append(starts, charged{at: now, cost: cost})
			if b.TAT >= now+Instant(maxDebt) {
				break // debts are bounded
			}
		}
		checkLaw(t, p, starts)
	})
}

// charged is what a departure was charged, or a correction.
type charged struct {
	at      Instant
	cost    int64
	settled bool
}

// exactTAT is when the whole burst is available after all charges, as if every charge had been right at once.
func exactTAT(p Budget, charges []charged) *big.Rat {
	interval, tat := big.NewRat(p.Rate.d, p.Rate.n), new(big.Rat)
	for _, c := range charges {
		if at := big.NewRat(int64(c.at), 1); tat.Cmp(at) < 0 {
			tat = at
		}
		tat = new(big.Rat).Add(tat, new(big.Rat).Mul(interval, big.NewRat(c.cost, 1)))
	}
	return tat
}

// A refund leaves what would be there if the departure had been charged less; it never leaves more. Costs that turn out
// lower are within the law, too.
func TestBudgetCorrections(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawBudget(t)
		begun := Instant(1_790_000_000_000_000)
		now := begun
		var b Balance
		var charges []charged
		most, under := 0, false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(p.Rate.Interval())*3+5000).Draw(t, "later")))
			if i := rapid.IntRange(-len(charges)-1, len(charges)-1).Draw(t, "settle"); i >= 0 && !charges[i].settled {
				c := &charges[i]
				actual := drawUnits(t, "actual")
				p.Correct(&b, c.at, now, c.cost, actual)
				if c.settled = true; actual > c.cost {
					under = true
					charges = append(charges, charged{at: now, cost: actual - c.cost, settled: true})
				} else {
					c.cost = actual
				}
			} else {
				cost := drawUnits(t, "cost")
				p.Want(&b, cost)
				now = p.Next(&b, now)
				p.Take(&b, now, cost)
				charges = append(charges, charged{at: now, cost: cost})
			}
			if b.TAT >= now+Instant(maxDebt) || now > begun.Add(MaxBurstSpan) {
				return // debts are bounded
			}
			most = max(most, b.kept)
			tat := new(big.Rat).SetFrac64(b.Rem, p.Rate.n)
			tat.Add(tat, big.NewRat(int64(b.TAT), 1))
			exact := exactTAT(p, charges)
			late := new(big.Rat).Sub(tat, exact)
			if present := big.NewRat(int64(now), 1); exact.Cmp(present) <= 0 && tat.Cmp(present) <= 0 {
				continue // full
			}
			if late.Sign() < 0 {
				t.Fatalf("%s more is available than if all charges had been right at once", late.FloatString(3))
			}
			if few := big.NewRat(int64(len(charges)), 1); most < maxLows && late.Cmp(few) > 0 {
				t.Fatalf("the burst is there %s us late", late.FloatString(3))
			}
		}
		if !under {
			checkLaw(t, p, charges)
		}
	})
}

// checkLaw checks that in any window the cost is at most rate x W + burst, but for what the last one costs beyond the
// burst.
func checkLaw(t *rapid.T, p Budget, charges []charged) {
	for i := range charges {
		sum := int64(0)
		for _, c := range charges[i:] {
			most := new(big.Rat).Mul(big.NewRat(int64(c.at-charges[i].at), 1), big.NewRat(p.Rate.n, p.Rate.d))
			most.Add(most, big.NewRat(p.Burst, 1))
			if got := sum + min(c.cost, p.Burst); most.Cmp(big.NewRat(got, 1)) < 0 {
				t.Fatalf("%d in %v at %s burst %d", got, c.at.Sub(charges[i].at), p.Rate, p.Burst)
			}
			sum += c.cost
		}
	}
}

// What fills up anyway gains nothing from a refund, and a debt is paid before anything else leaves.
func TestBudgetRefundAndDebt(t *testing.T) {
	t.Parallel()
	p, begun := Budget{Rate: PerSecond(10), Burst: 100}, Instant(1_790_000_000_000_000)
	in := func(seconds int64) Instant { return begun + Instant(seconds*1_000_000) }
	var b Balance
	used := func(now Instant, want int64) {
		t.Helper()
		if got := p.Used(&b, now); got != want {
			t.Errorf("used %d of the burst, not %d: %+v", got, want, b)
		}
	}
	p.Take(&b, begun, 1000)
	if d := p.Next(&b, begun); d != in(90) {
		t.Errorf("with a debt of 900 the next departs in %v", d.Sub(begun))
	}
	p.Correct(&b, begun, begun, 1000, 50)
	used(begun, 50)

	b = Balance{}
	p.Take(&b, begun, 100)
	p.Take(&b, in(9), 90) // 10 are in use
	p.Correct(&b, begun, in(9), 100, 0)
	used(in(9), 90)

	b = Balance{}
	p.Take(&b, begun, 100)
	p.Take(&b, in(11), 80) // nothing was in use any more
	p.Correct(&b, begun, in(11), 100, 0)
	used(in(11), 80)

	b = Balance{}
	p.Take(&b, begun, 60)
	p.Take(&b, begun, 40)
	p.Correct(&b, begun, in(1), 60, 10)
	used(in(1), 40)
	b.NoRefunds(in(2))
	p.Correct(&b, begun, in(1), 40, 0)
	used(in(1), 40)

	b = Balance{}
	p.Take(&b, begun, 100)
	p.Correct(&b, begun, begun, 100, 1_000_000)
	if d := p.Next(&b, begun); d != in(100_000-10) {
		t.Errorf("after an actual cost of a million the next departs in %v", d.Sub(begun))
	}
	for range 4 {
		p.Correct(&b, begun, begun, 0, MaxUnits)
	}
	if b.TAT > begun+Instant(maxDebt) {
		t.Errorf("the debt has no bound: %+v", b)
	}
}

// Whatever is stored, a balance opens again.
func FuzzBudget(f *testing.F) {
	f.Add(int64(200_000), int64(60_000_000), int64(20_000), int64(1<<60), int64(-5), int64(1<<40), int64(1000))
	f.Fuzz(func(t *testing.T, n, us, burst, tat, rem, wants, cost int64) {
		r, err := NewRate(n, time.Duration(min(max(us, 0), 1<<52))*time.Microsecond)
		p := Budget{Rate: r, Burst: burst}
		if err != nil || p.Validate() != nil {
			t.Skip()
		}
		now, b := Instant(1_790_000_000_000_000), Balance{TAT: Instant(tat), Rem: rem, Wants: wants}
		b = p.Bounded(b, now)
		cost = min(max(cost, 0), MaxUnits)
		d := p.Next(&b, now)
		if d < now || d > now.Add(MaxBurstSpan+time.Second) {
			t.Fatalf("opens at %d", d)
		}
		p.Want(&b, cost)
		if d = p.Next(&b, now); !p.Affords(&b, d, cost) {
			t.Fatalf("%+v does not afford %d at %d", b, cost, d)
		}
		p.Take(&b, d, cost)
		if b.TAT < d || b.TAT > d+Instant(maxDebt) {
			t.Fatalf("%+v after %d", b, d)
		}
		was := b
		p.Correct(&b, d, d, cost, 0)
		if b.TAT > was.TAT || b.TAT < d-1 || b.Rem < 0 || b.Rem >= r.n {
			t.Fatalf("refunded from %+v to %+v", was, b)
		}
	})
}

// Neither a lower rate nor a higher burst lets anything out early.
func TestBudgetChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawBudget(t), drawBudget(t)
		now := Instant(1_790_000_000_000_000)
		var b Balance
		p.Take(&b, now, p.Burst)
		p.Take(&b, now, drawUnits(t, "debt"))
		c := p.Change(b, q, now)
		if q.Used(&c, now) < min(p.Used(&b, now), q.Used(&Balance{TAT: now + Instant(maxDebt)}, now))-1 {
			t.Fatalf("used %d by %+v, then %d by %+v", p.Used(&b, now), p, q.Used(&c, now), q)
		}
	})
}

func BenchmarkBudget(b *testing.B) {
	units := make([]Budget, 4)
	balances := make([]Balance, 4)
	for i := range units {
		units[i] = Budget{Rate: PerSecond(int64(1000 + 7*i)), Burst: 20_000}
	}
	costs := make([]int64, 1024)
	for i := range costs {
		costs[i] = rand.Int64N(6000)
	}
	now := Instant(1_790_000_000_000_000)
	b.ReportAllocs()
	for i := range b.N {
		d, cost := now, costs[i%len(costs)]
		for k := range units {
			d = max(d, units[k].Next(&balances[k], now))
		}
		ok := true
		for k := range units {
			ok = ok && units[k].Affords(&balances[k], d, cost)
		}
		if !ok {
			for k := range units {
				units[k].Want(&balances[k], cost)
			}
			now = now.Add(time.Second)
			continue
		}
		for k := range units {
			units[k].Take(&balances[k], d, cost)
		}
		now = d
	}
}
