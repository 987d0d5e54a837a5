package console

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// layout is where the labels of a picture are for plots of at least a width. The style sheet shows the layout of its
// Class if that width is available, so that labels never overlap.
type layout struct {
	Class string
	High  float64 // pixels above the plot
	Flags []placed
	Ticks []tick
	width float64
	rows  int
}

// layouts returns the layouts without their labels. The style sheet has the same widths.
func layouts() []layout {
	return []layout{
		{Class: "fit-full", width: 1180, rows: 5},
		{Class: "fit-wide", width: 840, rows: 5},
		{Class: "fit-mid", width: 500, rows: 5},
		{Class: "fit-narrow", width: 264, rows: 6},
	}
}

// flag is a label with a line down to its place on a curve.
type flag struct {
	at   spot
	text string
	kind string // mark, bend, done, never or tried
	rank int    // those with lower ranks are placed first
}

// placed is a flag with its place: X in percent of the width, the others in pixels.
type placed struct {
	X      string
	End    bool    // the text is to the left of the line
	Base   float64 // of the text, from the top of the flags
	Foot   float64 // end of the line, from the top of the plot
	Text   string
	Kind   string
	Cut    bool // Text is shortened; Whole is not
	Whole  string
	px     float64
	lo, hi float64 // of the text, in pixels of the layout
	row    int
}

// Top returns where the line begins, from the top of the flags.
func (p placed) Top() float64 { return p.Base - 10 }

const (
	rowHigh   = 17
	glyphWide = 6.7 // pixels, rather more than most letters take
	maxText   = 44  // characters of a flag
	few       = 6   // flags of a rank that are all placed if there is room
	markRows  = 3   // rows for marks
)

// place gives as many flags a place as fit without overlap: no text covers another one or a line.
func (l *layout) place(s scale, flags []flag) {
	sortFlags(flags)
	var got []placed
	for _, f := range flags {
		x := s.x(f.at.t)
		if x < 0 || x > plotWidth+0.1 {
			continue
		}
		p := placed{
			X: percentOf(x), Foot: math.Round(s.y(min(f.at.jobs, s.most))), Kind: f.kind, Whole: f.text,
			px: x / plotWidth * l.width,
		}
		p.Text = clipped(f.text, min(maxText, int(l.width/glyphWide*0.8)))
		p.Cut = p.Text != p.Whole
		if p.fits(got, l) && (f.rank < rankMark || p.row < markRows) {
			got = append(got, p)
		}
	}
	rows := 0
	for _, p := range got {
		rows = max(rows, p.row+1)
	}
	l.High = float64(rows * rowHigh)
	for i := range got {
		got[i].Base = l.High - float64(got[i].row*rowHigh) - 6
	}
	slices.SortStableFunc(got, func(a, b placed) int { return cmp.Compare(a.px, b.px) })
	l.Flags = got
}

// sortFlags sorts flags in the order in which they get a place. From right to left, all of a few fit, each above the
// one before. From left to right, a choice of many fits, spread over the plot.
func sortFlags(flags []flag) {
	of := map[int]int{}
	for _, f := range flags {
		of[f.rank]++
	}
	slices.SortStableFunc(flags, func(a, b flag) int {
		switch {
		case a.rank != b.rank:
			return cmp.Compare(a.rank, b.rank)
		case of[a.rank] > few:
			return cmp.Compare(a.at.t, b.at.t)
		}
		return cmp.Compare(b.at.t, a.at.t)
	})
}

// fits looks for a row: the text to the right of its line, or else to the left.
func (p *placed) fits(others []placed, l *layout) bool {
	wide := glyphWide*float64(len([]rune(p.Text))) + 8
	for _, end := range []bool{false, true} {
		p.End, p.lo, p.hi = end, p.px-1, p.px+wide
		if end {
			p.lo, p.hi = p.px-wide, p.px+1
		}
		if p.lo < -1 || p.hi > l.width+1 {
			continue
		}
		for p.row = 0; p.row < l.rows; p.row++ {
			if !slices.ContainsFunc(others, p.meets) {
				return true
			}
		}
	}
	return false
}

