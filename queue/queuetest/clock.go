package queuetest

import (
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Clock is the time of an engine under test. It advances only when moved, and may be moved back.
type Clock struct{ now atomic.Int64 }

// NewClock returns a clock set to noon of a fixed day.
func NewClock() *Clock {
	c := &Clock{}
	c.Set(leaky.Instant(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC).UnixMicro()))
	return c
}

// Now returns the clock's time; engines take it as Options.Now.
func (c *Clock) Now() leaky.Instant { return leaky.Instant(c.now.Load()) }

// Set moves the clock to t.
func (c *Clock) Set(t leaky.Instant) { c.now.Store(int64(t)) }

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Microseconds()) }
