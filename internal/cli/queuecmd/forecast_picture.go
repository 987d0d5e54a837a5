package queuecmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/plot"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

// Styles, as parameters of SGR sequences.
const (
	styleHead                      = "1"
	styleFaint                     = "2"
	styleSelected                  = "7"
	styleWrong                     = "31"
	styleWarning                   = "33"
	styleArrivals                  = "34"
	styleDepartures, styleForecast = "32", "36"
)

const (
	// pictureRows is the height of a picture, without its axis.
	pictureRows = 13
	// leastPart is the minimum part of the width for the past and for the future, which may then differ in scale.
	leastPart = 0.2
)

// newell is the picture of a queue: how many jobs arrived and departed up to each instant, and the forecast. The
// vertical distance of the lines is the number of jobs in the queue, the horizontal distance their delay.
type newell struct {
	from, now, to                  time.Time
	split                          float64 // where now is, as a part of the width
	all                            float64 // jobs that have arrived
	top                            float64 // highest value
	arrivals, departures, forecast []timed
}

// timed is a point of a line.
type timed struct {
	at    time.Time
	value float64
}

// newellOf returns the picture of the past and of the forecast. The curves may be nil.
func newellOf(c *wire.Curves, f *wire.QueueForecast) *newell {
	p := &newell{from: f.Now, now: f.Now, to: f.Now}
	last := timed{at: f.Now} // of the departures
	if c != nil {
		for _, point := range c.Points {
			at := point.At
			if at.After(f.Now) { // the clock of the store may be behind the clock of the server
				at = f.Now
			}
			p.arrivals = append(p.arrivals, timed{at, float64(point.Arrived)})
			p.departures = append(p.departures, timed{at, float64(point.Left)})
		}
		if n := len(p.departures); n > 0 {
			p.from, last.value = p.departures[0].at, p.departures[n-1].value
		}
	}
	p.departures = append(p.departures, last)
	depth := 0.0
	if len(f.Bends) > 0 {
		depth = f.Bends[0].Remaining
		p.to = f.Bends[len(f.Bends)-1].At
	}
	if f.FinishAt == nil {
		p.to = p.to.Add(max(p.to.Sub(p.now)/4, p.now.Sub(p.from)/3, time.Minute))
	}
	p.all = last.value + depth
	if n := len(p.arrivals); n > 0 { // the reading of the past is a few seconds older or newer
		p.all = max(p.all, p.arrivals[n-1].value)
	}
	p.arrivals = append(p.arrivals, timed{p.now, p.all}, timed{p.to, p.all})
	for _, b := range f.Bends {
		p.forecast = append(p.forecast, timed{b.At, p.all - b.Remaining})
	}
	if n := len(p.forecast); n > 0 && f.FinishAt == nil {
		p.forecast = append(p.forecast, timed{p.to, p.forecast[n-1].value})
	}
	for _, point := range slices.Concat(p.arrivals, p.departures) {
		p.top = max(p.top, point.value)
	}
	past, future := p.now.Sub(p.from).Seconds(), p.to.Sub(p.now).Seconds()
	switch {
	case past <= 0:
		p.split = 0
	case future <= 0:
		p.split = 1
	default:
		p.split = min(max(past/(past+future), leastPart), 1-leastPart)
	}
	return p
}

// x returns where an instant is, as a part of the width.
func (p *newell) x(at time.Time) float64 {
	if at.After(p.now) {
		return p.split + (1-p.split)*at.Sub(p.now).Seconds()/p.to.Sub(p.now).Seconds()
	}
	if past := p.now.Sub(p.from).Seconds(); past > 0 {
		return p.split * at.Sub(p.from).Seconds() / past
	}
	return p.split
}

func (p *newell) points(line []timed) []plot.Point {
	points := make([]plot.Point, len(line))
	for n, point := range line {
		points[n] = plot.Point{X: p.x(point.at), Y: point.value / p.top}
	}
	return points
}

// pictureText draws arrivals, departures and the forecast, with the numbers of its bends. It is empty if there is
// nothing to draw.
func pictureText(s *command.Screen, c *wire.Curves, f *wire.QueueForecast) string {
	p := newellOf(c, f)
	if p.top < 1 || !p.to.After(p.from) {
		return ""
	}
	labels := map[int]string{0: amount(p.top), pictureRows / 2: amount(p.top / 2), pictureRows - 1: "0"}
	margin := max(len(labels[0]), len(labels[pictureRows/2]))
	upright, corner, flat := "|", "+", "-"
	if s.Unicode {
		upright, corner, flat = "│", "└", "─"
	}
	width := max(10, s.Width-margin-2)
	canvas := plot.New(width, pictureRows, s.Unicode)
	canvas.Line(p.points(p.arrivals), plot.Pen{Mark: '+', Style: styleArrivals})
	canvas.Line(p.points(p.forecast), plot.Pen{Mark: '.', Style: styleForecast, Dotted: true})
	canvas.Line(p.points(p.departures), plot.Pen{Mark: '*', Style: styleDepartures})
	now, _ := canvas.Cell(plot.Point{X: p.split})
	for y := range pictureRows * min(1, now) { // not over the axis
		canvas.Under(now, y, []rune(upright)[0], styleFaint)
	}
	taken := map[int]bool{}
	bends, _ := shownBends(f)
	for n, b := range bends {
		x, y := canvas.Cell(p.points([]timed{{b.At, p.all - b.Remaining}})[0])
		if n > 0 && !taken[x] {
			taken[x] = true
			canvas.Write(x, y, bendMark(n), styleHead)
		}
	}
	var b strings.Builder
	for y, row := range canvas.Rows(s.Color) {
		fmt.Fprintf(&b, "%*s %s%s\n", margin, labels[y], s.Styled(upright, styleFaint), row)
	}
	b.WriteString(strings.Repeat(" ", margin+1) + s.Styled(corner+strings.Repeat(flat, width), styleFaint) + "\n")
	b.WriteString(strings.Repeat(" ", margin+2) + p.axis(width, now) + "\n")
	b.WriteString(strings.Repeat(" ", margin+2) + show.Cut(legend(s), width) + "\n")
	return b.String()
}

