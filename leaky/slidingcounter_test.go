package leaky

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// A share is exact while the product fits a double, and otherwise off by at most one. left finds the instant at which
// it has fallen to the room to the microsecond.
func TestSharesAtTheirBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 37))
	corrected, inexact := 0, 0
	for range 100_000 {
		s := SlidingCounter{Max: MaxLimit, Period: micros(1 + rnd.Int64N(MaxPeriod.Microseconds()>>(3*rnd.IntN(10))))}
		period := s.Period.Microseconds()
		used, left := rnd.Int64N(MaxLimit+1)>>(3*rnd.IntN(10)), rnd.Int64N(period+1)
		if rnd.IntN(2) == 0 { // next to a whole number
			near := new(big.Int).Mul(big.NewInt(period), big.NewInt(rnd.Int64N(used+1)))
			left = min(period, near.Quo(near, big.NewInt(max(1, used))).Int64()+rnd.Int64N(2))
		}
		product := new(big.Int).Mul(big.NewInt(used), big.NewInt(left))
		want, rest := new(big.Int).QuoRem(product, big.NewInt(period), new(big.Int))
		if rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		off := s.share(used, left) - want.Int64()
		if off != 0 && product.BitLen() <= 53 || off < -1 || off > 1 {
			t.Fatalf("%d of %d, %d left: off by %d", used, period, left, off)
		}
		if off != 0 {
			inexact++
		}
		if used == 0 {
			continue
		}
		room := rnd.Int64N(used)
		found := s.left(used, room)
		if s.share(used, found) > room || s.share(used, found+1) <= room {
			t.Fatalf(
				"%d of %d falls to %d when %d are left: %d, a microsecond before %d", used, period, room, found,
				s.share(used, found), s.share(used, found+1),
			)
		}
		if found != int64(float64(room)*float64(period)/float64(used)) {
			corrected++
		}
	}
	if corrected == 0 || inexact == 0 {
		t.Errorf("%d corrected, %d inexact: never at the bounds", corrected, inexact)
	}
}
