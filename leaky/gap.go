package leaky

import "time"

// Gap allows a take if the previous one was at least Least ago. It is a Meter with burst 1 and rate 1/Least: exact,
// with one instant of memory, and without bursts.
type Gap struct {
	Least time.Duration // MinPeriod to MaxInterval
}

// Meter returns the Meter that implements g.
func (g Gap) Meter() Meter { return Meter{Rate: RateOf(1, g.Least.Microseconds()), Burst: 1} }

// AlgorithmGap is the name of Gap.
const AlgorithmGap Algorithm = "gap"

// Algorithm implements Limiter.
func (g Gap) Algorithm() Algorithm { return AlgorithmGap }

// Validate implements Limiter.
func (g Gap) Validate() error { return checkPeriod("least", g.Least, MinPeriod, MaxInterval) }

// Limit implements Limiter. It returns 1.
func (g Gap) Limit() int64 { return 1 }

// Most implements Limiter.
func (g Gap) Most(w time.Duration) int64 { return g.Meter().Most(w) }

// Fresh implements Limiter.
func (g Gap) Fresh() Tally { return g.Meter().Fresh() }

// Restore implements Limiter.
func (g Gap) Restore(b []byte) (Tally, error) { return g.Meter().Restore(b) }
