package provider

import (
	"math"
	"math/rand/v2"
)

// The distribution of the tokens of calls.
const (
	medianTokens = 400
	p99Tokens    = 6000
	z99          = 2.3263478740408408 // the 99th percentile of the standard normal distribution
)

// costs draws costs from a log-normal distribution.
type costs struct{ random *rand.Rand }

func newCosts(seed uint64) *costs { return &costs{rand.New(rand.NewPCG(seed, 0))} } //nolint:gosec // a simulation

// draw returns the number of tokens of the next call, at least 1.
func (c *costs) draw() int64 {
	sigma := math.Log(float64(p99Tokens)/medianTokens) / z99
	n := medianTokens * math.Exp(sigma*c.random.NormFloat64())
	return int64(math.Round(min(max(n, 1), MaxTokens)))
}