// meets reports whether two flags overlap: their texts in a row, or a text and the line of a higher flag.
func (p *placed) meets(o placed) bool {
	switch {
	case p.row == o.row:
		return p.lo < o.hi && o.lo < p.hi
	case p.row > o.row:
		return o.lo-2 < p.px && p.px < o.hi+2
	}
	return p.lo-2 < o.px && o.px < p.hi+2
}

// clipped shortens a text to n characters.
func clipped(text string, n int) string {
	if letters := []rune(text); len(letters) > n {
		return strings.TrimSpace(string(letters[:n-1])) + "…"
	}
	return text
}

// Flags are placed in this order.
const (
	rankFinish = iota
	rankBend
	rankMark
)

// maxFlaggedMarks is the number of marks that may get a flag, the latest ones.
const maxFlaggedMarks = 12

// flags returns the labels of a picture.
func (tr *trace) flags(s scale, in *pictureInput) (flags []flag) {
	when := whenFrom(tr.now)
	lead := ""
	if in.many && in.forecast.FinishAt == nil {
		lead = "some "
	}
	flags = append(flags, endFlag(s, tr.ahead, &in.forecast, when, lead, "done", rankFinish)...)
	flags = append(flags, endFlag(s, tr.tried, &in.tried, when, "at "+in.rate+": ", "tried", rankBend)...)
	bends := in.forecast.Bends
	for n := range bends {
		if n == 0 && bends[n].Rate > 0 || n == len(bends)-1 || bends[n].Why == "" { // a sum has many bends without a cause
			continue
		}
		flags = append(flags, flag{tr.ahead[n], in.forecast.BendText(n, when), "bend", rankBend})
	}
	marks := in.curves.Marks
	for _, m := range marks[max(0, len(marks)-maxFlaggedMarks):] {
		flags = append(flags, flag{spot{m.At.Sub(tr.now).Seconds(), 0}, markText(&m, in.many), "mark", rankMark})
	}
	return flags
}

// endFlag returns the label of the end of a forecast: where it is, or at the right edge if that is before.
func endFlag(
	s scale, curve []spot, f *wire.QueueForecast, when func(time.Time) string, lead, kind string, rank int,
) []flag {
	if len(curve) == 0 || f.Bends[0].Remaining == 0 {
		return nil
	}
	end := last(curve)
	text := f.Never(when)
	switch {
	case text != "":
		if kind == "done" {
			kind = "never"
		}
	case end.t > s.to:
		text = "done " + when(*f.FinishAt) + " →"
	default:
		text = "done " + when(*f.FinishAt)
	}
	if text == f.Never(when) && end.t < s.to {
		end.t = s.to
	}
	if part := s.within(curve); end.t > s.to && len(part) > 0 {
		end = last(part)
	}
	return []flag{{end, lead + text, kind, rank}}
}

// markText says what happened at a mark. many adds which queue it was.
func markText(m *wire.CurveMark, many bool) string {
	text := m.Kind
	if many && m.Queue != "" {
		text = m.Queue + " " + text
	}
	switch {
	case m.Text == "":
		return text
	case m.Queue == "":
		return text + " " + m.Text
	}
	return text + ": " + m.Text
}

// whenFrom returns a function that formats an instant as briefly as one can from now on.
func whenFrom(now time.Time) func(time.Time) string {
	return func(at time.Time) string {
		at = at.UTC()
		midnight := now.UTC().Truncate(24 * time.Hour)
		switch d := at.Sub(now); {
		case d.Abs() < 5*time.Minute:
			return at.Format("15:04:05")
		case at.Sub(midnight) > 0 && at.Sub(midnight) <= 24*time.Hour:
			return at.Format("15:04")
		case d.Abs() < 6*24*time.Hour:
			return at.Format("Mon 15:04")
		case d.Abs() < 300*24*time.Hour:
			return at.Format("2 Jan 15:04")
		}
		return at.Format("2 Jan 2006")
	}
}
