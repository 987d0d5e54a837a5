package provider

import (
	"math"
	"math/rand/v2"
)

// The default distribution of the tokens of calls.
const (
	DefaultMedian = 400
	DefaultP99    = 6000
)

const z99 = 2.3263478740408408 // the 99th percentile of the standard normal distribution

// costs draws costs from a log-normal distribution.
type costs struct {
	random        *rand.Rand
	median, sigma float64
}

// newCosts returns the distribution with a median and a 99th percentile.
func newCosts(seed uint64, median, p99 int64) *costs {
	return &costs{
		random: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // a simulation
		median: float64(median), sigma: math.Log(float64(p99)/float64(median)) / z99,
	}
}

// draw returns the number of tokens of the next call, at least 1.
func (c *costs) draw() int64 {
	n := c.median * math.Exp(c.sigma*c.random.NormFloat64())
	return int64(math.Round(min(max(n, 1), MaxTokens)))
}
