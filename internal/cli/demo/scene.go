package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
)

// snapshot is the state at one instant.
type snapshot struct {
	at       time.Duration // since the start
	now      time.Duration // on the receiver's clock
	held     int64
	capacity int64
	rate     leaky.Rate
	offered  int
	accepted int
	setAside int   // of those, deferred
	deferred int64 // now
	refused  int
	waiting  int // with the producers, to be sent
	arrivals []receiver.Arrival
}

// Scene is a snapshot with rates.
type Scene struct {
	snapshot
	Inflow, Out, Refusals float64 // per second, over the last second
}

// film keeps the snapshots of the last second.
type film struct{ frames []snapshot }

func (f *film) scene(s snapshot) Scene {
	f.frames = append(f.frames, s)
	for len(f.frames) > 2 && s.at-f.frames[1].at >= time.Second {
		f.frames[0] = snapshot{} // free its arrivals
		f.frames = f.frames[1:]
	}
	old := f.frames[0]
	out := Scene{snapshot: s}
	if span := (s.at - old.at).Seconds(); span > 0 {
		out.Inflow = float64(s.accepted-old.accepted) / span
		out.Refusals = float64(s.refused-old.refused) / span
		out.Out = float64(len(s.arrivals)-len(old.arrivals)) / span
	}
	return out
}

// Elapsed is the time since the demo started.
func (s *Scene) Elapsed() time.Duration { return s.at }

// Line returns the scene in one line.
func (s *Scene) Line() string {
	return fmt.Sprintf("%4.1fs  queue %2d/%d %s  in %4.1f/s  refused %3d (%4.1f/s)  deferred %3d  out %4.1f/s  "+
		"delivered %d of %d",
		s.at.Seconds(), s.held, s.capacity, s.bar(20), s.Inflow, s.refused, s.Refusals, s.deferred, s.Out, len(s.arrivals),
		s.accepted)
}

// Draw returns the scene in Height lines for a terminal of a width.
func (s *Scene) Draw(width int) string {
	var b strings.Builder
	wide := min(max(width-44, 10), 50)
	fmt.Fprintf(
		&b, "  producers  offered %4d   accepted %4d  %5.1f/s   refused %4d  %5.1f/s   to send %d\n", s.offered,
		s.accepted, s.Inflow, s.refused, s.Refusals, s.waiting,
	)
	fmt.Fprintf(&b, "  queue      %s %2d of %d\n", s.bar(wide), s.held, s.capacity)
	fmt.Fprintf(
		&b, "  overflow   %s %d deferred, %d of %d readmitted\n", pile(s.deferred, wide), s.deferred,
		int64(s.setAside)-s.deferred, s.setAside,
	)
	fmt.Fprintf(&b, "  outflow    %5.1f/s, configured %s\n", s.Out, s.rate)
	fmt.Fprintf(&b, "  receiver   %s one column per %v\n", s.strip(wide), s.rate.Interval())
	fmt.Fprintf(&b, "  delivered  %4d   after %4.1f s\n", len(s.arrivals), s.at.Seconds())
	return b.String()
}

// Height is the number of lines that Draw returns.
const Height = 6

func (s *Scene) bar(width int) string {
	full := 0
	if s.capacity > 0 {
		full = int(min(s.held*int64(width)/s.capacity, int64(width)))
	}
	return "[" + strings.Repeat("█", full) + strings.Repeat("░", width-full) + "]"
}

// pile draws the deferred messages, one block for five.
func pile(deferred int64, width int) string {
	full := int(min((deferred+4)/5, int64(width)))
	return " " + strings.Repeat("▒", full) + strings.Repeat(" ", width-full) + " "
}

// strip draws the latest arrivals, one column per interval T: a dot for none, a tick for one, a digit for more.
func (s *Scene) strip(width int) string {
	counts := make([]int, width)
	interval := s.rate.Interval()
	if interval <= 0 || len(s.arrivals) == 0 {
		return strings.Repeat("·", width)
	}
	// Columns are aligned to the first arrival, half an interval to each side. Otherwise a steady flow would flicker.
	origin := s.arrivals[0].At - interval/2
	last := int((s.now - origin) / interval)
	for i := len(s.arrivals) - 1; i >= 0; i-- {
		column := width - 1 - (last - int((s.arrivals[i].At-origin)/interval))
		if column < 0 {
			break
		}
		if column < width {
			counts[column]++
		}
	}
	var b strings.Builder
	for _, n := range counts {
		switch {
		case n == 0:
			b.WriteRune('·')
		case n == 1:
			b.WriteRune('|')
		case n < 10:
			fmt.Fprintf(&b, "%d", n)
		default:
			b.WriteRune('+')
		}
	}
	return b.String()
}
