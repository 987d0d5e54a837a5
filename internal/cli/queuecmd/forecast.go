package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/assign"
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type forecastCmd struct {
	Name string   `arg:"" help:"Name of the queue."`
	Rate string   `help:"Assume this rate; short for --set rate=RATE." placeholder:"RATE"`
	Set  []string `help:"Assume this setting. May be repeated." placeholder:"FIELD=VALUE" sep:"none" env:"-"`
	command.Watched
	command.Colors
}

func (forecastCmd) Help() string {
	return `Shows how many jobs will be left at each change of the outflow, what decides the outflow from then on,
and when the queue will be empty. Assumes that no jobs are added and that deliveries succeed. --set assumes
other settings, with the fields of "penstock queue set", and also shows the end without them.

On a terminal it also draws the last 15 minutes and the forecast: how many jobs had arrived and departed at
each instant. The vertical distance of the two lines is the number of jobs in the queue, the horizontal
distance their delay, and the slope the rate. Numbers mark the changes below. If the past or the forecast
would be too narrow, it gets a scale of its own.

Examples:
  penstock queue forecast email
  penstock queue forecast email --rate 50/s
  penstock queue forecast email --set burst=10 --set lanes.rate=2/s
  penstock queue forecast email -o json | jq .finish_at`
}

// foreseen is a forecast, and the past for its picture.
type foreseen struct {
	wire.QueueForecast
	past *wire.Curves // nil if no picture is drawn
}

func (c *forecastCmd) Run(r *command.Run, api *client.Client) error {
	settings, err := c.settings()
	if err != nil {
		return command.Usage(err)
	}
	return command.Watch(r, &c.Watched, func(ctx context.Context) (v foreseen, err error) {
		if v.QueueForecast, err = api.Forecast(ctx, c.Name, settings...); err != nil {
			return v, err
		}
		if _, ok := r.Screen(c.Colors); ok && !c.JSON() {
			curves, err := api.Curves(ctx, []string{c.Name}, "15m")
			if err != nil {
				return v, err
			}
			v.past = &curves
		}
		return v, nil
	}, func(v foreseen, _ time.Time) string {
		if s, ok := r.Screen(c.Colors); ok {
			return v.onScreen(&s)
		}
		return curveText(v.QueueForecast)
	})
}

// settings returns the assumed settings.
func (c *forecastCmd) settings() ([]string, error) {
	settings := slices.Clone(c.Set)
	for _, s := range settings {
		field, err := assign.Field(s)
		if err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
		if field == "rate" && c.Rate != "" {
			return nil, errors.New("--rate and --set rate= are the same setting; use only one")
		}
	}
	if c.Rate != "" {
		settings = append(settings, "rate="+c.Rate)
	}
	return settings, nil
}

// onScreen returns the picture, its bends and the end.
func (v *foreseen) onScreen(s *command.Screen) string {
	f := &v.QueueForecast
	text := pictureText(s, v.past, f)
	if len(f.Bends) > 0 && (f.FinishAt == nil || f.Bends[0].Remaining > 0) {
		if text != "" {
			text += "\n"
		}
		text += bendsText(f, s.Width) + "\n"
	}
	return text + endText(f, func(at *time.Time) string { return show.Clock(at, f.Now) })
}

// curveText returns the bends of a forecast and its end. Times are relative to the clock of the store.
func curveText(v wire.QueueForecast) string {
	if len(v.Bends) == 0 {
		return endText(&v, show.Instant)
	}
	t := command.NewTable(">IN", "AT", ">LEFT", ">PER SECOND", "BECAUSE")
	for n := range v.Bends {
		b := &v.Bends[n]
		t.Row(
			show.Duration(b.At.Sub(v.Now)), show.Instant(&b.At), jobsText(b.Remaining), plainNumber(b.Rate),
			becauseText(b, show.Instant),
		)
	}
	return t.String() + endText(&v, show.Instant)
}

// endText returns when the queue is empty, and when it would be without the assumed settings. clock formats instants.
func endText(v *wire.QueueForecast, clock func(*time.Time) string) string {
	if len(v.Bends) == 0 {
		return "nothing is known\n"
	}
	if v.FinishAt != nil && v.Bends[0].Remaining == 0 {
		return "the queue is empty\n"
	}
	last := v.Bends[len(v.Bends)-1]
	text := finishText(v.Now, wire.ForecastEnd{FinishAt: v.FinishAt, Exact: v.Exact}, clock)
	if v.FinishAt == nil {
		text = fmt.Sprintf(
			"%s jobs will not leave: they wait for %s", jobsText(last.Remaining), cause.Cause(last.Why).Text(),
		)
	}
	if v.Unchanged != nil {
		text += "\nwithout these settings: " + finishText(v.Now, *v.Unchanged, clock)
	}
	return text + "\n"
}

func finishText(now time.Time, end wire.ForecastEnd, clock func(*time.Time) string) string {
	if end.FinishAt == nil {
		return "never empty"
	}
	text := fmt.Sprintf("empty in %s, at %s", show.Duration(end.FinishAt.Sub(now)), clock(end.FinishAt))
	if end.Exact {
		return text + ": exact"
	}
	return text + ": an estimate"
}

// plainNumber returns a number without an exponent, to three decimals.
func plainNumber(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// jobsText returns a number of jobs. In a forecast, a job that leaves may be there in part.
func jobsText(v float64) string { return plainNumber(math.Ceil(v)) }

// becauseText returns what decides the outflow from a bend on. clock formats instants.
func becauseText(b *wire.Bend, clock func(*time.Time) string) string {
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
			part += " until " + clock(b.Until)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
