package boltq

import "github.com/penstock/penstock/leaky"

// clock is the engine's clock: it follows a source that may jump and never runs
// back itself. It is guarded by the engine's mutex.
type clock struct {
	source func() leaky.Instant
	offset leaky.Instant // grows by what the source jumped back
	last   leaky.Instant
}

func (c *clock) now() leaky.Instant {
	t := c.source() + c.offset
	if t < c.last {
		c.offset += c.last - t
		t = c.last
	}
	c.last = t
	return t
}
