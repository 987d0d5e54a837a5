package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// pictureInput is what a picture shows.
type pictureInput struct {
	curves wire.Curves
	// forecast and tried have no bends if they are not known; tried is the forecast at rate.
	forecast, tried wire.QueueForecast
	rate            string
	capacity        int64
	now             time.Time     // unless the forecast says it
	past            time.Duration // how far the picture reaches back
	many            bool          // it is about several queues
	sums            *wire.Sums    // of these queues; nil if not known
}

// picture is the drawing of arrivals and departures, drawn by {{template "picture" .}}. Paths are in the plot's
// coordinates; see scale.
type picture struct {
	Arrived, Left, Ahead, Tried, Capacity, Flat string
	Area, AreaAhead                             string
	Refused                                     []string
	Now                                         string // where the present is, in percent
	NowText                                     string
	Jobs                                        []tick
	Layouts                                     []layout
	Dots                                        []dot
	Handle                                      *handle
	Rate                                        string
	Full                                        bool // the capacity is used so far that the picture shows it
	CapacityJobs                                int64
	High, Wide                                  int // of the plot

	// The same in words.
	Label   string
	Finish  *ending
	Other   *ending // at Rate
	Depth   string
	Delay   string
	Flow    string
	Events  []pictureEvent
	Earlier int // marks that are not listed
}

// dot is a bend: X in percent, Y in pixels.
type dot struct {
	X    string
	Y    float64
	Kind string
}

// handle is where the user drags the slope: from the beginning of the slope through its place. From and Jobs are the
// beginning, in seconds from the present and in jobs. Start, Span and Most are the scale; see scale.
type handle struct {
	X                 string
	Y                 float64
	From, Jobs        string
	Start, Span, Most string
}

// ending says when the last job leaves.
type ending struct {
	Text string
	At   *time.Time
	Tone string
}

// pictureEvent is a row of the table: a mark of the past, or a bend of the forecast.
type pictureEvent struct {
	At         time.Time
	When, What string
	Left, Rate string // empty for a mark
}

// maxListedMarks is the number of marks in the table, the latest ones.
const maxListedMarks = 30

// draw returns the picture.
func (in *pictureInput) draw() picture {
	tr := traceOf(&in.curves, &in.forecast, &in.tried, in.capacity, in.now)
	s := scale{most: tr.highest(), high: queueHeight}
	if in.many {
		s.high = manyHeight
	}
	s.from, s.to = tr.span(in.past)
	p := picture{
		Arrived: s.path(tr.arrived), Left: s.path(tr.left), Ahead: s.path(tr.ahead), Tried: s.path(tr.tried),
		Capacity: s.path(tr.capacity), Area: s.area(tr.arrived, tr.left),
		Now: percentOf(s.x(0)), NowText: "now " + tr.now.UTC().Format("15:04"), Jobs: s.jobTicks(), Rate: in.rate,
		Full: tr.full >= 0.5, CapacityJobs: in.capacity, High: int(s.high), Wide: plotWidth,
	}
	if !tr.known {
		p.Arrived, p.Left, p.Area = "", "", ""
	}
	if len(tr.ahead) > 0 {
		end, top := min(last(tr.ahead).t, s.to), last(tr.arrived).jobs
		if in.forecast.FinishAt == nil {
			end = s.to
			tr.ahead = append(tr.ahead, spot{s.to, last(tr.ahead).jobs})
			p.Ahead = s.path(tr.ahead)
		}
		flat := []spot{{0, top}, {end, top}}
		if tr.depth() > 0 {
			p.Flat, p.AreaAhead = s.path(flat), s.area(flat, tr.ahead)
		}
	}
	for _, part := range tr.refused {
		if path := s.path(part); path != "" {
			p.Refused = append(p.Refused, path)
		}
	}
	p.Dots, p.Handle = tr.dots(s, in), tr.handle(s)
	flags := tr.flags(s, in)
	for _, l := range layouts() {
		l.place(s, flags)
		l.Ticks = s.timeTicks(tr.now, l.width)
		p.Layouts = append(p.Layouts, l)
	}
	p.words(&tr, in)
	return p
}

// dots returns the places of the bends that are on the plot.
func (tr *trace) dots(s scale, in *pictureInput) (dots []dot) {
	add := func(curve []spot, f *wire.QueueForecast, kind string) {
		for n := range f.Bends {
			at := curve[n]
			if n == 0 && f.Bends[n].Rate > 0 || at.t > s.to || f.Bends[0].Remaining == 0 ||
				in.many && n < len(f.Bends)-1 {
				continue
			}
			dots = append(dots, dot{percentOf(s.x(at.t)), s.y(at.jobs), kind})
		}
	}
	add(tr.ahead, &in.forecast, "ahead")
	add(tr.tried, &in.tried, "tried")
	return dots
}

