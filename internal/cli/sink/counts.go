package sink

import (
	"maps"
	"sync"
	"time"
)

// Totals counts what arrived.
type Totals struct {
	Requests int64            `json:"requests"`
	Answers  map[string]int64 `json:"answers"` // by Request.Answer
	Refused  int64            `json:"refused"` // connections
	// MostInASecond is the maximum number of requests in any second.
	MostInASecond int           `json:"most_in_a_second"`
	For           time.Duration `json:"-"` // from the first request to the last
}

type counts struct {
	mu          sync.Mutex
	sum         Totals
	first, last time.Time
	second      []time.Time // arrivals of the latest second, oldest first
}

// maxSecond is the maximum number of arrivals to remember for a second.
const maxSecond = 1 << 17

func newCounts() *counts { return &counts{sum: Totals{Answers: map[string]int64{}}} }

func (c *counts) arrived(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum.Requests++; c.first.IsZero() {
		c.first = at
	}
	c.last = at
	old := 0
	for old < len(c.second) && at.Sub(c.second[old]) >= time.Second {
		old++
	}
	c.second = c.second[old:] // append reallocates it now and then
	if len(c.second) < maxSecond {
		c.second = append(c.second, at)
	}
	c.sum.MostInASecond = max(c.sum.MostInASecond, len(c.second))
}

// answered counts an answer and shows it, one at a time.
func (c *counts) answered(answer string, show func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Answers[answer]++
	show()
}

func (c *counts) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Refused++
}

func (c *counts) totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.sum
	t.Answers, t.For = maps.Clone(c.sum.Answers), c.last.Sub(c.first)
	return t
}
