package boltq

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

const meterWindow = 10 * time.Second

// meter measures departures a second with two counters: those of the present
// window of 10 s and those of the one before. The older one counts with the
// share of it that is still within the last 10 s, as if its departures had been
// spread evenly: (prev x (1 - elapsed share) + cur) / 10.
type meter struct {
	start     leaky.Instant // of the present window
	cur, prev int64
}

func (m *meter) advance(now leaky.Instant) {
	switch age := now.Sub(m.start); {
	case age < meterWindow:
		return
	case age < 2*meterWindow:
		m.prev, m.cur = m.cur, 0
		m.start = m.start.Add(meterWindow)
	default:
		m.prev, m.cur = 0, 0
		m.start = now
	}
}

func (m *meter) add(now leaky.Instant, n int64) {
	m.advance(now)
	m.cur += n
	if m.cur < 0 { // given back after the window of the grant
		m.prev = max(0, m.prev+m.cur)
		m.cur = 0
	}
}

func (m *meter) rate(now leaky.Instant) float64 {
	m.advance(now)
	share := now.Sub(m.start).Seconds() / meterWindow.Seconds()
	return (float64(m.prev)*(1-share) + float64(m.cur)) / meterWindow.Seconds()
}