// handle returns the handle in the middle of the first slope of the forecast; nil if it has none.
func (tr *trace) handle(s scale) *handle {
	curve := tr.tried
	if len(curve) == 0 {
		curve = tr.ahead
	}
	for n := 1; n < len(curve); n++ {
		a, b, some := s.cut(curve[n-1], curve[n])
		if !some || b.jobs <= a.jobs || b.t <= a.t {
			continue
		}
		return &handle{
			X: percentOf(s.x((a.t + b.t) / 2)), Y: s.y((a.jobs + b.jobs) / 2),
			From: decimal(a.t), Jobs: decimal(a.jobs), Start: decimal(s.from), Span: decimal(s.to - s.from),
			Most: decimal(s.most),
		}
	}
	return nil
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// words fills in the picture in words.
func (p *picture) words(tr *trace, in *pictureInput) {
	p.Finish, p.Other = endingOf(&in.forecast, tr.now), endingOf(&in.tried, tr.now)
	if in.sums != nil && in.sums.Never > 0 && p.Finish != nil {
		p.Finish = endingOfSome(in.sums, tr.now)
	}
	depth := int64(tr.depth() + 0.5)
	p.Depth = count(depth, "job") + " in queue"
	switch {
	case !tr.known:
		p.Delay = "the past is not known yet"
	case depth > 0:
		lead := "jobs that leave now waited "
		if b := in.forecast.Bends; len(b) > 0 && b[0].Rate == 0 && !in.many {
			lead = "the next job has waited "
		}
		switch waited, known := tr.delay(); {
		case !known:
			p.Delay = lead + "more than " + span(seconds(waited))
		case waited >= 1:
			p.Delay = lead + span(seconds(waited))
		}
	}
	if n := len(in.curves.Points); n > 0 {
		first, end := in.curves.Points[0], in.curves.Points[n-1]
		p.Flow = num(end.Arrived-first.Arrived) + " arrived and " + num(end.Left-first.Left) + " left since " +
			clock(first.At)
		if end.Refused > 0 {
			p.Flow += ", " + num(end.Refused) + " were refused for lack of room"
		}
	}
	p.events(tr, in)
	said := []string{p.Depth}
	if p.Finish != nil {
		said = append(said, p.Finish.words(tr.now))
	}
	if p.Other != nil {
		said = append(said, "At "+in.rate+", "+lower(p.Other.words(tr.now)))
	}
	for _, text := range []string{p.Delay, p.Flow} {
		if text != "" {
			said = append(said, upper(text))
		}
	}
	p.Label = "Arrivals and departures. " + strings.Join(said, ". ") + "."
}

// events fills in the table.
func (p *picture) events(tr *trace, in *pictureInput) {
	marks := in.curves.Marks
	p.Earlier = max(0, len(marks)-maxListedMarks)
	for _, m := range marks[p.Earlier:] {
		p.Events = append(p.Events, pictureEvent{At: m.At, When: clock(m.At), What: markText(&m, in.many)})
	}
	when := whenFrom(tr.now)
	add := func(f *wire.QueueForecast, lead string) {
		for n := range f.Bends {
			b := &f.Bends[n]
			text := f.BendText(n, when)
			if b.Reason != "" && !strings.Contains(text, b.Reason) {
				text += " (" + b.Reason + ")"
			}
			p.Events = append(p.Events, pictureEvent{
				At: b.At, When: when(b.At) + " UTC", What: lead + text, Left: num(int64(b.Remaining + 0.5)),
				Rate: perSecond(b.Rate) + "/s",
			})
		}
	}
	if tr.depth() > 0 {
		add(&in.forecast, "")
		add(&in.tried, "at "+in.rate+": ")
	}
}

// endingOf says when the last job of a forecast leaves; nil without a forecast.
func endingOf(f *wire.QueueForecast, now time.Time) *ending {
	when := whenFrom(now)
	switch {
	case len(f.Bends) == 0:
		return nil
	case f.Bends[0].Remaining == 0:
		return &ending{Text: "Empty"}
	case f.FinishAt == nil:
		return &ending{Text: upper(f.Never(when)), Tone: "warn"}
	case f.Exact:
		return &ending{Text: "Done " + when(*f.FinishAt) + " UTC", At: f.FinishAt}
	}
	return &ending{Text: "Done about " + when(*f.FinishAt) + " UTC", At: f.FinishAt}
}

// endingOfSome says when the queues are done that will be, if others never are.
func endingOfSome(sums *wire.Sums, now time.Time) *ending {
	text := count(int64(sums.Never), "queue") + " will never be done as things are"
	if sums.FinishAt != nil && sums.FinishAt.After(now) {
		text += "; the others about " + whenFrom(now)(*sums.FinishAt) + " UTC"
	}
	return &ending{Text: text, Tone: "warn"}
}

// words returns the ending as a sentence.
func (e *ending) words(now time.Time) string {
	if e.At == nil {
		return e.Text
	}
	return e.Text + ", in " + span(e.At.Sub(now))
}

// count formats a number of things: 1 job, 2 jobs.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return num(n) + " " + thing + "s"
}
