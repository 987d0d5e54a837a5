package leaky

import (
	"math/rand/v2"
	"testing"
	"time"
)

// tokenTake is a take of an Allowance as an oracle knows it: what counts of it now, and what was added when it was
// corrected.
type tokenTake struct {
	at             Instant
	charged, count int64
	corrected      bool
}

// tokenOracle replays everything from the beginning: an exact bucket in which each take costs what it should have cost.
// All values are in n-ths of a microsecond since the first take.
type tokenOracle struct {
	rule  Allowance
	takes []tokenTake
}

// owed returns how far the bucket is from full at an instant.
func (o *tokenOracle) owed(at Instant) (n int64) {
	last := Instant(0)
	for _, k := range o.takes {
		n = max(0, n-int64(k.at-last)*o.rule.Rate.n) + k.count*o.rule.Rate.d
		last = k.at
	}
	return max(0, n-int64(at-last)*o.rule.Rate.n)
}

// law checks that in no window more counts than the bucket and its rate allow, apart from debts.
func (o *tokenOracle) law(t *testing.T, seed uint64) {
	t.Helper()
	for i := range o.takes {
		sum := int64(0)
		for _, k := range o.takes[i:] {
			sum += min(k.count, k.charged)
			if most := o.rule.Most((k.at - o.takes[i].at).Sub(0)); sum > most {
				t.Fatalf("seed %d: %d pass in %d us from take %d on, want at most %d", seed, sum, k.at-o.takes[i].at, i, most)
			}
		}
	}
}

// A corrected bucket never has more credit than if each take had cost its actual cost from the beginning. Mostly it has
// exactly that.
func TestAllowanceCorrections(t *testing.T) {
	exact, more, refused := 0, 0, 0
	for seed := range uint64(10_000) {
		rnd := rand.New(rand.NewPCG(seed, 33))
		a := Allowance{Rate: RateOf(1+rnd.Int64N(3), 1+rnd.Int64N(2000)), Burst: 1 + rnd.Int64N(100)}
		if a.Validate() != nil {
			continue
		}
		o, tally, now := &tokenOracle{rule: a}, a.Fresh(), Instant(1_790_000_000_000_000)
		span := a.Burst*a.Rate.d/a.Rate.n + 1
		for range 40 {
			if rnd.IntN(2) == 0 {
				now += Instant(rnd.Int64N(span/4 + 2))
			}
			i := rnd.IntN(len(o.takes) + 1)
			if rnd.IntN(2) == 0 || i == len(o.takes) || o.takes[i].corrected {
				cost := 1 + rnd.Int64N(a.Burst)
				if tally.Take(now, Ask{Cost: cost}).Allowed {
					o.takes = append(o.takes, tokenTake{at: now, charged: cost, count: cost})
				} else {
					refused++
				}
			} else {
				k := &o.takes[i]
				actual := []int64{0, rnd.Int64N(k.charged + 1), rnd.Int64N(2*a.Burst + 1)}[rnd.IntN(3)]
				d := tally.(Corrector).Correct(now, Correction{k.at, k.charged, actual})
				if d != tally.Peek(now, Ask{}) {
					t.Fatalf("seed %d: a correction answers %+v", seed, d)
				}
				k.corrected, k.count = true, min(k.charged, actual)
				if actual > k.charged {
					o.takes = append(o.takes, tokenTake{at: now, charged: 0, count: actual - k.charged, corrected: true})
				}
			}
			state, _ := tally.AppendBinary(nil)
			again, err := a.Restore(state)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			tally = again
			b := tally.(*spent).at(now)
			got, want := max(0, int64(b.TAT-now)*a.Rate.n+b.Rem), o.owed(now)
			switch {
			case got < want:
				t.Fatalf("seed %d: %+v owes %d, and should owe %d", seed, a, got, want)
			case got == want:
				exact++
			default:
				more++
			}
		}
		o.law(t, seed)
	}
	if exact < 10*more || refused < 10_000 {
		t.Errorf("%d exact, %d stricter, %d refused", exact, more, refused)
	}
}

func TestAllowanceTable(t *testing.T) {
	const t0 = 1_790_000_000 * sec
	fresh := func() *spent { return Allowance{PerSecond(10), 100}.Fresh().(*spent) }
	left := func(t *testing.T, tally Tally, at Instant, want int64) {
		t.Helper()
		d := tally.Peek(at, Ask{})
		if d.Allowed {
			d.Remaining++
		}
		if d.Remaining != want {
			t.Errorf("%d remain %v later, want %d: %+v", d.Remaining, at.Sub(t0), want, d)
		}
	}
	t.Run("a refund leaves what a lower charge would have left", func(t *testing.T) {
		tally := fresh()
		tally.Take(t0, Ask{Cost: 80})
		tally.Take(t0, Ask{Cost: 10})
		tally.Correct(t0+sec, Correction{t0, 80, 30})
		left(t, tally, t0+sec, 70)
	})
	t.Run("a refund of what has become available again gives nothing", func(t *testing.T) {
		tally := fresh()
		tally.Take(t0, Ask{Cost: 80})
		tally.Take(t0+8*sec, Ask{Cost: 100})
		tally.Correct(t0+8*sec, Correction{t0, 80, 0})
		left(t, tally, t0+8*sec, 0)
	})
	t.Run("a debt is paid before anything else passes", func(t *testing.T) {
		tally := fresh()
		tally.Take(t0, Ask{Cost: 100})
		tally.Correct(t0, Correction{t0, 100, 350})
		if d := tally.Take(t0, Ask{}); d.Allowed || d.RetryAfter != 25*time.Second+100*time.Millisecond ||
			d.ResetAfter != 35*time.Second {
			t.Errorf("got %+v", d)
		}
		left(t, tally, t0+30*sec, 50)
	})
	t.Run("an absurd cost blocks for a bounded time", func(t *testing.T) {
		for _, actual := range []int64{1e9, 1e18} {
			tally := Allowance{RateOf(1, 60e6), 5}.Fresh().(*spent)
			tally.Take(t0, Ask{})
			if d := tally.Correct(t0, Correction{t0, 1, actual}); d.RetryAfter > MaxBurstSpan || d.Allowed {
				t.Errorf("got %+v", d)
			}
		}
	})
	t.Run("other numbers forgive a debt beyond the burst, and refund nothing", func(t *testing.T) {
		tally := fresh()
		tally.Take(t0, Ask{Cost: 60})
		tally.Correct(t0, Correction{t0, 60, 500})
		state, _ := tally.AppendBinary(nil)
		other, err := Allowance{PerSecond(20), 100}.Restore(state)
		if err != nil {
			t.Fatal(err)
		}
		other.Take(t0+sec, Ask{}) // refused: the balance is of the new numbers from now on
		other.Take(t0+4*sec, Ask{Cost: 10})
		left(t, other, t0+4*sec, 50)
		other.(Corrector).Correct(t0+4*sec, Correction{t0, 60, 0})
		left(t, other, t0+4*sec, 50)
	})
	t.Run("what is given back without its take lowers later refunds", func(t *testing.T) {
		tally := fresh()
		tally.Take(t0, Ask{Cost: 50})
		tally.Take(t0, Ask{Cost: 50})
		tally.Refund(t0, Ask{Cost: 50})
		tally.Take(t0+1, Ask{Cost: 50})
		tally.Correct(t0+1, Correction{t0 - 1, 50, 0})
		left(t, tally, t0+1, 0)
	})
}
