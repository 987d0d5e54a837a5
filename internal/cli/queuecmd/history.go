package queuecmd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

// sparkCells is the width of a chart.
const sparkCells = 60

type historyCmd struct {
	Name   string `arg:"" help:"Name of the queue."`
	Window string `default:"15m" enum:"15m,24h" placeholder:"DURATION" help:"Time to show: ${enum} (default ${default})."`
	command.Watched
}

func (historyCmd) Help() string {
	return `Charts the last 15 minutes or 24 hours of the queue. Each line goes from 0 to its highest value; a gap means
unknown. IN, OUT, REFUSED, RELEASED, OUTFLOW, RATE and LEFT are per second, OLDEST is in seconds. RELEASED are
departures that were given back unused, LEFT are jobs that left the queue in any way.

Examples:
  penstock queue history email
  penstock queue history email --window 24h -o json | jq .values.depth`
}

func (c *historyCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, func(ctx context.Context) (wire.History, error) {
		return api.History(ctx, c.Name, c.Window)
	}, historyText)
}

func historyText(h wire.History, _ time.Time) string {
	t := command.NewTable("", ">NOW", ">MEAN", ">HIGHEST", "FROM "+h.From.Local().Format(time.TimeOnly))
	for _, column := range survey.Columns {
		values := h.Values[column.Name]
		if len(values) == 0 {
			continue
		}
		mean, highest := meanAndHighest(values)
		t.Row(strings.ToUpper(column.Name), figure(values[len(values)-1]), figure(mean), figure(highest),
			"|"+sparkline(values)+"|")
	}
	if h.Since == nil {
		return t.String() + "no data yet\n"
	}
	return t.String() + fmt.Sprintf("in steps of %v; seen since %s\n",
		time.Duration(h.Step*float64(time.Second)), show.Instant(h.Since))
}

// meanAndHighest returns the mean and the highest known value; NaN if none is known.
func meanAndHighest(values wire.Series) (mean, highest float32) {
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

// figure returns a number with at most one decimal place; empty for NaN.
func figure(v float32) string {
	if v != v {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// sparkline draws values from 0 to the highest. Each cell shows the highest value of its part, or a gap.
func sparkline(values wire.Series) string {
	const bars = "▁▂▃▄▅▆▇█"
	_, highest := meanAndHighest(values)
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
