package provider

import "time"

// law checks the window law at a rate: in any window of length W, at most ceil((W + slack)/T) calls arrive, with T as
// the rate's interval. slack is the least that holds for all windows.
type law struct {
	interval time.Duration
	turn     time.Time // when the next call arrives, if all come as early as the rate and the calls so far allow
	slack    time.Duration
}

func (l *law) arrived(at time.Time) {
	if l.turn.Before(at) {
		l.turn = at
	}
	l.slack = max(l.slack, l.turn.Sub(at))
	l.turn = l.turn.Add(l.interval)
}

// most counts the most that came in any window of a length. Its memory is limited: beyond maxParts parts in a window,
// it joins parts, so the count may be too high, but never too low.
type most struct {
	window time.Duration
	parts  []part // of the latest window, oldest first
	sum    int64
	most   int64
}

type part struct {
	at time.Time
	n  int64
}

const maxParts = 1 << 16

func (m *most) add(at time.Time, n int64) {
	old := 0
	for old < len(m.parts) && at.Sub(m.parts[old].at) >= m.window {
		m.sum -= m.parts[old].n
		old++
	}
	m.parts = m.parts[old:] // append reallocates it now and then
	if last := len(m.parts) - 1; last+1 >= maxParts {
		m.parts[last].n += n
		m.parts[last].at = at
	} else {
		m.parts = append(m.parts, part{at, n})
	}
	m.sum += n
	m.most = max(m.most, m.sum)
}
