package replay

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/replay/chart"
)

// CheckChart reports whether a chart can have this file name.
func CheckChart(name string) error {
	if strings.EqualFold(filepath.Ext(name), ".html") {
		return nil
	}
	return fmt.Errorf("--chart %s: the name must end in .html", name)
}

// Chart draws the replay over time, a panel for each rule and queue, as a self-contained HTML page.
func (r *Report) Chart() ([]byte, error) {
	page := chart.Page{
		Title: "Replay of " + strings.Join(r.Logs, ", "),
		Note:  r.From.UTC().Format(time.DateTime) + " to " + r.To.UTC().Format(time.DateTime) + ", UTC",
	}
	for i := range r.Rules {
		page.Panels = append(page.Panels, r.rulePanel(i))
	}
	for i := range r.Queues {
		page.Panels = append(page.Panels, r.queuePanel(i))
	}
	at := make([]time.Time, 0, len(r.Timeline.Steps)+1)
	for i := range r.Timeline.Steps {
		at = append(at, r.Timeline.Steps[i].At)
	}
	if n := len(at); n > 0 { // the last step is as wide as the others
		at = append(at, at[n-1].Add(r.Timeline.Step.D()))
	}
	return page.HTML(at)
}

func (r *Report) rulePanel(i int) chart.Panel {
	o := &r.Rules[i]
	return chart.Panel{
		Title: fmt.Sprintf(
			"%s: %s allowed, %s refused (%.2f %%)", o.Rule, humanize.Comma(o.Allowed), humanize.Comma(o.Refused), 100*o.Share,
		),
		Unit: "requests in " + spell(r.Timeline.Step.D()),
		Series: []chart.Series{
			r.series("asked", chart.Given, func(s *Step) int64 { return s.Rules[i].Allowed + s.Rules[i].Refused }),
			r.series("allowed", chart.Passed, func(s *Step) int64 { return s.Rules[i].Allowed }),
			r.series("refused", chart.Refused, func(s *Step) int64 { return s.Rules[i].Refused }),
		},
	}
}

func (r *Report) queuePanel(i int) chart.Panel {
	o := &r.Queues[i]
	return chart.Panel{
		Title: fmt.Sprintf(
			"queue %s: at most %s waited, %s refused (%.2f %%)", o.Queue, humanize.Comma(o.Deepest), humanize.Comma(o.Refused),
			100*o.Share,
		),
		Unit: "jobs",
		Series: []chart.Series{
			r.series("waiting at most", chart.Passed, func(s *Step) int64 { return s.Queues[i].Deepest }),
			r.series(
				"refused in "+spell(r.Timeline.Step.D()), chart.Refused, func(s *Step) int64 { return s.Queues[i].Refused },
			),
		},
	}
}

func (r *Report) series(name, color string, of func(*Step) int64) chart.Series {
	s := chart.Series{Name: name, Color: color, Values: make([]int64, len(r.Timeline.Steps))}
	for i := range r.Timeline.Steps {
		s.Values[i] = of(&r.Timeline.Steps[i])
	}
	return s
}

// spell formats a step in words.
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
