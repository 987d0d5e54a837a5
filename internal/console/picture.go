package console

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// spot is a point of a curve: seconds from the present, and jobs.
type spot struct{ t, jobs float64 }

// trace is a picture before it is scaled. Curves are linear between their spots.
type trace struct {
	now     time.Time
	arrived []spot // up to the present
	left    []spot // up to the present
	// ahead and tried are what leaves from now on: at the present rate, and at the one that the user tries.
	ahead, tried []spot
	capacity     []spot   // what left, plus the capacity: where arrivals touch it, jobs are refused
	refused      [][]spot // parts of arrived during which jobs were refused
	full         float64  // the highest share of the capacity that was used
	known        bool     // there are readings of the past
}

// traceOf joins what was read and what is forecast. The readings may be some seconds older than the forecast, so the
// number of jobs at present is the forecast's. f and tried may have no bends; without any data the present is now.
func traceOf(c *wire.Curves, f, tried *wire.QueueForecast, capacity int64, now time.Time) trace {
	tr := trace{now: now, known: len(c.Points) > 0}
	switch {
	case len(f.Bends) > 0:
		tr.now = f.Now
	case tr.known:
		tr.now = c.Points[len(c.Points)-1].At
	}
	var last wire.CurvePoint
	for n, p := range c.Points {
		at := min(0, p.At.Sub(tr.now).Seconds())
		if tr.arrived = append(tr.arrived, spot{at, float64(p.Arrived)}); capacity > 0 {
			tr.full = max(tr.full, float64(p.Arrived-p.Left)/float64(capacity))
		}
		tr.left = append(tr.left, spot{at, float64(p.Left)})
		if n > 0 && p.Refused > last.Refused {
			tr.refuse(n)
		}
		last = p
	}
	depth := float64(last.Arrived - last.Left)
	if len(f.Bends) > 0 && (f.Missing == 0 || f.Bends[0].Remaining > depth) {
		depth = f.Bends[0].Remaining
	}
	out := max(float64(last.Left), float64(last.Arrived)-depth)
	tr.arrived, tr.left = append(tr.arrived, spot{0, out + depth}), append(tr.left, spot{0, out})
	tr.ahead, tr.tried = tr.leaves(f), tr.leaves(tried)
	if capacity > 0 {
		for _, s := range append(tr.left[:len(tr.left):len(tr.left)], tr.ahead...) {
			tr.capacity = append(tr.capacity, spot{s.t, s.jobs + float64(capacity)})
		}
	}
	return tr
}

// refuse notes that jobs were refused between the last two points of arrived.
func (tr *trace) refuse(n int) {
	from, to := tr.arrived[n-1], tr.arrived[n]
	if k := len(tr.refused) - 1; k >= 0 && tr.refused[k][len(tr.refused[k])-1] == from {
		tr.refused[k] = append(tr.refused[k], to)
		return
	}
	tr.refused = append(tr.refused, []spot{from, to})
}

// leaves returns the departure curve of a forecast.
func (tr *trace) leaves(f *wire.QueueForecast) (curve []spot) {
	if len(f.Bends) == 0 {
		return nil
	}
	start := tr.left[len(tr.left)-1].jobs
	for i := range f.Bends {
		b := &f.Bends[i]
		gone := max(0, f.Bends[0].Remaining-b.Remaining)
		curve = append(curve, spot{max(0, b.At.Sub(f.Now).Seconds()), start + gone})
	}
	return curve
}

// depth returns the number of jobs at present.
func (tr *trace) depth() float64 { return last(tr.arrived).jobs - last(tr.left).jobs }

// delay returns how long the jobs that leave now have waited: the horizontal distance of the curves. known is false if
// they arrived before the first reading.
func (tr *trace) delay() (seconds float64, known bool) {
	out := last(tr.left).jobs
	for n := len(tr.arrived) - 1; n > 0; n-- {
		a, b := tr.arrived[n-1], tr.arrived[n]
		if a.jobs <= out {
			if b.jobs == a.jobs {
				return -b.t, true
			}
			return -(a.t + (b.t-a.t)*(out-a.jobs)/(b.jobs-a.jobs)), true
		}
	}
	return -tr.arrived[0].t, false
}

func last(curve []spot) spot { return curve[len(curve)-1] }

// maxAhead is how many times as long as the past the future may be.
const maxAhead = 4

// span returns from when to when the picture reaches, in seconds from the present: to the finish if that is near, and
// else to the last bend that is near.
func (tr *trace) span(past time.Duration) (from, to float64) {
	from = -past.Seconds()
	least, most := past.Seconds()/3, maxAhead*past.Seconds()
	to = least
	for _, curve := range [][]spot{tr.ahead, tr.tried} {
		for _, s := range curve {
			if need := s.t * 1.15; need <= most {
				to = max(to, need)
			} else {
				to = max(to, past.Seconds())
			}
		}
	}
	return from, to
}

// highest returns the number of jobs at the top of the picture. It leaves out a capacity that is far away.
func (tr *trace) highest() float64 {
	most := max(1, last(tr.arrived).jobs) * 1.1
	if tr.full >= 0.5 {
		for _, s := range tr.capacity[:len(tr.left)] {
			most = max(most, s.jobs*1.05)
		}
	}
	return most
}

