package leaky

import "time"

// TokenBucket holds up to Capacity tokens, refilled at Rate, and allows a take if it has as many tokens as it costs
// (RFC 2697 and 2698; S. Shenker, C. Partridge, R. Guerin, RFC 2212). It is the mirror image of a Meter: one is as
// full as the other is empty, and Decision.Remaining is the number of whole tokens. A Meter with burst Capacity
// implements it, with the same guarantees, worst burst, memory and state.
type TokenBucket struct {
	Rate     Rate  // limited
	Capacity int64 // 1 to MaxBurst
}

// Meter returns the Meter that implements t.
func (t TokenBucket) Meter() Meter { return Meter{Rate: t.Rate, Burst: t.Capacity} }

// AlgorithmTokenBucket is the name of TokenBucket.
const AlgorithmTokenBucket Algorithm = "token_bucket"

// Algorithm implements Limiter.
func (t TokenBucket) Algorithm() Algorithm { return AlgorithmTokenBucket }

// Validate implements Limiter.
func (t TokenBucket) Validate() error { return t.Meter().validate("capacity", MaxBurst) }

// Limit implements Limiter. It returns Capacity.
func (t TokenBucket) Limit() int64 { return t.Capacity }

// Most implements Limiter.
func (t TokenBucket) Most(w time.Duration) int64 { return t.Meter().Most(w) }

// Fresh implements Limiter.
func (t TokenBucket) Fresh() Tally { return t.Meter().Fresh() }

// Restore implements Limiter.
func (t TokenBucket) Restore(b []byte) (Tally, error) { return t.Meter().Restore(b) }
