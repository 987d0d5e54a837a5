package leaky

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Limits of a rate. They keep every product of the pacer below 2^53, so that Lua, which only has doubles, computes the
// same.
const (
	MaxPerSecond = 1_000_000           // fastest limited rate: one departure per microsecond
	MaxInterval  = 31 * 24 * time.Hour // slowest rate: one departure in this time
	MaxCost      = 1_000               // maximum number of intervals a job may use up
	MaxBurst     = 1_000_000           // maximum number of departures back to back
	MaxBurstSpan = 365 * 24 * time.Hour

	maxNumerator   = 1_000_000_000
	maxDenominator = 1 << 53
)

// ErrRate is wrapped by every error about an unusable rate.
var ErrRate = errors.New("invalid rate")

// Rate is an exact outflow. The zero Rate is unlimited. Rates are comparable with ==.
type Rate struct {
	n, d int64 // n departures per d microseconds; n == 0 means unlimited
}

// Unlimited is the rate that delays no job.
var Unlimited = Rate{}

// PerSecond returns the rate of n departures per second. It panics if n is not between 1 and MaxPerSecond; for
// untrusted input use ParseRate.
func PerSecond(n int64) Rate {
	r, err := NewRate(n, time.Second)
	if err != nil {
		panic(err)
	}
	return r
}

// NewRate returns the rate of n departures per period, which must be whole microseconds.
func NewRate(n int64, period time.Duration) (Rate, error) {
	if n <= 0 {
		return Rate{}, fmt.Errorf(
			"%w: %d departures: must be at least 1 (to stop a queue, pause it)", ErrRate, n,
		)
	}
	if period <= 0 || period%time.Microsecond != 0 {
		return Rate{}, fmt.Errorf("%w: period %v: must be a positive number of whole microseconds", ErrRate, period)
	}
	return reduce(big.NewInt(n), big.NewInt(period.Microseconds()))
}

// ParseRate parses "14/s", "2/m", "1000/h", "5/d", "0.5/s", "1/250ms" or "unlimited". The unit is s, m, h, d or a Go
// duration.
func ParseRate(s string) (Rate, error) {
	const want = `want NUMBER/s, /m, /h, /d, NUMBER/DURATION such as 1/250ms, or "unlimited" where allowed`
	if s == "unlimited" {
		return Unlimited, nil
	}
	if len(s) > 64 {
		return Rate{}, fmt.Errorf("%w: %d characters long; %s", ErrRate, len(s), want)
	}
	num, unit, ok := strings.Cut(s, "/")
	if !ok || !isDecimal(num) {
		return Rate{}, fmt.Errorf("%w %q: %s", ErrRate, s, want)
	}
	n, ok := new(big.Rat).SetString(num)
	if !ok {
		return Rate{}, fmt.Errorf("%w %q: %s", ErrRate, s, want)
	}
	if n.Sign() <= 0 {
		return Rate{}, fmt.Errorf("%w %q: must be above zero (to stop a queue, pause it)", ErrRate, s)
	}
	per, err := parsePeriod(unit)
	if err != nil {
		return Rate{}, fmt.Errorf("%w %q: %s", ErrRate, s, want)
	}
	r, err := reduce(n.Num(), new(big.Int).Mul(n.Denom(), big.NewInt(per.Microseconds())))
	if err != nil {
		return Rate{}, fmt.Errorf("%q: %w", s, err)
	}
	return r, nil
}

func isDecimal(s string) bool {
	digits, dots := 0, 0
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			dots++
		case c == '-' && digits+dots == 0: // left to the check of the sign
		default:
			return false
		}
	}
	return digits > 0 && dots <= 1
}

