package leaky

import (
	"encoding/binary"
	"time"
)

// FixedWindow allows a cost of Max in each window [k x Period, (k+1) x Period) since the Unix epoch: days are UTC
// days, and weeks begin on Thursdays. It counts exactly.
//
// Worst burst: 2 x Max at once, half of it just before the end of a window and half just after it. Never more than
// (k+1) x Max over k periods.
//
// Memory: one instant and one count.
type FixedWindow struct {
	Max    int64         // 1 to MaxLimit
	Period time.Duration // MinPeriod to MaxPeriod
}

// AlgorithmFixedWindow is the name of FixedWindow.
const AlgorithmFixedWindow Algorithm = "fixed_window"

// stateFixedWindow is the first byte of its states.
const stateFixedWindow = 'f'

// Algorithm implements Limiter.
func (f FixedWindow) Algorithm() Algorithm { return AlgorithmFixedWindow }

// Validate implements Limiter.
func (f FixedWindow) Validate() error {
	if err := checkMax("max", f.Max, MaxLimit); err != nil {
		return err
	}
	return checkPeriod("period", f.Period, MinPeriod, MaxPeriod)
}

// Limit implements Limiter. It returns Max.
func (f FixedWindow) Limit() int64 { return f.Max }

// Most implements Limiter. It returns Max for each window that w may touch.
func (f FixedWindow) Most(w time.Duration) int64 {
	return mulDiv(f.Max, int64((w+f.Period-1)/f.Period+1), 1)
}

// Take does what Tally.Take does.
func (f FixedWindow) Take(w *Window, now Instant, cost int64) Decision {
	after, d := f.decide(*w, now, cost)
	*w = after
	return d
}

// Peek does what Tally.Peek does.
func (f FixedWindow) Peek(w Window, now Instant, cost int64) Decision {
	_, d := f.decide(w, now, cost)
	return d
}

// Refund does what Tally.Refund does. Takes of earlier windows are given back to the present one.
func (f FixedWindow) Refund(w *Window, now Instant, cost int64) Decision {
	*w = f.at(*w, now)
	w.Used -= min(max(cost, 0), w.Used)
	return f.Peek(*w, now, 1)
}

// Expires does what Tally.Expires does.
func (f FixedWindow) Expires(w Window, now Instant) Instant {
	if w = f.at(w, now); w.Used > 0 {
		return w.Ends
	}
	return now
}

// decide returns the answer and the state after it.
func (f FixedWindow) decide(w Window, now Instant, cost int64) (Window, Decision) {
	w = f.at(w, now)
	d := Decision{Limit: f.Max}
	if cost >= 1 && cost <= f.Max {
		if w.Used+cost <= f.Max {
			d.Allowed = true
			w.Used += cost
		} else {
			d.RetryAfter = w.Ends.Sub(now)
		}
	}
	d.Remaining = max(0, f.Max-w.Used)
	if w.Used > 0 {
		d.ResetAfter = w.Ends.Sub(now)
	}
	return w, d
}

// at returns w as of now. A count of the coming window, as left by a clock that ran back, counts for the present one.
// Any other window is over, has another Period or was planted, and counts for nothing.
func (f FixedWindow) at(w Window, now Instant) Window {
	period := Instant(f.Period.Microseconds())
	end := now + period - floorMod(now, period)
	if w.Ends != end && w.Ends != end+period {
		return Window{Ends: end}
	}
	return Window{Ends: end, Used: min(max(w.Used, 0), MaxLimit)}
}

// Fresh implements Limiter.
func (f FixedWindow) Fresh() Tally { return &windowed{rule: f} }

// Restore implements Limiter. The first use drops the count of a window with another Period.
func (f FixedWindow) Restore(b []byte) (Tally, error) {
	r := readState(b, stateFixedWindow)
	w := Window{Ends: r.instant(), Used: r.number(0, MaxLimit)}
	return r.end(f, &windowed{rule: f, window: w})
}

type windowed struct {
	rule   FixedWindow
	window Window
}

func (t *windowed) Take(now Instant, a Ask) Decision { return t.rule.Take(&t.window, now, a.cost()) }
func (t *windowed) Peek(now Instant, a Ask) Decision { return t.rule.Peek(t.window, now, a.cost()) }
func (t *windowed) Refund(now Instant, a Ask) Decision {
	return t.rule.Refund(&t.window, now, a.cost())
}
func (t *windowed) Expires(now Instant) Instant { return t.rule.Expires(t.window, now) }

func (t *windowed) Clone() Tally {
	c := *t
	return &c
}

func (t *windowed) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendVarint(append(b, stateFixedWindow), int64(t.window.Ends))
	return binary.AppendVarint(b, t.window.Used), nil
}
