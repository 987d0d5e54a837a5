package console

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// curvesOf returns curves: each row is the second before the present, and what arrived, left and was refused.
func curvesOf(rows ...[4]int64) (c wire.Curves) {
	for _, r := range rows {
		c.Points = append(c.Points, wire.CurvePoint{
			At: pictureNow.Add(-time.Duration(r[0]) * time.Second), Arrived: r[1], Left: r[2], Refused: r[3],
		})
	}
	return c
}

// The forecast continues where the readings end, and no curve falls, whatever changed since the last reading.
func TestPastAndForecastMeet(t *testing.T) {
	past := [][4]int64{{900, 100, 0, 0}, {450, 400, 100, 0}, {4, 600, 400, 0}}
	for name, c := range map[string]struct {
		past      [][4]int64
		remaining float64
		arrived   float64
		left      float64
	}{
		"nothing has changed":             {past, 200, 600, 400},
		"50 have left since":              {past, 150, 600, 450},
		"50 have arrived since":           {past, 250, 650, 400},
		"the queue is empty":              {past, 0, 600, 600},
		"the queue was not read":          {nil, 80, 80, 0},
		"neither read nor has it any job": {nil, 0, 0, 0},
	} {
		curves, f := curvesOf(c.past...), bendsOf(bend(0, c.remaining, 1, "rate"), bend(c.remaining/60, 0, 0, ""))
		tr := traceOf(&curves, &f, &wire.QueueForecast{}, 1000, pictureNow)
		if a, l := last(tr.arrived), last(tr.left); a != (spot{0, c.arrived}) || l != (spot{0, c.left}) {
			t.Errorf("%s: at present %v and %v, want %v and %v", name, a, l, c.arrived, c.left)
		}
		if tr.ahead[0].jobs != c.left || last(tr.ahead).jobs != c.arrived || tr.depth() != c.remaining {
			t.Errorf("%s: the forecast is %v at a depth of %v", name, tr.ahead, tr.depth())
		}
		for _, curve := range [][]spot{tr.arrived, tr.left, append(tr.left, tr.ahead...), tr.capacity} {
			for n := 1; n < len(curve); n++ {
				if curve[n].t < curve[n-1].t || curve[n].jobs < curve[n-1].jobs {
					t.Errorf("%s: %v follows %v", name, curve[n], curve[n-1])
				}
			}
		}
		for n, s := range append(tr.left[:len(tr.left):len(tr.left)], tr.ahead...) {
			if tr.capacity[n] != (spot{s.t, s.jobs + 1000}) {
				t.Errorf("%s: the capacity is %v over %v", name, tr.capacity[n], s)
			}
		}
	}
}

// The delay is the horizontal distance of the curves at present.
func TestDelayOfPicture(t *testing.T) {
	for name, c := range map[string]struct {
		past    [][4]int64
		seconds float64
		known   bool
	}{
		"between two readings": {[][4]int64{{900, 0, 0, 0}, {600, 300, 0, 0}, {0, 300, 150, 0}}, 750, true},
		"arrivals stood still": {
			[][4]int64{{900, 0, 0, 0}, {800, 100, 0, 0}, {300, 100, 50, 0}, {0, 200, 100, 0}}, 300, true,
		},
		"before the first reading":        {[][4]int64{{900, 500, 0, 0}, {0, 500, 100, 0}}, 900, false},
		"all left as soon as they arrive": {[][4]int64{{900, 0, 0, 0}, {10, 500, 500, 0}, {0, 520, 520, 0}}, 0, true},
	} {
		curves := curvesOf(c.past...)
		tr := traceOf(&curves, &wire.QueueForecast{}, &wire.QueueForecast{}, 0, pictureNow)
		if got, known := tr.delay(); math.Abs(got-c.seconds) > 1e-6 || known != c.known {
			t.Errorf("%s: %v, %v", name, got, known)
		}
	}
}

// Refusals are drawn on the arrivals, in one line while they last.
func TestRefusalsInPicture(t *testing.T) {
	curves := curvesOf([4]int64{60, 5, 0, 0}, [4]int64{50, 9, 1, 0}, [4]int64{40, 10, 2, 3}, [4]int64{30, 11, 3, 5},
		[4]int64{20, 11, 5, 5}, [4]int64{10, 15, 6, 9})
	tr := traceOf(&curves, &wire.QueueForecast{}, &wire.QueueForecast{}, 10, pictureNow)
	if len(tr.refused) != 2 || !slices.Equal(tr.refused[0], []spot{{-40, 9}, {-30, 10}, {-20, 11}}) ||
		!slices.Equal(tr.refused[1], []spot{{-10, 11}, {0, 15}}) {
		t.Errorf("refused are %v", tr.refused)
	}
	if tr.full != 0.9 {
		t.Errorf("at most %v of the capacity were used", tr.full)
	}
}