func parsePeriod(unit string) (time.Duration, error) {
	switch unit {
	case "s":
		return time.Second, nil
	case "m":
		return time.Minute, nil
	case "h":
		return time.Hour, nil
	case "d":
		return 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(unit)
	if err != nil {
		return 0, err
	}
	if d < time.Microsecond || d%time.Microsecond != 0 {
		return 0, ErrRate
	}
	return d, nil
}

func reduce(n, d *big.Int) (Rate, error) {
	g := new(big.Int).GCD(nil, nil, n, d)
	n, d = new(big.Int).Quo(n, g), new(big.Int).Quo(d, g)
	limit := func(v *big.Int, by int64) *big.Int { return new(big.Int).Mul(v, big.NewInt(by)) }
	if limit(n, 1).Cmp(limit(d, MaxPerSecond/1_000_000)) > 0 {
		return Rate{}, fmt.Errorf(
			"%w: faster than the highest limited rate, %d/s; lower it, or use \"unlimited\" where allowed",
			ErrRate, MaxPerSecond,
		)
	}
	if limit(n, MaxInterval.Microseconds()).Cmp(d) < 0 {
		return Rate{}, fmt.Errorf("%w: slower than the lowest rate, 1/%v", ErrRate, MaxInterval)
	}
	if n.Cmp(big.NewInt(maxNumerator)) > 0 || d.Cmp(big.NewInt(maxDenominator)) > 0 {
		return Rate{}, fmt.Errorf("%w: too many digits; use a rounder number", ErrRate)
	}
	return Rate{n.Int64(), d.Int64()}, nil
}

// Unlimited reports whether r delays no job.
func (r Rate) Unlimited() bool { return r.n == 0 }

// Fraction returns r as n departures per d microseconds in lowest terms, or 0, 0 if r is unlimited. Engines store a
// rate in this form.
func (r Rate) Fraction() (n, d int64) { return r.n, r.d }

// Interval returns T, the time between departures, rounded to a nanosecond, or 0 if r is unlimited. For arithmetic
// that must not drift use a Pacer.
func (r Rate) Interval() time.Duration {
	if r.n == 0 {
		return 0
	}
	whole, rest := r.d/r.n, r.d%r.n
	return time.Duration(whole)*time.Microsecond + time.Duration((rest*1000+r.n/2)/r.n)
}

// times returns k x T in whole microseconds and the remaining n-ths of one. The rate must be limited, and k at most
// MaxBurst.
func (r Rate) times(k int64) (whole, rest int64) {
	rest = k * (r.d % r.n)
	return k*(r.d/r.n) + rest/r.n, rest % r.n
}

// Share returns r divided by parts, at least the lowest possible rate, and rounded down if it has too many digits. r
// must be limited, and parts at least 1.
func (r Rate) Share(parts int64) Rate {
	d := new(big.Int).Mul(big.NewInt(r.d), big.NewInt(parts))
	if share, err := reduce(big.NewInt(r.n), d); err == nil {
		return share
	}
	interval := new(big.Int).Div(d.Add(d, big.NewInt(r.n-1)), big.NewInt(r.n))
	if most := MaxInterval.Microseconds(); interval.Cmp(big.NewInt(most)) > 0 {
		return Rate{1, most}
	}
	return Rate{1, interval.Int64()}
}

// PerSecond returns the departures per second, for display and metrics, or 0 if r is unlimited.
func (r Rate) PerSecond() float64 {
	if r.n == 0 {
		return 0
	}
	return float64(r.n) / float64(r.d) * 1e6
}

// String returns the shortest form that ParseRate reads back as the same rate.
func (r Rate) String() string {
	if r.n == 0 {
		return "unlimited"
	}
	for _, u := range []struct {
		name string
		us   int64
	}{{"s", 1e6}, {"m", 60e6}, {"h", 3600e6}, {"d", 86400e6}} {
		if u.us%r.d == 0 {
			if k := u.us / r.d; r.n <= maxNumerator/k {
				return fmt.Sprintf("%d/%s", r.n*k, u.name)
			}
		}
	}
	return fmt.Sprintf("%d/%s", r.n, time.Duration(r.d)*time.Microsecond)
}

// MarshalText writes r as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses what ParseRate accepts.
func (r *Rate) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}

// Ratio returns the rate of n departures per d microseconds. It does not check its arguments.
func Ratio(n, d int64) Rate {
	a, b := n, d
	for b != 0 {
		a, b = b, a%b
	}
	return Rate{n / a, d / a}
}

// RateOf is the inverse of Fraction, for engines that read a stored rate. It does not check its arguments.
func RateOf(n, d int64) Rate { return Rate{n, d} }
