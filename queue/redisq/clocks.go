package redisq

import (
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
)

// shownClock is what a client that does not drain knows of a partition's clock: what it showed to a call, and when that
// was sent. While no drainer vouches for the clock, it would stand still, and then jump: what rules allowed meanwhile
// would be forgotten at once. By the client's monotonic clock it runs on.
type shownClock struct {
	mu   sync.Mutex
	now  leaky.Instant
	sent time.Time
}

// drift is the maximum relative drift of two clocks; see departure.Clock.
const drift = 1000e-6

// latest returns the last instant that the clock can show at a local one, or "" if nothing is known.
func (c *shownClock) latest(at time.Time) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == 0 {
		return ""
	}
	return int64(c.now.Add(time.Duration(float64(at.Sub(c.sent)) * (1 + drift))))
}

// observe records what the clock showed to a call. Of calls that overlap, the one sent last says most.
func (c *shownClock) observe(now leaky.Instant, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now > 0 && sent.After(c.sent) {
		c.now, c.sent = now, sent
	}
}