// axis returns the line with the times. now is the column of the present.
func (p *newell) axis(width, now int) string {
	line := []rune(strings.Repeat(" ", width))
	put := func(at int, text string) {
		at = max(0, min(at, width-len(text)))
		if end := at + len(text); end <= width && strings.TrimSpace(string(line[max(0, at-1):min(width, end+1)])) == "" {
			copy(line[at:], []rune(text))
		}
	}
	here := "now " + show.Clock(&p.now, p.now)
	put(now-len(here)/2, here)
	if p.from.Before(p.now) {
		put(0, "-"+show.Duration(p.now.Sub(p.from)))
	}
	if p.to.After(p.now) {
		put(width, "+"+show.Duration(p.to.Sub(p.now)))
	}
	return strings.TrimRight(string(line), " ")
}

// legend explains the lines.
func legend(s *command.Screen) string {
	arrivals, departures, forecast := "+ arrivals", "* departures", ". forecast"
	if s.Unicode {
		arrivals, departures, forecast = "upper line: arrivals", "lower line: departures", "dotted: forecast"
	}
	return s.Styled(arrivals, styleArrivals) + "  " + s.Styled(departures, styleDepartures) + "  " +
		s.Styled(forecast, styleForecast)
}

// amount returns a number of jobs in at most 6 characters.
func amount(v float64) string {
	switch {
	case v < 99_999.5:
		return fmt.Sprintf("%.0f", v)
	case v < 9_999_500:
		return fmt.Sprintf("%.0fk", v/1e3)
	}
	return fmt.Sprintf("%.0fM", v/1e6)
}

// maxShownBends is the maximum number of bends in the list below a picture.
const maxShownBends = 20

// shownBends returns the bends to list, the first ones, and how many more there are. Two bends that people cannot tell
// apart, such as jobs that leave at once, are one.
func shownBends(f *wire.QueueForecast) (list []wire.Bend, more int) {
	for n := range f.Bends {
		b := f.Bends[n]
		if k := len(list) - 1; k >= 0 && n+1 < len(f.Bends) && b.At.Sub(list[k].At) < time.Second && b.Drained == "" &&
			b.Why == list[k].Why && b.Reason == list[k].Reason {
			list[k].Rate, list[k].Until = b.Rate, b.Until
			continue
		}
		list = append(list, b)
	}
	if more = len(list) - maxShownBends; more > 0 {
		return list[:maxShownBends], more
	}
	return list, 0
}

// bendMark returns the mark of a bend in the picture and in the list: none for the first, which is now, then 1 to 9 and
// letters.
func bendMark(n int) rune { return rune(" 123456789abcdefghij"[n]) }

// bendsText lists the bends of a forecast, within a width.
func bendsText(f *wire.QueueForecast, width int) string {
	clock := func(at *time.Time) string { return show.Clock(at, f.Now) }
	t := command.NewTable("", ">IN", "AT", ">LEFT", ">PER S")
	bends, more := shownBends(f)
	for n := range bends {
		b := &bends[n]
		t.Row(
			string(bendMark(n)), show.Duration(b.At.Sub(f.Now)), clock(&b.At), show.Int(int64(math.Ceil(b.Remaining))),
			fmt.Sprintf("%.4g", b.Rate),
		)
	}
	lines := strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
	margin := 0
	for _, line := range lines {
		margin = max(margin, utf8.RuneCountInString(line)+2)
	}
	var text strings.Builder
	for n, line := range lines {
		because := "BECAUSE"
		if n > 0 {
			because = becauseText(&bends[n-1], clock)
		}
		text.WriteString(hanging(line, because, margin, width))
	}
	if more > 0 {
		fmt.Fprintf(&text, "and %d more, the last at %s; -o json has all\n", more, clock(&f.Bends[len(f.Bends)-1].At))
	}
	return text.String()
}

// hanging returns a text behind a head, wrapped and indented to fit into a width.
func hanging(head, text string, margin, width int) string {
	var b strings.Builder
	for _, part := range append(show.Wrapped(text, max(20, width-margin)), "") {
		if part != "" || head != "" {
			line := head + strings.Repeat(" ", max(0, margin-utf8.RuneCountInString(head))) + part
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		head = ""
	}
	return b.String()
}
