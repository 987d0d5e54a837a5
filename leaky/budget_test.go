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
		var charges []int64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(p.Rate.Interval())*3+5000).Draw(t, "later")))
			e.advance(p, now)
			if len(charges) > 0 && rapid.IntRange(0, 2).Draw(t, "settle") == 0 {
				i := rapid.IntRange(0, len(charges)-1).Draw(t, "which")
				actual := drawUnits(t, "actual")
				p.Correct(&b, now, charges[i], actual)
				e.credit.Sub(e.credit, big.NewRat(actual-charges[i], 1))
				if e.credit.Cmp(big.NewRat(p.Burst, 1)) > 0 {
					e.credit.SetInt64(p.Burst)
				}
				charges = append(charges[:i], charges[i+1:]...)
				if b.TAT >= now+Instant(maxDebt) {
					return // debts are bounded
				}
				continue
			}
			cost := drawUnits(t, "cost")
			need := min(cost, p.Burst)
			if got, want := p.Affords(b, now, cost), e.has(need); got != want {
				t.Fatalf("affords %d is %v, want %v: credit %s", cost, got, want, e.credit.FloatString(6))
			}
			if !p.Affords(b, now, cost) {
				p.Want(&b, cost)
				d := p.Next(b, now)
				if d <= now || p.Affords(b, d-1, cost) || !p.Affords(b, d, cost) {
					t.Fatalf("the next departure of cost %d is in %v", cost, d.Sub(now))
				}
				now = d
				e.advance(p, now)
			}
			p.Take(&b, now, cost)
			e.credit.Sub(e.credit, big.NewRat(cost, 1))
			charges = append(charges, cost)
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
		type start struct {
			at   Instant
			cost int64
		}
		var starts []start
		for range rapid.IntRange(1, 40).Draw(t, "departures") {
			cost := drawUnits(t, "cost")
			if d := p.Next(b, now); d > now {
				now = d
			}
			if !p.Affords(b, now, cost) {
				p.Want(&b, cost)
				now = p.Next(b, now)
			}
			if now > 1_800_000_000_000_000 {
				break
			}
			p.Take(&b, now, cost)
			starts = append(starts, start{now, cost})
			if b.TAT >= now+Instant(maxDebt) {
				break // debts are bounded
			}
		}
		for i := range starts {
			sum := int64(0)
			for _, s := range starts[i:] {
				most := new(big.Rat).Mul(big.NewRat(int64(s.at-starts[i].at), 1), big.NewRat(p.Rate.n, p.Rate.d))
				most.Add(most, big.NewRat(p.Burst, 1))
				if got := sum + min(s.cost, p.Burst); most.Cmp(big.NewRat(got, 1)) < 0 {
					t.Fatalf("%d in %v at %s burst %d", got, s.at.Sub(starts[i].at), p.Rate, p.Burst)
				}
				sum += s.cost
			}
		}
	})
}

// A refund never makes more than the burst available, and a debt is paid before anything else leaves.
func TestBudgetRefundAndDebt(t *testing.T) {
	t.Parallel()
	p, now := Budget{Rate: PerSecond(10), Burst: 100}, Instant(1_790_000_000_000_000)
	var b Balance
	p.Take(&b, now, 1000)
	if d := p.Next(b, now); d != now.Add(90*time.Second) {
		t.Errorf("with a debt of 900 the next departs in %v", d.Sub(now))
	}
	p.Correct(&b, now, 1000, 50)
	if p.Used(b, now) != 50 {
		t.Errorf("used %d of the burst", p.Used(b, now))
	}
	p.Correct(&b, now, 1000, 0)
	if b.TAT != now || !p.Affords(b, now, 100) {
		t.Errorf("refunded twice: %+v", b)
	}
	ahead := now.Add(40 * time.Millisecond)
	p.Take(&b, ahead, 100)
	p.Correct(&b, now, 1000, 0)
	if p.Affords(b, now, 100) || b.TAT != ahead {
		t.Errorf("a departure ahead is paid from a refund: %+v", b)
	}
	b = Balance{TAT: now}
	p.Take(&b, now, 100)
	p.Correct(&b, now, 100, 1_000_000)
	if d := p.Next(b, now); d != now.Add(100_000*time.Second-10*time.Second) {
		t.Errorf("after an actual cost of a million the next departs in %v", d.Sub(now))
	}
	p.Correct(&b, now, 0, MaxUnits)
	p.Correct(&b, now, 0, MaxUnits)
	p.Correct(&b, now, 0, MaxUnits)
	p.Correct(&b, now, 0, MaxUnits)
	if b.TAT > now+Instant(maxDebt) {
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
		d := p.Next(b, now)
		if d < now || d > now.Add(MaxBurstSpan+time.Second) {
			t.Fatalf("opens at %d", d)
		}
		p.Want(&b, cost)
		if d = p.Next(b, now); !p.Affords(b, d, cost) {
			t.Fatalf("%+v does not afford %d at %d", b, cost, d)
		}
		p.Take(&b, d, cost)
		if b.TAT < d || b.TAT > d+Instant(maxDebt) {
			t.Fatalf("%+v after %d", b, d)
		}
		was := b
		p.Correct(&b, d, cost, 0)
		if b.TAT > was.TAT || b.TAT < d || b.Rem < 0 || b.Rem >= r.n {
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
		if q.Used(c, now) < min(p.Used(b, now), q.Used(Balance{TAT: now + Instant(maxDebt)}, now))-1 {
			t.Fatalf("used %d by %+v, then %d by %+v", p.Used(b, now), p, q.Used(c, now), q)
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
			d = max(d, units[k].Next(balances[k], now))
		}
		ok := true
		for k := range units {
			ok = ok && units[k].Affords(balances[k], d, cost)
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
