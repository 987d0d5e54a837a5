package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

// sparkCells is how wide a line of the history is.
const sparkCells = 60

type historyCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Window string `default:"15m" enum:"15m,24h" placeholder:"DURATION" help:"How far back: ${enum} (default ${default})."`
	refreshed
}

// Help is shown below the flags.
func (historyCmd) Help() string {
	return `What the queue did, as the ingress that answers has seen it since it began: a line for each column, from 0 to
its highest; a gap is where nothing is known. IN, OUT, REFUSED, RELEASED, OUTFLOW and RATE are a second,
OLDEST is in seconds. RELEASED are departures that were given back unused.

Examples:
  penstock queue history email
  penstock queue history email --window 24h -o json | jq .values.depth`
}

func (c *historyCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	return showRefreshed(r, &c.refreshed, func(ctx context.Context) (wire.History, error) {
		return api.History(ctx, c.Name, c.Window)
	}, historyText)
}

func historyText(h wire.History, _ time.Time) string {
	t := table{
		header: []string{"", "NOW", "MEAN", "HIGHEST", "FROM " + h.From.Local().Format(time.TimeOnly)},
		right:  map[int]bool{1: true, 2: true, 3: true},
	}
	for _, column := range survey.Columns {
		values := h.Values[column.Name]
		if len(values) == 0 {
			continue
		}
		mean, highest := figuresOfSeries(values)
		t.add(strings.ToUpper(column.Name), figure(values[len(values)-1]), figure(mean), figure(highest),
			"|"+sparkline(values)+"|")
	}
	if h.Since == nil {
		return t.String() + "nothing is known of it yet\n"
	}
	return t.String() + fmt.Sprintf("in steps of %v; seen since %s\n",
		time.Duration(h.Step*float64(time.Second)), instant(h.Since))
}

// figuresOfSeries are the mean and the highest of what is known; no numbers if nothing is.
func figuresOfSeries(values wire.Series) (mean, highest float32) {
	known := known(values)
	if len(known) == 0 {
		return float32(math.NaN()), float32(math.NaN())
	}
	for _, v := range known {
		mean += v / float32(len(known))
	}
	return mean, slices.Max(known)
}

func known(values wire.Series) wire.Series {
	return slices.DeleteFunc(slices.Clone(values), func(v float32) bool { return v != v })
}

// figure is a number for people, with at most one place behind the point; empty if it is none.
func figure(v float32) string {
	if v != v {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// sparkline draws values from 0 to the highest, each cell the highest of its part; a gap where none is known.
func sparkline(values wire.Series) string {
	const bars = "▁▂▃▄▅▆▇█"
	_, highest := figuresOfSeries(values)
	var b strings.Builder
	for cell := range sparkCells {
		part := known(values[cell*len(values)/sparkCells : (cell+1)*len(values)/sparkCells])
		switch {
		case len(part) == 0:
			b.WriteByte(' ')
		case highest <= 0:
			b.WriteRune('▁')
		default:
			at := int(slices.Max(part) / highest * 7)
			b.WriteString(string([]rune(bars)[min(7, max(0, at))]))
		}
	}
	return b.String()
}