// The future reaches to the finish if that is near, and else as far as the past.
func TestSpanOfPicture(t *testing.T) {
	const quarter = 15 * time.Minute
	for name, c := range map[string]struct {
		forecast, tried wire.QueueForecast
		to              float64 // minutes
	}{
		"no forecast":     {wire.QueueForecast{}, wire.QueueForecast{}, 5},
		"empty":           {bendsOf(bend(0, 0, 0, "")), wire.QueueForecast{}, 5},
		"never":           {bendsOf(bend(0, 9, 0, "paused")), wire.QueueForecast{}, 5},
		"soon":            {bendsOf(bend(0, 9, 1, "rate"), bend(1, 0, 0, "")), wire.QueueForecast{}, 5},
		"in half an hour": {bendsOf(bend(0, 9, 1, "rate"), bend(30, 0, 0, "")), wire.QueueForecast{}, 34.5},
		"in three hours":  {bendsOf(bend(0, 9, 1, "rate"), bend(180, 0, 0, "")), wire.QueueForecast{}, 15},
		"in a million":    {bendsOf(bend(0, 9, 1, "rate"), bend(6e7, 0, 0, "")), wire.QueueForecast{}, 15},
		"a bend is near": {
			bendsOf(bend(0, 9, 1, "rate"), bend(40, 5, 1, "rate"), bend(180, 0, 0, "")), wire.QueueForecast{}, 46,
		},
		"another rate": {
			bendsOf(bend(0, 9, 1, "rate"), bend(4, 0, 0, "")), bendsOf(bend(0, 9, 1, ""), bend(20, 0, 0, "")), 23,
		},
		"a far other rate": {
			bendsOf(bend(0, 9, 1, "rate"), bend(4, 0, 0, "")), bendsOf(bend(0, 9, 1, ""), bend(99, 0, 0, "")), 15,
		},
	} {
		tr := traceOf(&wire.Curves{}, &c.forecast, &c.tried, 0, pictureNow)
		if from, to := tr.span(quarter); from != -900 || math.Abs(to-60*c.to) > 1e-6 {
			t.Errorf("%s: from %v to %v s, want to %v", name, from, to, 60*c.to)
		}
	}
}

