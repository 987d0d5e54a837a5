package queuecmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type forecastCmd struct {
	Name string `arg:"" help:"Name of the queue."`
	Rate string `help:"Assume this rate instead of the queue's." placeholder:"RATE"`
	command.Watched
}

func (forecastCmd) Help() string {
	return `Shows how many jobs will be left at each change of the outflow, what decides the outflow from then on,
and when the queue will be empty. Assumes that no jobs are added and that deliveries succeed.

Examples:
  penstock queue forecast email
  penstock queue forecast email --rate 50/s
  penstock queue forecast email -o json | jq .finish_at`
}

func (c *forecastCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, func(ctx context.Context) (wire.QueueForecast, error) {
		return api.Forecast(ctx, c.Name, c.Rate)
	}, curveText)
}

// curveText returns the bends of a forecast and its end. Times are relative to the clock of the store.
func curveText(v wire.QueueForecast, _ time.Time) string {
	t := command.NewTable(">IN", "AT", ">LEFT", ">PER SECOND", "BECAUSE")
	for n := range v.Bends {
		b := &v.Bends[n]
		t.Row(
			show.Duration(b.At.Sub(v.Now)), show.Instant(&b.At), plainNumber(b.Remaining), plainNumber(b.Rate), becauseText(b),
		)
	}
	if len(v.Bends) == 0 {
		return "nothing is known\n"
	}
	text := t.String()
	switch last := v.Bends[len(v.Bends)-1]; {
	case v.FinishAt == nil:
		text += fmt.Sprintf(
			"%s jobs will not leave: they wait for %s\n", plainNumber(last.Remaining), cause.Cause(last.Why).Text(),
		)
	case v.Bends[0].Remaining == 0:
		text += "the queue is empty\n"
	default:
		text += fmt.Sprintf("empty in %s, at %s", show.Duration(v.FinishAt.Sub(v.Now)), show.Instant(v.FinishAt))
		if v.Exact {
			text += ": exact\n"
		} else {
			text += ": an estimate\n"
		}
	}
	return text
}

// plainNumber returns a number without an exponent.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func becauseText(b *wire.Bend) string {
	var parts []string
	if b.Drained != "" {
		parts = append(parts, "lane "+show.Text(b.Drained)+" is empty")
	}
	if b.Why != "" {
		part := "waits for " + cause.Cause(b.Why).Text()
		if b.Reason != "" {
			part += " (" + show.Text(b.Reason) + ")"
		}
		if b.Until != nil {
			part += " until " + show.Instant(b.Until)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