// The size of the plot: x is in thousandths of its width, y in pixels from its top.
const (
	plotWidth   = 1000
	queueHeight = 240 // on the page of a queue; picture.js has it too
	manyHeight  = 150 // on the overview
)

// scale places spots on the plot.
type scale struct {
	from, to float64 // seconds from the present
	most     float64 // jobs at the top
	high     float64 // of the plot, in pixels
}

func (s scale) x(t float64) float64    { return plotWidth * (t - s.from) / (s.to - s.from) }
func (s scale) y(jobs float64) float64 { return s.high * (1 - jobs/s.most) }

// path returns the part of a curve that is on the plot as an SVG path.
func (s scale) path(curve []spot) string {
	var path strings.Builder
	part := s.within(curve)
	for n, p := range part {
		if n > 0 && n+1 < len(part) && part[n-1].jobs == p.jobs && part[n+1].jobs == p.jobs {
			continue // within a horizontal line
		}
		verb := byte('L')
		if n == 0 {
			verb = 'M'
		}
		path.WriteByte(verb)
		path.WriteString(short(s.x(p.t)) + " " + short(s.y(p.jobs)))
	}
	return path.String()
}

// within returns the part of a curve that is on the plot.
func (s scale) within(curve []spot) (part []spot) {
	for n := 1; n < len(curve); n++ {
		a, b, some := s.cut(curve[n-1], curve[n])
		if !some {
			continue
		}
		if len(part) == 0 {
			part = append(part, a)
		}
		part = append(part, b)
	}
	return part
}

// cut returns the part of a line that is on the plot. Curves never fall.
func (s scale) cut(a, b spot) (from, to spot, some bool) {
	if b.t < s.from || a.t > s.to || a.jobs > s.most {
		return a, b, false
	}
	at := func(t float64) spot { return spot{t, a.jobs + (b.jobs-a.jobs)*(t-a.t)/(b.t-a.t)} }
	from, to = a, b
	if a.t < s.from {
		from = at(s.from)
	}
	if b.t > s.to {
		to = at(s.to)
	}
	if from.jobs > s.most {
		return a, b, false
	}
	if to.jobs > s.most {
		to = spot{from.t + (to.t-from.t)*(s.most-from.jobs)/(to.jobs-from.jobs), s.most}
	}
	return from, to, true
}

// area returns the SVG path of the area between two curves that begin and end together.
func (s scale) area(above, below []spot) string {
	under := s.within(below)
	if len(above) == 0 || len(under) == 0 {
		return ""
	}
	path := s.path(above)
	for n := len(under) - 1; n >= 0; n-- {
		path += "L" + short(s.x(under[n].t)) + " " + short(s.y(under[n].jobs))
	}
	return path + "Z"
}

// tick is a labeled place on an axis: x in percent of the width, y in pixels.
type tick struct {
	At   string
	Y    float64
	Text string
}

// jobTicks returns the ticks of the vertical axis, at most six.
func (s scale) jobTicks() (ticks []tick) {
	step := 1.0
	for n := 0; s.most/step > 5; n++ {
		step *= [3]float64{2, 2.5, 2}[n%3]
	}
	for jobs := 0.0; jobs <= s.most; jobs += step {
		ticks = append(ticks, tick{Y: math.Round(s.y(jobs)*10) / 10, Text: amount(jobs)})
	}
	return ticks
}

// amount formats a number of jobs in at most seven characters: 50,000, 2.5 M.
func amount(n float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{" G", 1e9}, {" M", 1e6}, {" k", 1e5}} {
		if n >= unit.of {
			of := min(unit.of, 1e9)
			if unit.name == " k" {
				of = 1e3
			}
			return strconv.FormatFloat(n/of, 'f', -1, 64) + unit.name
		}
	}
	return num(int64(n))
}

// steps are the distances between the ticks of the horizontal axis.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour,
}

// timeTicks returns the ticks of the horizontal axis of a plot that is at least width pixels wide. None is so close to
// an edge or to the present that its label would not fit.
func (s scale) timeTicks(now time.Time, width float64) (ticks []tick) {
	const apart, label, present = 84, 20, 54 // pixels: of two ticks, from the edge, from the present
	step := steps[len(steps)-1]
	for _, d := range steps {
		if d.Seconds()/(s.to-s.from)*width >= min(apart, width/6) {
			step = d
			break
		}
	}
	begin := now.Add(seconds(s.from)).UTC().Truncate(step)
	for at := begin; ; at = at.Add(step) {
		px := s.x(at.Sub(now).Seconds()) / plotWidth * width
		if px > width-label {
			return ticks
		}
		if px < label || math.Abs(px-s.x(0)/plotWidth*width) < present {
			continue
		}
		text := at.Format("15:04")
		if at.Equal(at.Truncate(24 * time.Hour)) {
			text = at.Format("2 Jan")
		}
		ticks = append(ticks, tick{At: percentOf(s.x(at.Sub(now).Seconds())), Text: text})
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, -1e9), 1e9) * float64(time.Second))
}

// percentOf formats thousandths of the width as percent.
func percentOf(x float64) string { return short(x/10) + "%" }