// Paths end at the edges of the plot.
func TestPathsOfPicture(t *testing.T) {
	s := scale{from: -100, to: 100, most: 50, high: 100}
	for name, c := range map[string]struct {
		curve []spot
		want  string
	}{
		"none":                 {nil, ""},
		"a point":              {[]spot{{0, 1}}, ""},
		"within":               {[]spot{{-100, 0}, {0, 25}, {100, 50}}, "M0.0 100.0L500.0 50.0L1000.0 0.0"},
		"over both sides":      {[]spot{{-200, 0}, {200, 40}}, "M0.0 80.0L1000.0 40.0"},
		"over the top":         {[]spot{{-100, 0}, {100, 100}}, "M0.0 100.0L500.0 0.0"},
		"before the left edge": {[]spot{{-300, 0}, {-200, 40}}, ""},
		"above the top":        {[]spot{{-100, 60}, {100, 90}}, ""},
		"a step": {
			[]spot{{-100, 10}, {0, 10}, {0, 30}, {100, 30}}, "M0.0 80.0L500.0 80.0L500.0 40.0L1000.0 40.0",
		},
		"a long level":        {[]spot{{-100, 10}, {-50, 10}, {0, 10}, {50, 10}, {100, 10}}, "M0.0 80.0L1000.0 80.0"},
		"a step over the top": {[]spot{{-100, 10}, {0, 10}, {0, 99}, {100, 99}}, "M0.0 80.0L500.0 80.0L500.0 0.0"},
	} {
		if got := s.path(c.curve); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := s.area([]spot{{-100, 25}, {0, 50}}, []spot{{-100, 0}, {0, 25}}); got !=
		"M0.0 50.0L500.0 0.0L500.0 50.0L0.0 100.0Z" {
		t.Errorf("the area is %q", got)
	}
}

// Axes have few ticks, at round values, and none where its label would not fit.
func TestTicksOfPicture(t *testing.T) {
	for most, want := range map[float64]string{
		1.1: "0 1", 8: "0 2 4 6 8", 1100: "0 500 1,000", 99_000: "0 20,000 40,000 60,000 80,000",
		500_000: "0 100 k 200 k 300 k 400 k 500 k", 1.1e8: "0 50 M 100 M", 3e9: "0 1 G 2 G 3 G", 6e6: "0 2 M 4 M 6 M",
	} {
		var texts []string
		for _, tick := range (scale{most: most, high: 100}).jobTicks() {
			texts = append(texts, tick.Text)
		}
		if got := strings.Join(texts, " "); got != want {
			t.Errorf("up to %v: %s, want %s", most, got, want)
		}
	}
	for name, c := range map[string]struct {
		from, to, width float64
		want            string
	}{
		"20 minutes":           {-900, 300, 840, "13:48 13:50 13:52 13:54 13:56 13:58 14:00 14:04 14:06"},
		"20 minutes, narrow":   {-900, 300, 264, "13:50 13:55"},
		"75 minutes":           {-900, 3600, 840, "13:50 14:10 14:20 14:30 14:40 14:50 15:00"},
		"two days":             {-86400, 86400, 840, "18:00 28 Nov 06:00 18:00 29 Nov 06:00 12:00"},
		"two days, narrow":     {-86400, 86400, 264, "28 Nov 29 Nov"},
		"from 24 hours to 5 d": {-86400, 4 * 86400, 840, "28 Nov 29 Nov 12:00 30 Nov 12:00 1 Dec 12:00 2 Dec"},
	} {
		var texts []string
		for _, tick := range (scale{from: c.from, to: c.to}).timeTicks(pictureNow, c.width) {
			texts = append(texts, tick.Text)
		}
		if got := strings.Join(texts, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// No label covers another one or its line, and the finish always has its label.
func TestLabelsOfPicture(t *testing.T) {
	for name, scene := range pictureScenes() {
		p := drawn(scene, "28/s")
		for _, l := range p.Layouts {
			for i, a := range l.Flags {
				if a.lo < -1 || a.hi > l.width+1 || a.Base < 0 || a.Base > l.High {
					t.Errorf("%s, %s: %q is at %v to %v, %v of %v", name, l.Class, a.Text, a.lo, a.hi, a.Base, l.High)
				}
				for _, b := range l.Flags[i+1:] {
					if a.meets(b) {
						t.Errorf("%s, %s: %q covers %q", name, l.Class, a.Text, b.Text)
					}
				}
			}
			ends := slices.ContainsFunc(l.Flags, func(f placed) bool { return f.Kind == "done" || f.Kind == "never" })
			if want := name != "empty"; ends != want {
				t.Errorf("%s, %s: the end has a label: %v", name, l.Class, ends)
			}
		}
	}
	wide := drawn(pictureScenes()["busy"], "28/s").Layouts[0]
	var texts []string
	for _, f := range wide.Flags {
		texts = append(texts, f.Text)
	}
	if got, want := strings.Join(texts, "; "), "deployed drainer v2.4.1; paused: wrong link in the footer; resumed; "+
		"changed: revision 12; lane gmail.com is empty; at 28/s: done 14:04:03; lane outlook.com is empty; done 14:11"; got !=
		want {
		t.Errorf("labels are %s\nwant %s", got, want)
	}
}

func drawn(p *pictured, rate string) picture {
	in := pictureInput{
		curves: p.curves, forecast: p.forecast, tried: p.tried, rate: rate, capacity: p.queue.Capacity, now: pictureNow,
		past: 15 * time.Minute,
	}
	return in.draw()
}

// The picture says in words what it shows.
func TestPictureInWords(t *testing.T) {
	scenes := pictureScenes()
	for name, want := range map[string]string{
		"paused": "Arrivals and departures. 300 jobs in queue. Never: paused. The next job has waited 10 m. " +
			"450 arrived and 450 left since 13:47:30 UTC.",
		"empty": "Arrivals and departures. 0 jobs in queue. Empty. 0 arrived and 0 left since 13:47:30 UTC.",
		"unread": "Arrivals and departures. 80 jobs in queue. Done about 14:03:50 UTC, in 1 m 20 s. The past is not known " +
			"yet.",
		"huge": "Arrivals and departures. 118,000,000 jobs in queue. Done about 15:40 UTC, in 1 h 38 m. Jobs that leave " +
			"now waited more than 15 m. 36,000,000 arrived and 18,000,000 left since 13:47:30 UTC.",
	} {
		if got := drawn(scenes[name], "").Label; got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	p := drawn(scenes["busy"], "28/s")
	if !strings.Contains(p.Label, "At 28/s, done about 14:04:03 UTC, in 1 m 34 s") || p.Handle == nil {
		t.Errorf("another rate: %s, handle %v", p.Label, p.Handle)
	}
	var rows []string
	for _, e := range p.Events {
		rows = append(rows, strings.Trim(e.When+" "+e.What+" "+e.Left+" "+e.Rate, " "))
	}
	for _, want := range []string{
		"13:53:30 UTC paused: wrong link in the footer", "lane gmail.com is empty", "14:11 UTC done 14:11 0 0/s",
		"at 28/s: done 14:04:03",
	} {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, want) }) {
			t.Errorf("no row says %q: %q", want, rows)
		}
	}
	if p := drawn(scenes["paused"], ""); p.Handle != nil {
		t.Error("a forecast without a slope has a handle")
	}
}

// The picture of several queues tells those apart that are never done.
func TestPictureOfSomeThatNeverFinish(t *testing.T) {
	scene, finish := pictureScenes()["paused"], minutes(30)
	for want, sums := range map[string]wire.Sums{
		"2 queues will never be done as things are; the others about 14:32 UTC": {Never: 2, FinishAt: &finish},
		"1 queue will never be done as things are":                              {Never: 1},
		"Never: paused": {},
	} {
		in := pictureInput{curves: scene.curves, forecast: scene.forecast, past: 15 * time.Minute, many: true, sums: &sums}
		p := in.draw()
		if p.Finish.Text != want || !strings.Contains(p.Label, want) {
			t.Errorf("%+v: %q and %q, want %q", sums, p.Finish.Text, p.Label, want)
		}
		if f := p.Layouts[0].Flags; f[len(f)-1].Text != "some never: paused" {
			t.Errorf("the label is %+v", f[len(f)-1])
		}
	}
}
