package cli

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

type quoteCmd struct {
	Name string  `arg:"" help:"Name of the queue."`
	Jobs *int64  `help:"How many jobs." placeholder:"N"`
	Cost *int64  `help:"Cost of each; default 1." placeholder:"N"`
	Lane *string `help:"Lane of all of them." placeholder:"KEY"`
	Rate *string `help:"What if the queue had this rate." placeholder:"RATE"`
	output
}

// Help is what --help adds.
func (*quoteCmd) Help() string {
	return `Nothing is appended, and no place is kept. Instants are estimates by the pace. How many of the
jobs that wait would expire is exact in a queue with one lane and nothing in flight.

Examples:
  penstock queue quote email --jobs 50000
  penstock queue quote email --jobs 500 --lane example.com
  penstock queue quote email --rate 5/s`
}

func (c *quoteCmd) Run(r *run) error {
	if c.Jobs == nil && c.Rate == nil {
		return usage(fmt.Errorf("give --jobs, or --rate, or both"))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	q, err := api.Quote(r.ctx, c.Name, wire.QuoteRequest{Jobs: c.Jobs, Cost: c.Cost, Lane: c.Lane, Rate: c.Rate})
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, q)
	}
	var pairs []string
	if c.Jobs != nil {
		text := fmt.Sprintf("%d fit, %d would be deferred, %d refused", q.Fit, q.Deferred, q.Refused)
		if q.RefusedAs != "" {
			text += " (" + plain(q.RefusedAs) + ")"
		}
		pairs = append(pairs, "jobs", text)
	}
	pairs = append(pairs, forecastOf(&q.Now)...)
	if q.Then != nil {
		pairs = append(pairs, forecastOf(q.Then)...)
	}
	if q.PausedUntil != nil {
		pairs = append(pairs, "paused", "these are the instants of a queue that goes on "+foreseen(q.PausedUntil))
	} else if q.Paused {
		pairs = append(pairs, "paused", "these are the instants of a queue that is resumed now")
	}
	return facts(r.Out, pairs...)
}

// forecastOf is a forecast in one line.
func forecastOf(f *wire.Forecast) []string {
	text := "nothing waits"
	if f.DrainedAt != nil {
		text = "backlog drained " + foreseen(f.DrainedAt)
	}
	if f.FirstAt != nil {
		text += fmt.Sprintf("; the first leaves %s, the last %s", foreseen(f.FirstAt), foreseen(f.LastAt))
	}
	return []string{"at " + f.Rate.String(), text + expiringOf(&f.Expiring)}
}

// expiringOf says how many that wait would expire; nothing if surely none do.
func expiringOf(e *wire.Expiring) string {
	switch {
	case e.AtLeast:
		return fmt.Sprintf("; at least %s of those that wait would expire", plural(e.Jobs))
	case e.Jobs == 0:
		return ""
	case !e.Exact:
		return fmt.Sprintf("; about %s of those that wait would expire", plural(e.Jobs))
	}
	return fmt.Sprintf("; %s of those that wait would expire", plural(e.Jobs))
}

func foreseen(at *time.Time) string {
	left := time.Until(*at)
	if left <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %s (%s)", short(left), instant(at))
}
