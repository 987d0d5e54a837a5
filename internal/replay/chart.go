package replay

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of a chart, which the colour-blind tell apart.
var (
	grey   = color.RGBA{0x9a, 0xa5, 0xb1, 0xff}
	blue   = color.RGBA{0x2b, 0x6c, 0xb0, 0xff}
	orange = color.RGBA{0xd9, 0x82, 0x2b, 0xff}
)

const (
	chartWidth  = 10 * vg.Inch
	panelHeight = 2.6 * vg.Inch
)

// CheckChart reports whether a chart can be written under a name.
func CheckChart(name string) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg", ".html":
		return nil
	}
	return fmt.Errorf("--chart %s: the name must end in .svg or .html", name)
}

// Chart draws what happened over time, a panel for each rule and queue: an SVG, within a page if the name ends in .html.
func (r *Report) Chart(name string) ([]byte, error) {
	var panels []*plot.Plot
	for i := range r.Rules {
		p, err := r.rulePanel(i)
		if err != nil {
			return nil, err
		}
		panels = append(panels, p)
	}
	for i := range r.Queues {
		p, err := r.queuePanel(i)
		if err != nil {
			return nil, err
		}
		panels = append(panels, p)
	}
	if last := len(panels) - 1; last >= 0 {
		panels[last].X.Label.Text = r.From.UTC().Format(time.DateTime) + " to " + r.To.UTC().Format(time.DateTime) + ", UTC"
		panels[last].X.Label.TextStyle.Font = panels[last].Y.Label.TextStyle.Font
	}
	canvas := vgsvg.New(chartWidth, panelHeight*vg.Length(len(panels)))
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadX: vg.Points(8), PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(16), PadY: vg.Points(12)}
	grid := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		grid[i] = []*plot.Plot{p}
	}
	for i, row := range plot.Align(grid, tiles, draw.New(canvas)) {
		panels[i].Draw(row[0])
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	if !strings.EqualFold(filepath.Ext(name), ".html") {
		return b.Bytes(), nil
	}
	svg := b.Bytes()
	if at := bytes.Index(svg, []byte("<svg")); at > 0 { // a page has no declaration of XML in it
		svg = svg[at:]
	}
	title := html.EscapeString(fmt.Sprintf("Replay of %s", strings.Join(r.Logs, ", ")))
	return fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>%s</title>\n<body style=\"font-family: sans-serif\">\n<h1 style=\"font-size: 1.2em\">%s</h1>\n%s</body>\n</html>\n", title, title, svg), nil
}

func (r *Report) rulePanel(i int) (*plot.Plot, error) {
	o := &r.Rules[i]
	p := r.panel(fmt.Sprintf("%s: %d allowed, %d refused (%.2f %%)", o.Rule, o.Allowed, o.Refused, 100*o.Share), "requests in "+spell(r.Timeline.Step.D()))
	return p, r.lines(p,
		curve{"asked", grey, func(s *Step) int64 { return s.Rules[i].Allowed + s.Rules[i].Refused }},
		curve{"allowed", blue, func(s *Step) int64 { return s.Rules[i].Allowed }},
		curve{"refused", orange, func(s *Step) int64 { return s.Rules[i].Refused }},
	)
}

func (r *Report) queuePanel(i int) (*plot.Plot, error) {
	o := &r.Queues[i]
	p := r.panel(fmt.Sprintf("queue %s: at most %d waited, %d refused (%.2f %%)", o.Queue, o.Deepest, o.Refused, 100*o.Share), "jobs")
	return p, r.lines(p,
		curve{"waiting at most", blue, func(s *Step) int64 { return s.Queues[i].Deepest }},
		curve{"refused in " + spell(r.Timeline.Step.D()), orange, func(s *Step) int64 { return s.Queues[i].Refused }},
	)
}

func (r *Report) panel(title, y string) *plot.Plot {
	p := plot.New()
	sans := func(f *font.Font, size vg.Length) { f.Variant, f.Size = "Sans", size }
	sans(&p.Title.TextStyle.Font, 11)
	sans(&p.X.Tick.Label.Font, 9)
	sans(&p.Y.Tick.Label.Font, 9)
	sans(&p.Y.Label.TextStyle.Font, 10)
	sans(&p.Legend.TextStyle.Font, 9)
	p.Title.Text, p.Y.Label.Text = title, y
	p.Y.Min = 0
	p.X.Tick.Marker = r
	p.Legend.Top, p.Legend.Padding, p.Legend.XOffs = true, vg.Points(3), -vg.Points(6)
	p.Add(plotter.NewGrid())
	return p
}

// tickSteps are the distances between instants of the axis.
var tickSteps = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// Ticks implements plot.Ticker: round instants of UTC, about eight of them.
func (r *Report) Ticks(from, to float64) (ticks []plot.Tick) {
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if (to-from)/s.Seconds() <= 9 {
			step = s
			break
		}
	}
	layout := "2006\nJan 2"
	switch {
	case step < time.Second:
		layout = "15:04:05.000"
	case step < time.Minute:
		layout = "15:04:05"
	case step < 24*time.Hour:
		layout = "Jan 2\n15:04"
	}
	const most = 20 // decades have more years than labels have room, and nobody tries those
	at := time.UnixMicro(int64(math.Ceil(from * 1e6))).UTC().Add(step - 1).Truncate(step)
	for ; len(ticks) < most && seconds(at) <= to; at = at.Add(step) {
		ticks = append(ticks, plot.Tick{Value: seconds(at), Label: at.Format(layout)})
	}
	return ticks
}

// curve is one line of a panel.
type curve struct {
	name  string
	color color.Color
	of    func(*Step) int64
}

func (r *Report) lines(p *plot.Plot, curves ...curve) error {
	steps := r.Timeline.Steps
	width := r.Timeline.Step.D().Seconds()
	most := 1.0
	for _, c := range curves {
		points := make(plotter.XYs, 0, len(steps)+1)
		for i := range steps {
			v := float64(c.of(&steps[i]))
			most = math.Max(most, v)
			points = append(points, plotter.XY{X: seconds(steps[i].At), Y: v})
		}
		if n := len(points); n > 0 { // the last step is as wide as the others
			points = append(points, plotter.XY{X: points[n-1].X + width, Y: points[n-1].Y})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("draw %s: %w", c.name, err)
		}
		line.StepStyle, line.Color, line.Width = plotter.PostStep, c.color, vg.Points(1.2)
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	p.Y.Min, p.Y.Max = 0, most*1.25 // room for the legend
	return nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// spell writes a step as people say it.
func spell(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d%u.of == 0 {
			return fmt.Sprintf("%d %s", d/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
